package run

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// printReport prints a run's report as a table: a summary, or all figures.
func printReport(w io.Writer, r *generate.Report, all bool) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, visible.Line(fmt.Sprintf(format, args...)))
	}
	rows := fmt.Sprintf("%d", r.Rows)
	if r.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", r.RowsWithErrors)
	}
	if r.RowsBefore > 0 {
		rows += fmt.Sprintf("; %d of them by earlier runs, %d by this one", r.RowsBefore, r.RowsHere)
	}
	if r.RowsUnfinished > 0 {
		rows += fmt.Sprintf("; %d not finished", r.RowsUnfinished)
	}
	row("rows", "%s", rows)
	if r.RowsGreedy > 0 {
		row("equal", "%s with n above 1 at temperature 0: the completions of each are equal",
			plural.Count(r.RowsGreedy, "row"))
	}
	if r.RowsRepeated > 0 {
		row("repeated", "%s with the id, prompt and parameters of an earlier row, and so with its completions",
			plural.Count(r.RowsRepeated, "row"))
	}
	row("completions", "%d (%s)", r.Completions, r.FinishReasons)
	row("tokens", "%d of prompts, %d generated", r.PromptTokens, r.CompletionTokens)
	if all {
		engineFigures(r, row)
	}
	if r.Restarts > 0 {
		row("restarts", "%d of the engine", r.Restarts)
	}
	if all {
		row("peak pages", "%d of %d", r.PeakPages, r.Pages)
		row("total time", "%s", cli.Seconds(r.TotalSeconds))
	} else {
		row("time", "%s, %s of it to start; %.0f tokens/s", cli.Seconds(r.TotalSeconds),
			cli.Seconds(r.Engine.StartSeconds),
			r.GeneratedTokensPerSec)
	}
	if r.Shard != "" {
		row("shard", "%s", r.Shard)
	}
	row("output", "%s", r.Output)
	table.Flush()
	for _, e := range r.Errors {
		fmt.Fprintf(w, "error: %s\n", visible.Line(e.Spell(cli.AsFlag)))
	}
	if more := r.RowsWithErrors - int64(len(r.Errors)); more > 0 {
		fmt.Fprintf(w, "error: %s\n", fmt.Sprintf("%d more %s", more, plural.Noun(more, "row"))+plural.Of(more, " has",
			" have")+" errors")
	}
}

// engineFigures are the figures of the engine's run.
func engineFigures(r *generate.Report, row func(name, format string, args ...any)) {
	row("start", "%s until programs and weights were ready", cli.Seconds(r.Engine.StartSeconds))
	row("first token", "%s after that", cli.Seconds(r.TimeToFirstToken))
	row("prefill", "%s", ran(r.Engine.PrefillTokens, r.Engine.PrefillSteps, r.Engine.PrefillSeconds))
	row("decode", "%s", ran(r.Engine.DecodeTokens, r.Engine.DecodeSteps, r.Engine.DecodeSeconds))
	row("overall", "%.0f tokens/s in %s, host share %.1f %%", r.GeneratedTokensPerSec,
		cli.Seconds(r.Engine.WallSeconds),
		100*r.HostShare)
	if dropped := r.Engine.DrawnTokens - r.Engine.GeneratedTokens; dropped > 0 {
		row("dropped", "%d tokens of %d generated: after a stop string, or of completions that did not end", dropped,
			r.Engine.DrawnTokens)
	}
	if r.Engine.DraftedTokens > 0 {
		row("speculation", "%s", cli.Speculated(r.Engine))
	}
	if hits := r.Engine.HitTokens; hits > 0 {
		tokens := hits + r.Engine.PrefillTokens
		row("prefix cache", "%d of %d prompt tokens (%.0f %%) reused, %d run", hits, tokens,
			100*share(float64(hits), float64(tokens)), r.Engine.PrefillTokens)
	}
	if r.Engine.Preemptions > 0 {
		row("swapped out", "%s, for want of pages", plural.Count(r.Engine.Preemptions, "sequence"))
	}
	if r.Engine.MovedBytes > 0 {
		row("moved", "%s of keys and values to the host and back", humanize.IBytes(uint64(r.Engine.MovedBytes)))
	}
}

// ran shows steps of one kind, with their rate if their time was measured.
func ran(tokens, steps int, took float64) string {
	text := fmt.Sprintf("%s in %s", plural.Count(tokens, "token"), plural.Count(steps, "step"))
	if took == 0 {
		return text
	}
	return fmt.Sprintf("%.0f tokens/s (%s, %s)", perSecond(tokens, took), text, cli.Seconds(took))
}

func perSecond(n int, seconds float64) float64 { return share(float64(n), seconds) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
