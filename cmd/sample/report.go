package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/engine"
)

// runReport is the final report of a run; --report writes it as JSON. Seconds are wall-clock.
type runReport struct {
	Version     string         `json:"version"`
	Model       string         `json:"model"`
	Fingerprint string         `json:"model_fingerprint"`
	Inputs      []string       `json:"inputs"`
	Output      string         `json:"output"`
	Shard       string         `json:"shard,omitempty"` // of which all figures are
	Parameters  map[string]any `json:"parameters"`
	Plan        engine.Plan    `json:"plan"`

	tally                           // of the whole job
	RowsBefore     int64            `json:"rows_before"`     // of these, in parts that earlier runs published
	RowsUnfinished int64            `json:"rows_unfinished"` // begun and not finished
	Restarts       int              `json:"restarts"`        // of the engine, after the device failed
	FinishReasons  map[string]int64 `json:"finish_reasons"`
	RowsGreedy     int64            `json:"rows_greedy_with_several_completions,omitempty"` // drawn by this process, n above 1 at temperature 0
	RowsRepeated   int64            `json:"rows_repeated,omitempty"`                        // drawn by this process, equal to an earlier one
	Errors         []string         `json:"errors,omitempty"`                               // the first few
	Interrupted    bool             `json:"interrupted"`

	TotalSeconds          float64      `json:"total_seconds"` // with opening the model and writing
	TimeToFirstToken      float64      `json:"time_to_first_token_seconds"`
	PrefillTokensPerSec   float64      `json:"prefill_tokens_per_second"`   // while the prefill program ran
	DecodeTokensPerSec    float64      `json:"decode_tokens_per_second"`    // while the decode program ran
	GeneratedTokensPerSec float64      `json:"generated_tokens_per_second"` // over the whole of the engine's run
	HostShare             float64      `json:"host_share"`                  // of the engine's run, in which the device waited
	PeakPages             int          `json:"peak_pages"`
	Pages                 int          `json:"pages"`
	Engine                engine.Stats `json:"engine"`
}

// report gathers the figures after a run.
func (j *job) report(s *session, started time.Time, interrupted bool) *runReport {
	st := s.Stats()
	done, _, running := j.out.counts()
	greedy, repeated := j.builder.equal.counts()
	return &runReport{
		Version: quireVersion(), Model: s.model, Fingerprint: s.fingerprint, Inputs: j.options.inputs, Output: j.options.output, Shard: shardText(j.options.shard),
		Parameters: j.options.parameters(), Plan: s.Plan(),
		tally: done, RowsBefore: j.saved.before.Rows, RowsUnfinished: running, Restarts: j.restarts, FinishReasons: j.out.finishReasons, Errors: j.out.errors, Interrupted: interrupted,
		RowsGreedy: greedy, RowsRepeated: repeated,
		TotalSeconds: time.Since(started).Seconds(), TimeToFirstToken: st.FirstTokenSeconds,
		PrefillTokensPerSec:   perSecond(st.PrefillTokens, st.PrefillSeconds),
		DecodeTokensPerSec:    perSecond(st.DecodeTokens, st.DecodeSeconds),
		GeneratedTokensPerSec: perSecond(st.GeneratedTokens, st.WallSeconds),
		HostShare:             share(st.HostSeconds, st.WallSeconds),
		PeakPages:             st.PeakPages, Pages: st.Pages, Engine: st,
	}
}

func perSecond(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// print writes the report as a table.
func (r *runReport) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	rows := fmt.Sprintf("%d", r.Rows)
	if r.RowsWithErrors > 0 {
		rows += fmt.Sprintf(", %d with errors", r.RowsWithErrors)
	}
	if r.RowsBefore > 0 {
		rows += fmt.Sprintf("; %d of them by earlier runs", r.RowsBefore)
	}
	if r.RowsUnfinished > 0 {
		rows += fmt.Sprintf("; %d begun and not finished", r.RowsUnfinished)
	}
	row("rows", "%s", rows)
	if r.RowsGreedy > 0 {
		row("equal", "%d rows have n above 1 at temperature 0, and equal completions", r.RowsGreedy)
	}
	if r.RowsRepeated > 0 {
		row("repeated", "%d rows have the id, prompt and parameters of an earlier row, and its completions", r.RowsRepeated)
	}
	row("completions", "%d (%s)", r.Completions, r.reasons())
	row("tokens", "%d of prompts, %d generated", r.PromptTokens, r.CompletionTokens)
	row("start", "%s until programs and weights were ready", seconds(r.Engine.StartSeconds))
	row("first token", "%s after that", seconds(r.TimeToFirstToken))
	row("prefill", "%.0f tokens/s (%d in %s)", r.PrefillTokensPerSec, r.Engine.PrefillTokens, seconds(r.Engine.PrefillSeconds))
	row("decode", "%.0f tokens/s (%d in %s)", r.DecodeTokensPerSec, r.Engine.DecodeTokens, seconds(r.Engine.DecodeSeconds))
	row("overall", "%.0f tokens/s in %s, host share %.1f %%", r.GeneratedTokensPerSec, seconds(r.Engine.WallSeconds), 100*r.HostShare)
	if hits := r.Engine.HitTokens; hits > 0 {
		row("prefixes", "%d prompt tokens taken over from prefixes that were there, %d run", hits, r.Engine.PrefillTokens)
	}
	if r.Engine.Preemptions > 0 {
		row("moved out", "%d sequences, for want of pages", r.Engine.Preemptions)
	}
	if r.Engine.MovedBytes > 0 {
		row("moved", "%s of keys and values to the host and back", humanize.IBytes(uint64(r.Engine.MovedBytes)))
	}
	if r.Restarts > 0 {
		row("restarts", "%d of the engine", r.Restarts)
	}
	row("peak pages", "%d of %d", r.PeakPages, r.Pages)
	row("total time", "%s", seconds(r.TotalSeconds))
	if r.Shard != "" {
		row("shard", "%s", r.Shard)
	}
	row("output", "%s", r.Output)
	table.Flush()
	for _, e := range r.Errors {
		fmt.Fprintf(w, "error: %s\n", e)
	}
	if more := r.RowsWithErrors - int64(len(r.Errors)); more > 0 {
		fmt.Fprintf(w, "error: %d more rows have errors\n", more)
	}
}

func (r *runReport) reasons() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(r.FinishReasons)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.FinishReasons[reason], reason))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
