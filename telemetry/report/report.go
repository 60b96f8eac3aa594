// Package report makes one self-contained HTML page about a job from its output rows and its time series. The page
// needs no network and runs no scripts. Everything that comes from models and files is escaped.
package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/tally"
	"github.com/quire/quire/telemetry"
)

// Bounds of what the page shows.
const (
	sampleRows  = 12   // rows shown with their completions
	sampleTexts = 4    // completions of each
	textRunes   = 1500 // of each text
)

// Completion is one row of the output.
type Completion struct {
	ID               string
	Generation       int
	Prompt, Text     string
	FinishReason     string
	PromptTokens     int
	CompletionTokens int
	Err              string
}

// Page gathers what is shown. Add every row of the output, in order.
type Page struct {
	// Output is the job's output folder; Facts are shown first, as name and value.
	Output string
	Facts  [][2]string
	// Processes are those of the job, in order of time.
	Processes []telemetry.Process

	counts     tally.Counts
	rowFailed  bool // one of the completions of the row that is being added
	lastID     string
	lastNumber int // generation of the last completion
	promptLens lengths
	textLens   lengths
	errors     tally.ErrorKinds
	samples    []*sample
	current    *sample // the row that is being added, if it is shown
	random     uint64
}

type sample struct {
	ID, Prompt string
	Texts      []Completion
	More       int
	place      int64
}

// Add takes the next row of the output.
func (p *Page) Add(c Completion) {
	if p.counts.Rows == 0 || c.ID != p.lastID || c.Generation <= p.lastNumber {
		p.lastID, p.rowFailed = c.ID, false
		p.counts.Row(c.PromptTokens, false)
		if c.Err == "" || c.CompletionTokens > 0 { // else the row was refused, and its prompt not run
			p.promptLens.add(c.PromptTokens)
		}
		p.choose(c)
	}
	p.lastNumber = c.Generation
	p.counts.Completion(c.FinishReason, c.CompletionTokens, c.Err != "")
	if c.Err != "" {
		if !p.rowFailed {
			p.rowFailed = true
			p.counts.RowsWithErrors++
		}
		p.errors.Add(c.Err, c.ID)
	} else {
		p.textLens.add(c.CompletionTokens)
	}
	if p.current != nil {
		if len(p.current.Texts) == sampleTexts {
			p.current.More++
		} else {
			c.Text, c.Err = cut(c.Text), cut(c.Err)
			p.current.Texts = append(p.current.Texts, c)
		}
	}
}

// choose decides whether a row is shown: of all rows each is with the same chance, by reservoir sampling with numbers
// that are the same every time.
func (p *Page) choose(c Completion) {
	p.current = nil
	s := &sample{ID: c.ID, Prompt: cut(c.Prompt), place: p.counts.Rows}
	if len(p.samples) < sampleRows {
		p.samples = append(p.samples, s)
		p.current = s
		return
	}
	p.random = p.random*6364136223846793005 + 1442695040888963407
	if at := (p.random >> 33) % uint64(p.counts.Rows); at < sampleRows {
		p.samples[at] = s
		p.current = s
	}
}

func cut(s string) string {
	if len(s) <= textRunes {
		return s
	}
	n := 0
	for i := range s {
		if n++; n > textRunes {
			return s[:i] + " …"
		}
	}
	return s
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count":   func(n int64) string { return humanize.Comma(n) },
	"percent": func(n, of int64) string { return fmt.Sprintf("%.1f", 100*float64(n)/float64(max(of, 1))) },
	"seconds": func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond).String()
	},
	"valid": valid,
}).Parse(pageText))

// valid is a text that may be on the page.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return fmt.Sprintf("%q", s)
}

type named struct {
	Name  string
	Count int64
}

type process struct {
	Name    string
	Color   template.CSS
	Start   telemetry.Start
	Seconds float64
	Rows    int64
	Tokens  int64
	Result  string
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	charts, err := p.charts()
	if err != nil {
		return err
	}
	var reasons []named
	p.counts.FinishReasons.Each(func(name string, n int64) {
		if n > 0 {
			reasons = append(reasons, named{name, n})
		}
	})
	samples := slices.Clone(p.samples)
	slices.SortFunc(samples, func(a, b *sample) int { return int(a.place - b.place) })
	var processes []process
	var slowest []telemetry.Row
	places, names := p.names()
	for i, run := range p.Processes {
		color := template.CSS(fmt.Sprintf("var(--process-%d)", places[i]%processColors))
		one := process{Name: names[places[i]], Color: color, Start: run.Start, Result: "still runs, or was killed"}
		if run.End != nil {
			one.Result = run.End.Result
		}
		if n := len(run.Points); n > 0 {
			last := run.Points[n-1]
			one.Seconds, one.Rows, one.Tokens = last.Seconds, last.Rows, last.CompletionTokens
		}
		processes = append(processes, one)
		slowest = append(slowest, run.Slowest...)
	}
	slices.SortStableFunc(slowest, func(a, b telemetry.Row) int {
		return cmp.Compare(b.Seconds, a.Seconds)
	})
	shown := visible.NewWriter(w) // a browser obeys marks that turn text around
	err = pageTemplate.Execute(shown, map[string]any{
		"Output": p.Output, "Facts": p.Facts, "Counts": p.counts, "Outputs": p.counts.FinishReasons.Sum(),
		"Reasons": reasons, "Errors": p.errors.All(), "Samples": samples, "Processes": processes, "Charts": charts,
		"Slowest": slowest[:min(len(slowest), sampleRows)],
		"Lengths": []summary{p.promptLens.summary("prompt tokens"), p.textLens.summary("completion tokens")},
	})
	if err != nil {
		return err
	}
	return shown.Flush()
}
