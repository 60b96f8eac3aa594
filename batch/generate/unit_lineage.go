package generate

import (
	"context"
	"iter"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/data/promptset"
)

// rowQueue gives the rows of a unit in the order in which they are started: rows that are not in a published part, read
// across restarts, and before each those that it continues.
type rowQueue struct {
	next    func() (*promptset.Row, bool)
	await   func(ctx context.Context) bool // waits for the next one; nil if it is there at once
	Stop    func()                         // stops the reading
	lineage *unitLineage                   // nil if no row continues another one

	row       *promptset.Row // read, and not started
	line      []int64        // rows to be started before it, from the last one on
	traced    bool           // line belongs to row
	startedTo int64          // all rows to be done before this one were started
}

func newRowQueue(rows iter.Seq[*promptset.Row], l *unitLineage) *rowQueue {
	q := &rowQueue{lineage: l}
	q.next, q.Stop = iter.Pull(rows)
	return q
}

// fill reads the next row if the last one was started. It returns false if there is none.
func (q *rowQueue) fill(ctx context.Context) bool {
	if q.row != nil {
		return true
	}
	if q.await != nil && !q.await(ctx) {
		return false
	}
	row, ok := q.next()
	if ok {
		q.row = row
	}
	return ok
}

// due returns the row that is started next: the one that was read, or early one before it that it continues.
func (q *rowQueue) due(ctx context.Context) (row *promptset.Row, early bool, err error) {
	if q.lineage == nil {
		return q.row, false, nil
	}
	if !q.traced {
		q.line, q.traced = q.lineage.Before(q.row.Index), true
	}
	if n := len(q.line); n > 0 {
		row, err = q.lineage.rows.row(ctx, q.line[n-1])
		return row, true, err
	}
	return q.row, false, nil
}

// started notes that the row that was due was started.
func (q *rowQueue) started(row *promptset.Row, early bool) {
	if early {
		q.line = q.line[:len(q.line)-1]
		return
	}
	q.startedTo, q.row, q.traced = row.Index+1, nil, false
}

// unitLineage is the lineage of a unit's rows, with what is read out of order for it.
type unitLineage struct {
	*lineage.Stage[*pendingRow]
	publishedParents
}

// publishedParents makes what rows need of those that they continue, from the published parts.
type publishedParents struct {
	rows    *rowReader
	results *resume.PublishedResults
	builder *ask.Builder
}

func newPublishedParents(opened *prepare.Opened, saved *resume.Saved, b *ask.Builder,
	g *lineage.Graph) publishedParents {
	return publishedParents{newRowReader(opened.Reader, opened.Parts.Rows), &resume.PublishedResults{Saved: saved,
		Reader: opened.Reader.Beside(), Parameters: b.Parameters, Wanted: g.IsNamed}, b}
}

// openLineage opens what rows need that continue others; nil if none does.
func openLineage(ctx context.Context, opened *prepare.Opened, saved *resume.Saved, b *ask.Builder) (*unitLineage,
	error) {
	g, err := opened.Lineage(ctx)
	if g == nil || err != nil {
		return nil, err
	}
	missing := map[int]bool{}
	for _, part := range saved.Missing {
		missing[part] = true
	}
	s, err := lineage.Open[*pendingRow](saved.FS, saved.State.Dir(), saved.State.Key(), saved.Process.Timing.Journal, g,
		func(row int64) bool { return missing[saved.Parts.Of(row)] }, saved.Process.Messages)
	saved.Parents = s
	return &unitLineage{s, newPublishedParents(opened, saved, b, g)}, err
}

// parentOf returns what a row continues; nil is nothing.
func (l *unitLineage) parentOf(ctx context.Context, row *promptset.Row) (*lineage.Parent, error) {
	if l == nil {
		return nil, nil
	}
	parent := l.Of(row.Index)
	if parent < 0 {
		return nil, nil
	}
	return l.Find(parent, func(row int64, from *lineage.Parent) (*lineage.Parent, error) {
		return l.published(ctx, row, from)
	})
}

// published returns what its published part knows about a row and about the row that it continues.
func (l *publishedParents) published(ctx context.Context, row int64, from *lineage.Parent) (*lineage.Parent, error) {
	results, err := l.results.RowResults(ctx, row)
	if err != nil {
		return nil, err
	}
	p := &lineage.Parent{Results: results}
	if p.Failed() {
		return p, nil
	}
	promptRow, err := l.rows.row(ctx, row)
	if err == nil {
		p.Prompt, err = l.builder.Prompt(promptRow, from)
	}
	return p, err
}
