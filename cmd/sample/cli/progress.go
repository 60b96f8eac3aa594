package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/batch/measure"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/internal/plural"
)

func MemoryText(n int64) string { return humanize.IBytes(uint64(max(0, n))) }

// PlainEvery is the time between plain progress lines.
var PlainEvery = 5 * time.Second

// BarEvery is the time between redraws of a bar.
const BarEvery = 500 * time.Millisecond

// rateWindow is the time that rates are measured over.
const rateWindow = time.Minute

// Meter shows the progress of a run, in the mode that --progress gives: auto, bar, plain or none.
type Meter struct {
	To   io.Writer
	Mode string
	// Tokens returns the tokens that this process has generated and that are in no completion yet; nil if they are not
	// known before their completions end.
	Tokens func() int64

	// Task is the job's. Of others than generate, rates are of the tokens of prompts.
	Task    completion.Task
	Each    int64 // completions of a row without its own number; 0 means 1
	total   int64 // rows; -1 if it is not known
	started time.Time
	bar     *progressbar.ProgressBar
	stop    chan struct{} // closed to end the showing
	stopped sync.WaitGroup

	mu          sync.Mutex
	done, drawn tally.Counts // of the whole job, and of what this process generated
	copied      int64        // completions that this process copied
	moments     []moment     // moments of the last rateWindow, and one before it
}

// moment is how far the run was at a time.
type moment struct {
	time         time.Time
	rows, tokens int64
}

// Start begins to show a job of so many rows.
func (m *Meter) Start(rows int64) {
	m.total, m.started = rows, time.Now()
	m.moments = []moment{{time: m.started}}
	if m.Mode == "none" {
		return
	}
	every := PlainEvery
	if m.Mode == "bar" || m.Mode == "auto" && IsTerminal(m.To) {
		every = BarEvery
		m.bar = progressbar.NewOptions64(m.expected(), progressbar.OptionSetWriter(terminalOf(m.To)),
			progressbar.OptionSetDescription(m.Task.Results()), progressbar.OptionShowDescriptionAtLineEnd(),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(barCells),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
		m.bar.RenderBlank()
		showsBar(m.To, true)
	}
	m.stop = make(chan struct{})
	m.stopped.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-ticker.C:
				m.show()
			}
		}
	})
}

// Update takes the counts: of the whole job, of what this process generated, and of what it copied.
func (m *Meter) Update(done, drawn, copied tally.Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.drawn, m.copied = done, drawn, copied.FinishReasons.Sum()
}

// Finish shows the last counts.
func (m *Meter) Finish(done, drawn, copied tally.Counts) {
	if m.stop == nil {
		return
	}
	close(m.stop)
	m.stopped.Wait()
	m.stop = nil
	m.Update(done, drawn, copied)
	m.show()
	if m.bar != nil {
		showsBar(m.To, false)
		fmt.Fprintln(m.To)
	}
}

func (m *Meter) show() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := moment{time.Now(), m.drawn.Rows, m.drawn.CompletionTokens}
	if m.Task.Encodes() {
		now.tokens = m.drawn.PromptTokens
	} else if m.Tokens != nil {
		now.tokens = max(now.tokens, m.Tokens())
	}
	m.moments = append(m.moments, now)
	for len(m.moments) > 2 && now.time.Sub(m.moments[1].time) >= rateWindow {
		m.moments = m.moments[1:]
	}
	rows := fmt.Sprintf("%d/%d", m.done.Rows, m.total)
	if m.total < 0 {
		rows = fmt.Sprint(m.done.Rows)
	}
	columns, finished, expected := TerminalWidth(m.To), m.done.FinishReasons.Sum(), m.expected()
	completions := fmt.Sprintf("%d/%d", finished, expected)
	if m.total < 0 {
		completions = fmt.Sprint(finished)
	}
	switch {
	case m.bar == nil:
		rows += " " + plural.Noun(max(m.total, m.done.Rows), "row")
		shown := []string{"progress: " + rows, completions + " " + plural.Noun(max(expected, finished), "completion")}
		if m.Task.Encodes() { // each row has one
			shown = shown[:1]
		}
		fmt.Fprintln(m.To, strings.Join(append(shown, m.parts()...), ", "))
	case columns < barColumns:
		fmt.Fprint(terminalOf(m.To), clearLine+fitting(append([]string{completions}, m.parts()...), columns-1))
	default:
		if expected >= 0 {
			m.bar.ChangeMax64(expected)
		}
		used := len("100% || () ") + barCells + 2*len(fmt.Sprint(expected)) + 2
		m.bar.Describe(fitting(m.parts(), columns-used))
		m.bar.Set64(finished)
	}
}

// expected is how many completions the job has in the end, -1 if that is not known. Unfinished rows count with Each,
// which is a guess for rows with their own number.
func (m *Meter) expected() int64 {
	if m.total < 0 {
		return -1
	}
	finished, left, each := m.done.FinishReasons.Sum(), max(0, m.total-m.done.Rows), max(1, m.Each)
	return max(finished+left, min(m.total*each, finished+left*each))
}

// barCells is the width of the bar itself in columns.
const barCells = 24

// barColumns is the smallest width of a terminal that shows a bar. Narrower terminals show only the figures.
const barColumns = 80

// fitting joins the first of the parts that fit into so many columns.
func fitting(parts []string, columns int) string {
	text := ""
	for _, part := range parts {
		with := strings.TrimPrefix(text+", "+part, ", ")
		if utf8.RuneCountInString(with) > columns {
			break
		}
		text = with
	}
	return text
}

// parts are the figures of this moment, those first that a narrow terminal shows.
func (m *Meter) parts() []string {
	first, now := m.moments[0], m.moments[len(m.moments)-1]
	seconds := max(now.time.Sub(first.time).Seconds(), 1e-9)
	tokens, rows := float64(now.tokens-first.tokens)/seconds, float64(now.rows-first.rows)/seconds
	parts := []string{fmt.Sprintf("%.0f tok/s", tokens)}
	if left := m.left(now, tokens); left > 0 {
		parts = append(parts, "ETA "+left.Round(time.Second).String())
	}
	parts = append(parts, Rate(rows)+" rows/s")
	if m.copied > 0 {
		parts = append(parts, fmt.Sprintf("%d copied", m.copied))
	}
	if m.done.RowsWithErrors > 0 {
		parts = append(parts, fmt.Sprintf("%d with errors", m.done.RowsWithErrors))
	}
	if bytes := measure.ResidentMemory(); bytes > 0 {
		parts = append(parts, MemoryText(bytes))
	}
	return append(parts, now.time.Sub(m.started).Round(time.Second).String())
}

// left is the time that the unfinished completions will take. Their tokens are guessed from the finished ones. It is 0
// if there is nothing to guess from.
func (m *Meter) left(now moment, rate float64) time.Duration {
	completions, drawn := m.expected()-m.done.FinishReasons.Sum(), m.drawn.FinishReasons.Sum()
	if completions <= 0 || drawn == 0 || rate <= 0 {
		return 0
	}
	finished := m.drawn.CompletionTokens
	if m.Task.Encodes() {
		finished = m.drawn.PromptTokens
	}
	each := float64(finished) / float64(drawn)
	tokens := float64(completions)*each - float64(now.tokens-finished) // some are generated already
	return time.Duration(max(tokens, 0) / rate * float64(time.Second))
}

// FetchProgress shows a download: a bar on a terminal, lines elsewhere.
func FetchProgress(w io.Writer) setup.Progress {
	var bar *progressbar.ProgressBar
	var stage setup.Stage
	var last time.Time
	bars := IsTerminal(w)
	return func(s setup.Step) {
		if s.Stage != stage {
			if bar != nil {
				bar.Finish()
				fmt.Fprintln(w)
				bar = nil
			}
			stage, last = s.Stage, time.Time{}
			if !bars || s.Stage != setup.Downloading {
				fmt.Fprintf(w, "%s: %s %s\n", s.Item, s.Stage, s.File)
			}
		}
		if s.Stage != setup.Downloading || s.Total == 0 {
			return
		}
		if bars {
			if bar == nil {
				bar = progressbar.NewOptions64(s.Total, progressbar.OptionSetWriter(terminalOf(w)),
					progressbar.OptionShowBytes(true),
					progressbar.OptionSetDescription(s.Item), progressbar.OptionFullWidth(),
					progressbar.OptionShowCount())
			}
			bar.Set64(s.Done)
			return
		}
		if now := time.Now(); now.Sub(last) >= PlainEvery || s.Done == s.Total {
			last = now
			fmt.Fprintf(w, "%s: %s of %s\n", s.Item, humanize.Bytes(uint64(s.Done)), humanize.Bytes(uint64(s.Total)))
		}
	}
}
