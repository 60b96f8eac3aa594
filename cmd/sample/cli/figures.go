package cli

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

// EngineFigures gives row the figures of the engine's run, each with its name.
func EngineFigures(s engine.Stats, row func(name, format string, args ...any)) {
	row("start", "%s until programs and weights were ready", Seconds(s.StartSeconds))
	row("first token", "%s after that", Seconds(s.FirstTokenSeconds))
	fitted := s.FittedSeconds > 0
	row("prefill", "%s", ran(s.PrefillTokens, s.PrefillSteps, s.PrefillSeconds, fitted))
	row("decode", "%s", ran(s.DecodeTokens, s.DecodeSteps, s.DecodeSeconds, fitted))
	row("overall", "%.0f tokens/s in %s, host share %.1f %%", perSecond(s.GeneratedTokens, s.WallSeconds),
		Seconds(s.WallSeconds),
		100*share(s.HostSeconds, s.WallSeconds))
	if dropped := s.DrawnTokens - s.GeneratedTokens; dropped > 0 {
		row("dropped", "%d tokens of %d generated: after a stop string, or of completions that did not end", dropped,
			s.DrawnTokens)
	}
	if s.DraftedTokens > 0 {
		row("speculation", "%s", Speculated(s))
	}
	if hits := s.HitTokens; hits > 0 {
		tokens := hits + s.PrefillTokens
		row("prefix cache", "%d of %d prompt tokens (%.0f %%) reused, %d run", hits, tokens,
			100*share(float64(hits), float64(tokens)), s.PrefillTokens)
	}
	if s.Preemptions > 0 {
		row("swapped out", "%s, for want of pages", plural.Count(s.Preemptions, "sequence"))
	}
	if s.MovedBytes > 0 {
		row("moved", "%s of keys and values to the host and back", humanize.IBytes(uint64(s.MovedBytes)))
	}
}

// ran shows steps of one kind, with their rate if their time is known: an estimate if it was fitted to calls.
func ran(tokens, steps int, seconds float64, fitted bool) string {
	text := fmt.Sprintf("%s in %s", plural.Count(tokens, "token"), plural.Count(steps, "step"))
	if seconds == 0 {
		return text
	}
	about := ""
	if fitted {
		about = "about "
	}
	return fmt.Sprintf("%s%.0f tokens/s (%s, %s)", about, perSecond(tokens, seconds), text, Seconds(seconds))
}

func perSecond(n int, seconds float64) float64 { return share(float64(n), seconds) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
