package promptset

import (
	"fmt"
	"strings"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/internal/visible"
)

// WantedRow is what the output must have for an input row: generations First to First+N-1, or one row with an error.
type WantedRow struct {
	Row      *Row
	First, N int
	// Ended reports whether a row ends with these results, before all N; nil for a row that never does.
	Ended func([]Result) bool
}

// RowCheck checks the rows of a part as [Output.Read] delivers them: each generation of each input row must exist
// once, in the order of the input. Without the input it checks less: generations of a row must ascend by one, and
// there must not be more rows than are due.
type RowCheck struct {
	next func() (WantedRow, bool)
	rows int64 // input rows due in the part

	// Summary has the figures of the part. Without the input, rows are counted by the order of generations.
	Summary folder.PartSummary
	problem string

	open    bool // an input row is in progress
	wanted  WantedRow
	id      string
	last    int      // the last generation
	count   int      // number of the row's results
	results []Result // the row's results, without texts
}

// NewRowCheck checks a part with so many input rows. next returns the input rows in order; nil means that the input
// is unknown.
func NewRowCheck(part int, rows int64, next func() (WantedRow, bool)) *RowCheck {
	return &RowCheck{next: next, rows: rows, Summary: folder.PartSummary{Part: part}}
}

// Known reports whether the input is known.
func (c *RowCheck) Known() bool { return c.next != nil }

func (c *RowCheck) fail(format string, args ...any) {
	if c.problem == "" {
		c.problem = fmt.Sprintf(format, args...)
	}
}

// Add checks the next row of the part. After the first problem it only counts.
func (c *RowCheck) Add(id string, r *Result) {
	if what := r.Wrong(); what != "" {
		c.fail("generation %d of id %s %s", r.Generation, visible.Quoted(id), what)
	}
	if c.open && c.belongs(id, r) {
		c.count++
		c.last = r.Generation
	} else {
		c.end()
		c.begin(id, r)
	}
	c.results = append(c.results, Result{
		Generation: r.Generation, PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens,
		FinishReason: r.FinishReason, Err: r.Err, Judgment: r.Judgment, Verdict: r.Verdict,
	})
}

// belongs reports whether a result belongs to the current input row.
func (c *RowCheck) belongs(id string, r *Result) bool {
	if id != c.id || r.Generation != c.last+1 {
		return false
	}
	return !c.Known() || c.problem != "" || c.wanted.Row.Err == nil && c.count < c.wanted.N
}

// begin starts an input row with its first result.
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

// end counts the current input row, and reports what is missing.
func (c *RowCheck) end() {
	if !c.open {
		return
	}
	c.open = false
	row := c.wanted.Row
	if !c.Known() || row == nil || c.problem != "" {
		row = &Row{}
	}
	addToSummary(&c.Summary, row, c.results)
	// A row that cannot be run has one result for any n.
	refused := c.count == 1 && c.results[0].Err != ""
	ended := c.wanted.Ended != nil && c.wanted.Ended(c.results)
	if c.Known() && c.problem == "" && c.count != c.wanted.N && !refused && !ended {
		c.fail("id %s, row %d of the input, has %d completions, and %d are due", visible.Quoted(c.id),
			c.wanted.Row.Index, c.count, c.wanted.N)
	}
	c.results = c.results[:0]
}

// Finish returns what is wrong with the rows; "" if nothing is.
func (c *RowCheck) Finish() string {
	c.end()
	if c.Known() && c.problem == "" {
		if w, more := c.next(); more {
			c.fail("it has no completions of id %s, row %d of the input", visible.Quoted(w.Row.ID), w.Row.Index)
		}
	}
	return c.problem
}

// Differs returns how a part's figures differ from its note; "" if they do not.
func (c *RowCheck) Differs(note folder.PartSummary) string {
	actual := c.Summary
	if !c.Known() { // the boundaries of rows are uncertain
		note.Rows, note.RowsWithErrors, note.PromptTokens = actual.Rows, actual.RowsWithErrors, actual.PromptTokens
	}
	if note.Noted().FinishReasons.Unknown > 0 { // noted by a version that did not count reasons
		note.FinishReasons = actual.FinishReasons
	}
	// noted by a version that counted tool calls as stopped
	if r := &actual.FinishReasons; note.FinishReasons.ToolCalls == 0 {
		r.Stop, r.ToolCalls = r.Stop+r.ToolCalls, 0
	}
	for _, f := range []struct {
		name         string
		actual, want int64
	}{
		{"rows of the input", actual.Rows, note.Rows}, {"rows with errors", actual.RowsWithErrors, note.RowsWithErrors},
		{"completions", actual.Completions, note.Completions},
		{"tokens of prompts", actual.PromptTokens, note.PromptTokens},
		{"tokens of completions", actual.CompletionTokens, note.CompletionTokens},
		{"completions with finish_reason stop", actual.FinishReasons.Stop, note.FinishReasons.Stop},
		{"completions with finish_reason length", actual.FinishReasons.Length, note.FinishReasons.Length},
		{"completions with finish_reason tool_calls", actual.FinishReasons.ToolCalls, note.FinishReasons.ToolCalls},
		{"completions with finish_reason error", actual.FinishReasons.Error, note.FinishReasons.Error},
	} {
		if f.actual != f.want {
			return fmt.Sprintf("it has %d %s, and %d were noted", f.actual, f.name, f.want)
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
