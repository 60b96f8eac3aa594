// Package report makes one self-contained HTML page about a job from its output rows and its time series. The page
// needs no network and runs no scripts. Everything that comes from models and files is escaped.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"unicode/utf8"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/tally"
)

// Completion is one row of the output.
type Completion struct {
	ID               string
	Generation       int
	Prompt           string
	Text             string // including tool calls, as readable text
	FinishReason     string
	PromptTokens     int
	CompletionTokens int
	Err              string
	MeanLogprob      *float64 // mean over its tokens; nil if it is not known
}

// Logprob is the mean as text; "" if it is not known.
func (c Completion) Logprob() string {
	if c.MeanLogprob == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", *c.MeanLogprob)
}

// cut reports whether max_tokens ended the completion. Where it is 0, nothing was to be generated.
func (c *Completion) cut() bool {
	return c.Err == "" && c.FinishReason == "length" && c.CompletionTokens > 0
}

// empty reports whether there is nothing, although there was to be something.
func (c *Completion) empty() bool {
	return c.Err == "" && blank(c.Text) && (c.FinishReason != "length" || c.CompletionTokens > 0)
}

// Kinds of a job's state.
const (
	Finished = "finished"
	Running  = "running"
	Stopped  = "not finished"
)

// Generated is what weights generated.
type Generated struct {
	Completions int64 // whose first token they generated
	Tokens      int64
}

// Page gathers what is shown. Add every row of the output, in order.
type Page struct {
	// Output is the job's output folder, State one of the kinds or "", and StateText describes it.
	Output, State, StateText string
	// Line has the settings that matter. Facts are all of them, as name and value.
	Line  string
	Facts [][2]string
	// Rows and Completions are how many the job will have; 0 is not known. MaxTokens is its limit of a completion.
	Rows, Completions, MaxTokens int64
	// Processes are the job's processes, in order of time. TokensPerSecond is how fast they were while one generated, 0
	// if it is not known.
	Processes       []telemetry.Process
	TokensPerSecond float64
	// Versions is what each version of the weights generated, as far as the output says so.
	Versions map[string]Generated

	counts     tally.Counts
	empty      int64
	cut        int64
	equal      equals
	promptLens lengths
	textLens   lengths
	errors     tally.ErrorKinds
	chosen     chosen
	row        *row // the row that is being added
}

// Add takes the next row of the output.
func (p *Page) Add(c Completion) {
	if p.row == nil || c.ID != p.row.id || c.Generation <= p.row.last {
		p.endRow()
		p.row = newRow(&c)
		p.counts.Row(c.PromptTokens, false)
		if c.Err == "" || c.CompletionTokens > 0 { // else the row was refused, and its prompt not run
			p.promptLens.add(c.PromptTokens)
		}
	}
	p.counts.Completion(c.FinishReason, c.CompletionTokens, c.Err != "")
	switch {
	case c.Err != "":
		if p.row.failed == nil {
			p.counts.RowsWithErrors++
		}
		p.errors.Add(c.Err, c.ID)
	default:
		p.textLens.add(c.CompletionTokens)
	}
	if c.empty() {
		p.empty++
	}
	if c.cut() {
		p.cut++
	}
	p.row.add(&c)
}

func (p *Page) endRow() {
	if p.row == nil {
		return
	}
	p.equal.add(p.row)
	p.chosen.add(p.row)
	p.row = nil
}

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
	Name        string
	Color       template.CSS
	Start       telemetry.Start
	Seconds     float64
	Completions int64 // its own completions: a row may belong to several processes, a completion belongs to one
	Tokens      int64
	Result      string
}
