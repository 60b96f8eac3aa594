package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/tally"
)

// plainEvery is the time between plain progress lines.
var plainEvery = 5 * time.Second

// barEvery is the time between redraws of a bar.
const barEvery = 100 * time.Millisecond

// meter shows how far a run is, in the mode that --progress gives: auto, bar, plain or none.
type meter struct {
	w       io.Writer
	mode    string
	total   int64 // rows
	started time.Time
	last    time.Time
	bar     *progressbar.ProgressBar
	off     bool
}

// Start begins to show a job of so many rows.
func (m *meter) Start(rows int64) {
	m.total, m.started, m.last, m.off = rows, time.Now(), time.Now(), m.mode == "none"
	if m.mode == "bar" || m.mode == "auto" && isTerminal(m.w) {
		m.bar = progressbar.NewOptions64(rows, progressbar.OptionSetWriter(terminalOf(m.w)),
			progressbar.OptionSetDescription("rows"),
			progressbar.OptionShowCount(), progressbar.OptionFullWidth(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(barEvery), progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"))
		m.bar.RenderBlank()
		showsBar(m.w, true)
	}
}

// Update shows the counts if the last time was long enough ago: of the whole job, and of what this process drew.
func (m *meter) Update(t, drawn tally.Counts) {
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

// Finish shows the last counts.
func (m *meter) Finish(t, drawn tally.Counts) {
	switch {
	case m.off:
	case m.bar != nil:
		m.draw(t, drawn)
		showsBar(m.w, false)
		fmt.Fprintln(m.w)
	default:
		fmt.Fprintln(m.w, m.line(t, drawn))
	}
}

func (m *meter) draw(t, drawn tally.Counts) {
	text := fmt.Sprintf("%.0f tok/s", m.rate(drawn.CompletionTokens))
	if t.RowsWithErrors > 0 {
		text += fmt.Sprintf(", %d with errors", t.RowsWithErrors)
	}
	m.bar.Describe(text)
	m.bar.Set64(t.Rows)
}

// line is one plain progress line.
func (m *meter) line(t, drawn tally.Counts) string {
	parts := []string{fmt.Sprintf("%d/%d %s", t.Rows, m.total, plural.Noun(m.total, "row"))}
	parts = append(parts, plural.Count(t.Completions, "completion"),
		fmt.Sprintf("%.0f tok/s", m.rate(drawn.CompletionTokens)),
		time.Since(m.started).Round(time.Second).String())
	if t.RowsWithErrors > 0 {
		parts = append(parts, fmt.Sprintf("%d with errors", t.RowsWithErrors))
	}
	if left, done := m.total-t.Rows, drawn.Rows; left > 0 && done > 0 {
		eta := time.Duration(float64(time.Since(m.started)) / float64(done) * float64(left))
		parts = append(parts, "ETA "+eta.Round(time.Second).String())
	}
	return "progress: " + strings.Join(parts, ", ")
}

func (m *meter) rate(n int64) float64 { return float64(n) / max(time.Since(m.started).Seconds(), 1e-9) }
