package generate

import (
	"sort"
	"time"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/tally"
)

// Report says what a run came to; "sample run --report" writes it as JSON. Seconds are wall-clock.
type Report struct {
	Version     string         `json:"version"`
	Model       string         `json:"model"`
	Fingerprint string         `json:"model_fingerprint"`
	Inputs      []string       `json:"inputs"`
	Output      string         `json:"output"`
	Shard       string         `json:"shard,omitempty"` // of which all figures are
	Parameters  map[string]any `json:"parameters"`
	Defaults    string         `json:"defaults,omitempty"` // of these, those that the model's files ask for
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

	// Followed says that process 0 of several has the output and the figures, and AlreadyFinished that nothing was left
	// to do.
	Followed        bool `json:"-"`
	AlreadyFinished bool `json:"-"`
	// Parts and RowsPlanned are those of this process' share of the job, and Standing how much of the whole job is
	// there after a shard's work; nil for a run of the whole job.
	Parts       int                  `json:"-"`
	RowsPlanned int64                `json:"-"`
	Standing    *resume.Completeness `json:"-"`
}

// newReport begins a report with what is known before anything is drawn.
func newReport(p *process.Process, j *spec.Job, fingerprint string, started time.Time) *Report {
	return &Report{Version: p.Version, Model: j.Model, Fingerprint: fingerprint, Inputs: j.Inputs, Output: j.Output,
		Shard: process.ShardText(p.Shard), Parameters: j.Parameters(), Defaults: j.Defaults,
		TotalSeconds: time.Since(started).Seconds()}
}

// report gathers the figures after a run.
func (g *Generator) report(u *Unit, started time.Time, interrupted bool) *Report {
	report := newReport(g.Process, g.Job, g.last.Fingerprint, started)
	done, drawn, _ := u.Out.Counts()
	report.Plan, report.Counts = g.last.Plan(), done
	report.RowsBefore, report.RowsHere = done.Rows-drawn.Rows, drawn.Rows
	if u.Saved != nil {
		report.RowsUnfinished, report.RowsInPart = u.Saved.Rows-done.Rows, u.partialRows()
	}
	report.RowsGreedy, report.RowsRepeated = g.builder.Equal.Counts()
	report.Restarts, report.Errors, report.Interrupted = g.restarts, u.Out.errors, interrupted
	st := g.engines
	report.TimeToFirstToken = st.FirstTokenSeconds
	report.PrefillTokensPerSec = perSecond(st.PrefillTokens, st.PrefillSeconds)
	report.DecodeTokensPerSec = perSecond(st.DecodeTokens, st.DecodeSeconds)
	report.GeneratedTokensPerSec = perSecond(st.GeneratedTokens, st.WallSeconds)
	if st.WallSeconds > 0 {
		report.HostShare = st.HostSeconds / st.WallSeconds
	}
	report.PeakPages, report.Pages, report.Engine = st.PeakPages, st.Pages, st
	return report
}

// partialRows is how many rows are not finished of which completions are kept: rows in flight, and those that only the
// journal knows yet.
func (u *Unit) partialRows() int64 {
	rows := u.Out.partialRows()
	entries := u.Saved.Entries
	at := sort.Search(len(entries), func(i int) bool { return entries[i].Row >= u.Rows.begunTo })
	for i := at; i < len(entries); i++ {
		if i == at || entries[i].Row != entries[i-1].Row {
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
