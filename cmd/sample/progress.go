package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
)

// plainEvery is the time between plain progress lines.
var plainEvery = 5 * time.Second

// barEvery is the time between redraws of a bar.
const barEvery = 100 * time.Millisecond

// tally counts what a run has done so far.
type tally struct {
	Rows             int64 `json:"rows"`
	RowsWithErrors   int64 `json:"rows_with_errors"`
	Completions      int64 `json:"completions"`
	PromptTokens     int64 `json:"prompt_tokens"`     // of each row once
	CompletionTokens int64 `json:"completion_tokens"` // of all completions
}

// meter shows how far a run is.
type meter struct {
	w       io.Writer
	total   int64 // rows
	before  int64 // rows that earlier processes did
	started time.Time
	last    time.Time
	bar     *progressbar.ProgressBar
	off     bool
}

// newMeter makes a meter in the mode that --progress gives: auto, bar, plain or none.
func newMeter(w io.Writer, mode string, total, before int64) *meter {
	m := &meter{w: w, total: total, before: before, started: time.Now(), last: time.Now(), off: mode == "none"}
	if mode == "bar" || mode == "auto" && isTerminal(w) {
		m.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("rows"),
			progressbar.OptionShowCount(), progressbar.OptionFullWidth(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(barEvery), progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"))
		m.bar.RenderBlank()
	}
	return m
}

// update shows the counts if the last time was long enough ago: of the whole job, and of what this process drew.
func (m *meter) update(t, drawn tally) {
	now := time.Now()
	switch {
	case m.off:
	case m.bar != nil:
		if now.Sub(m.last) >= barEvery {
			m.last = now
			m.draw(t, drawn)
		}
	case now.Sub(m.last) >= plainEvery:
		m.last = now
		fmt.Fprintln(m.w, m.line(t, drawn))
	}
}

// finish shows the last counts.
func (m *meter) finish(t, drawn tally) {
	switch {
	case m.off:
	case m.bar != nil:
		m.draw(t, drawn)
		fmt.Fprintln(m.w)
	default:
		fmt.Fprintln(m.w, m.line(t, drawn))
	}
}

func (m *meter) draw(t, drawn tally) {
	text := fmt.Sprintf("%.0f tok/s", m.rate(drawn.CompletionTokens))
	if t.RowsWithErrors > 0 {
		text += fmt.Sprintf(", %d with errors", t.RowsWithErrors)
	}
	m.bar.Describe(text)
	m.bar.Set64(t.Rows)
}

// line is one plain progress line.
func (m *meter) line(t, drawn tally) string {
	parts := []string{fmt.Sprintf("%d/%d rows", t.Rows, m.total)}
	parts = append(parts, fmt.Sprintf("%d completions", t.Completions), fmt.Sprintf("%.0f tok/s", m.rate(drawn.CompletionTokens)),
		time.Since(m.started).Round(time.Second).String())
	if t.RowsWithErrors > 0 {
		parts = append(parts, fmt.Sprintf("%d with errors", t.RowsWithErrors))
	}
	if left, done := m.total-t.Rows, t.Rows-m.before; left > 0 && done > 0 {
		eta := time.Duration(float64(time.Since(m.started)) / float64(done) * float64(left))
		parts = append(parts, "ETA "+eta.Round(time.Second).String())
	}
	return "progress: " + strings.Join(parts, ", ")
}

func (m *meter) rate(n int64) float64 { return float64(n) / max(time.Since(m.started).Seconds(), 1e-9) }
