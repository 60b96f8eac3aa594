package main

import (
	"fmt"
	"io"
	"sort"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/tally"
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

	tally.Counts // of the whole job: of earlier runs and of this one
	// of these, finished by earlier runs: in their parts, or whole in the journal
	RowsBefore     int64 `json:"rows_before"`
	RowsHere       int64 `json:"rows_here"`       // the others, finished by this run
	RowsUnfinished int64 `json:"rows_unfinished"` // all other rows of the job
	// of these, with some of their completions kept
	RowsInPart int64 `json:"rows_in_part"`
	// of the engine, after the device failed
	Restarts int `json:"restarts"`
	// drawn by this process, n above 1 at temperature 0
	RowsGreedy   int64    `json:"rows_greedy_with_several_completions,omitempty"`
	RowsRepeated int64    `json:"rows_repeated,omitempty"` // drawn by this process, equal to an earlier one
	Errors       []string `json:"errors,omitempty"`        // the first few
	Interrupted  bool     `json:"interrupted"`

	TotalSeconds     float64 `json:"total_seconds"` // with opening the model and writing
	TimeToFirstToken float64 `json:"time_to_first_token_seconds"`
	// The device's time in steps of one kind is measured where it has a clock (xla:cpu with kernels); elsewhere these
	// are absent.
	// prompt tokens that were run, while steps of prompts ran
	PrefillTokensPerSec float64 `json:"prefill_tokens_per_second,omitempty"`
	// tokens that were run to draw the next, while those steps ran
	DecodeTokensPerSec float64 `json:"decode_tokens_per_second,omitempty"`
	// of completions that came out, over the whole of the engine's run
	GeneratedTokensPerSec float64      `json:"generated_tokens_per_second"`
	HostShare             float64      `json:"host_share"` // of the engine's run, in which the device ran nothing
	PeakPages             int          `json:"peak_pages"`
	Pages                 int          `json:"pages"`
	Engine                engine.Stats `json:"engine"`
}

// report gathers the figures after a run.
func (j *job) report(s *session, started time.Time, interrupted bool) *runReport {
	st := j.engines
	done, drawn, _ := j.out.counts()
	greedy, repeated := j.builder.equal.counts()
	return &runReport{
		Version: quireVersion(), Model: s.model, Fingerprint: s.fingerprint, Inputs: j.options.inputs,
		Output: j.options.output, Shard: shardText(j.options.shard),
		Parameters: j.options.parameters(), Plan: s.Plan(),
		Counts: done, RowsBefore: done.Rows - drawn.Rows, RowsHere: drawn.Rows,
		RowsUnfinished: j.saved.rows - done.Rows, RowsInPart: j.rowsInPart(),
		Restarts: j.restarts, RowsGreedy: greedy, RowsRepeated: repeated, Errors: j.out.errors,
		Interrupted:  interrupted,
		TotalSeconds: time.Since(started).Seconds(), TimeToFirstToken: st.FirstTokenSeconds,
		PrefillTokensPerSec:   perSecond(st.PrefillTokens, st.PrefillSeconds),
		DecodeTokensPerSec:    perSecond(st.DecodeTokens, st.DecodeSeconds),
		GeneratedTokensPerSec: perSecond(st.GeneratedTokens, st.WallSeconds),
		HostShare:             share(st.HostSeconds, st.WallSeconds),
		PeakPages:             st.PeakPages, Pages: st.Pages, Engine: st,
	}
}

// rowsInPart is how many rows are not finished of which completions are kept: rows in flight, and those that only the
// journal knows yet.
func (j *job) rowsInPart() int64 {
	rows := j.out.inPart()
	entries := j.saved.entries
	at := sort.Search(len(entries), func(i int) bool { return entries[i].row >= j.begun })
	for i := at; i < len(entries); i++ {
		if i == at || entries[i].row != entries[i-1].row {
			rows++
		}
	}
	return rows
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
	row("start", "%s until programs and weights were ready", seconds(r.Engine.StartSeconds))
	row("first token", "%s after that", seconds(r.TimeToFirstToken))
	row("prefill", "%s", ran(r.Engine.PrefillTokens, r.Engine.PrefillSteps, r.Engine.PrefillSeconds))
	row("decode", "%s", ran(r.Engine.DecodeTokens, r.Engine.DecodeSteps, r.Engine.DecodeSeconds))
	row("overall", "%.0f tokens/s in %s, host share %.1f %%", r.GeneratedTokensPerSec, seconds(r.Engine.WallSeconds),
		100*r.HostShare)
	if dropped := r.Engine.DrawnTokens - r.Engine.GeneratedTokens; dropped > 0 {
		row("dropped", "%d tokens of %d drawn: behind a stop string, or of completions that did not end", dropped,
			r.Engine.DrawnTokens)
	}
	if hits := r.Engine.HitTokens; hits > 0 {
		row("prefixes", "%d prompt tokens taken over from prefixes that were there, %d run", hits,
			r.Engine.PrefillTokens)
	}
	if r.Engine.Preemptions > 0 {
		row("moved out", "%s, for want of pages", plural.Count(r.Engine.Preemptions, "sequence"))
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
		fmt.Fprintf(w, "error: %s\n", visible.Line(e))
	}
	if more := r.RowsWithErrors - int64(len(r.Errors)); more > 0 {
		fmt.Fprintf(w, "error: %s\n", fmt.Sprintf("%d more %s", more, plural.Noun(more, "row"))+plural.Of(more, " has",
			" have")+" errors")
	}
}

// partly says how many rows have completions and are not finished.
func (r *runReport) partly() string {
	if r.RowsInPart == 0 {
		return ""
	}
	return fmt.Sprintf(", with completions of %d more", r.RowsInPart)
}

// ran shows steps of one kind, with their rate where their time was measured.
func ran(tokens, steps int, took float64) string {
	text := fmt.Sprintf("%s in %s", plural.Count(tokens, "token"), plural.Count(steps, "step"))
	if took == 0 {
		return text
	}
	return fmt.Sprintf("%.0f tokens/s (%s, %s)", perSecond(tokens, took), text, seconds(took))
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
