package promptset

import (
	"fmt"
	"strings"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/promptset/completion"
	"github.com/quire/quire/promptset/folder"
)

// WantedRow is what the output is to have of a row of the input: generations First to First+N-1, or one row with an
// error.
type WantedRow struct {
	Row      *Row
	First, N int
}

// RowCheck checks the rows of a part as [Output.Read] gives them: that there is each generation of each row of the
// input once, in the order of the input. Without the input it checks what it can: that generations of a row ascend
// by one, and that rows are no more than those due.
type RowCheck struct {
	next func() (WantedRow, bool)
	rows int64 // due in the part

	// Summary is what the part came to. Without the input, the figures of rows are those that the order of generations
	// tells.
	Summary folder.PartSummary
	problem string

	open   bool // a row of the input is under way
	wanted WantedRow
	id     string
	last   int      // generation
	count  int      // of the row's results
	of     []Result // the row's results, without texts
}

// NewRowCheck checks a part of so many rows of the input. next gives the rows of the input in order; nil stands for
// an input that is not known.
func NewRowCheck(part int, rows int64, next func() (WantedRow, bool)) *RowCheck {
	return &RowCheck{next: next, rows: rows, Summary: folder.PartSummary{Part: part}}
}

// Known says whether the input is known.
func (c *RowCheck) Known() bool { return c.next != nil }

func (c *RowCheck) fail(format string, args ...any) {
	if c.problem == "" {
		c.problem = fmt.Sprintf(format, args...)
	}
}

// Add takes the next row of the part. After the first problem it only counts.
func (c *RowCheck) Add(id string, r *Result) {
	if what := r.Wrong(); what != "" {
		c.fail("generation %d of id %s %s", r.Generation, visible.Quoted(id), what)
	}
	if c.open && c.goesOn(id, r) {
		c.count++
		c.last = r.Generation
	} else {
		c.end()
		c.begin(id, r)
	}
	c.of = append(c.of, Result{
		PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, FinishReason: r.FinishReason, Err: r.Err,
	})
}

// goesOn says that a result belongs to the row of the input that is under way.
func (c *RowCheck) goesOn(id string, r *Result) bool {
	if id != c.id || r.Generation != c.last+1 {
		return false
	}
	return !c.Known() || c.problem != "" || c.wanted.Row.Err == nil && c.count < c.wanted.N
}

// begin takes the first result of a row of the input.
func (c *RowCheck) begin(id string, r *Result) {
	c.open, c.id, c.last, c.count = true, id, r.Generation, 1
	if c.problem != "" {
		return
	}
	if !c.Known() {
		if c.Summary.Rows >= c.rows {
			c.fail("it has more than the %d rows of the input that are due: generation %d of id %s is one too many",
				c.rows, r.Generation, visible.Quoted(id))
		}
		return
	}
	w, ok := c.next()
	if !ok {
		c.fail("it has generation %d of id %s after the last of the %d rows of the input that are due", r.Generation,
			visible.Quoted(id), c.rows)
		return
	}
	c.wanted = w
	switch {
	case !w.Row.IsCalled(id):
		c.fail("it has generation %d of id %s where row %d of the input is due, with id %s", r.Generation,
			visible.Quoted(id), w.Row.Index, visible.Quoted(strings.ToValidUTF8(w.Row.ID, "\uFFFD")))
	case r.Err == "" && w.Row.Err != nil:
		c.fail("it has a completion of id %s, row %d of the input, which can't be run: %v", visible.Quoted(id),
			w.Row.Index, w.Row.Err)
	case r.Err == "" && r.Generation != w.First:
		c.fail("generation %d of id %s stands where generation %d is due", r.Generation, visible.Quoted(id), w.First)
	}
}

// end counts the row of the input that is under way, and finds what it lacks.
func (c *RowCheck) end() {
	if !c.open {
		return
	}
	c.open = false
	row := c.wanted.Row
	if !c.Known() || row == nil || c.problem != "" {
		row = &Row{}
	}
	addToSummary(&c.Summary, row, c.of)
	// A row that can't be run has one result, whatever its n.
	refused := c.count == 1 && c.of[0].Err != ""
	if c.Known() && c.problem == "" && c.count != c.wanted.N && !refused {
		c.fail("id %s, row %d of the input, has %d completions, and %d are due", visible.Quoted(c.id),
			c.wanted.Row.Index, c.count, c.wanted.N)
	}
	c.of = c.of[:0]
}

// Finish returns what is wrong with the rows; "" is nothing.
func (c *RowCheck) Finish() string {
	c.end()
	if c.Known() && c.problem == "" {
		if w, more := c.next(); more {
			c.fail("it has no completions of id %s, row %d of the input", visible.Quoted(w.Row.ID), w.Row.Index)
		}
	}
	return c.problem
}

// Differs says what of a part's figures is not as it was noted; "" is nothing.
func (c *RowCheck) Differs(note folder.PartSummary) string {
	got := c.Summary
	if !c.Known() { // where one row ends and the next begins is not sure
		note.Rows, note.RowsWithErrors, note.PromptTokens = got.Rows, got.RowsWithErrors, got.PromptTokens
	}
	if note.Noted().FinishReasons.Unknown > 0 { // noted by a version that did not count them
		note.FinishReasons = got.FinishReasons
	}
	if r := &got.FinishReasons; note.FinishReasons.ToolCalls == 0 { // of a version that counted them as stopped
		r.Stop, r.ToolCalls = r.Stop+r.ToolCalls, 0
	}
	for _, f := range []struct {
		name      string
		got, want int64
	}{
		{"rows of the input", got.Rows, note.Rows}, {"rows with errors", got.RowsWithErrors, note.RowsWithErrors},
		{"completions", got.Completions, note.Completions},
		{"tokens of prompts", got.PromptTokens, note.PromptTokens}, {"tokens of completions", got.CompletionTokens,
			note.CompletionTokens},
		{"completions with finish_reason stop", got.FinishReasons.Stop, note.FinishReasons.Stop},
		{"completions with finish_reason length", got.FinishReasons.Length, note.FinishReasons.Length},
		{"completions with finish_reason tool_calls", got.FinishReasons.ToolCalls, note.FinishReasons.ToolCalls},
		{"completions with finish_reason error", got.FinishReasons.Error, note.FinishReasons.Error},
	} {
		if f.got != f.want {
			return fmt.Sprintf("it has %d %s, and %d were noted", f.got, f.name, f.want)
		}
	}
	return ""
}

// addToSummary counts a row.
func addToSummary(s *folder.PartSummary, row *Row, results []Result) {
	failed := false
	for _, r := range results {
		s.Completion(r.FinishReason, r.CompletionTokens, r.Err != "")
		failed = failed || r.Err != ""
	}
	s.Row(completion.PromptTokens(row, results), failed)
}
