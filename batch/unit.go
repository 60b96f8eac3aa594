package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/queue"
)

// unit is what a runner reads, draws and writes in one go: the parts of a run or of a shard that are missing, or one
// part of a job in a queue.
type unit struct {
	process  *Process                 // of the unit's own shard, if it is of a queue
	reader   interface{ Err() error } // of the rows
	saved    *savedJob                // nil where nothing is kept
	builder  *requestBuilder
	out      *collector
	writer   *promptset.Writer
	lease    *queue.Lease // nil if it is of no queue
	listener listener

	// The rows that are not in a published part and were not begun, read across restarts.
	next    func() (*promptset.Row, bool)
	await   func(ctx context.Context) bool // for the next one; nil where it is there at once
	stop    func()                         // of the reading
	stash   *promptset.Row                 // read, and not begun
	line    []int64                        // rows to be begun before it, from the last one on
	traced  bool                           // line is that of stash
	begunTo int64                          // all rows to be done before this one were begun

	rowsAt  *rowsAt      // read out of order
	results *partResults // of published parts
	stale   staleResults // of those that are written again

	read bool // to the end; of the goroutine that begins rows
}

// openUnit opens the journal, calls opened if it is given, and makes what draws and writes the parts that are missing.
func (g *generator) openUnit(ctx context.Context, saved *savedJob, opened func()) (*unit, error) {
	p, j, reader := saved.process, saved.job, g.opened.reader
	g.opened.callInputs(saved.state.Job())
	if err := saved.open(p.Messages); err != nil {
		return nil, err
	}
	if opened != nil {
		opened()
	}
	saved.observer = p.Observer
	writer, err := saved.writer(reader.Schema(), g.session.TokenText)
	if err != nil {
		return nil, err
	}
	u := &unit{process: p, reader: reader, saved: saved, builder: g.builder, writer: writer,
		out: newCollector(writer, saved.journal, rowsInFlight), stale: staleResults{saved: saved, reader: reader}}
	u.out.observer, u.out.format = p.Observer, j.Format
	u.out.window, u.out.enough = 2*int(min(saved.parts.PartRows, rowsInFlight)), 2*g.session.slots()
	u.out.columns = j.columnsOf(reader.Schema())
	if u.out.apart, err = newApart(p, j, g.session, reader.Schema()); err != nil {
		return nil, err
	}
	if err := u.openFamily(ctx, g.opened); err != nil {
		return nil, err
	}
	u.next, u.stop = iter.Pull(u.rows(ctx, reader))
	return u, nil
}

// rows gives the rows of the parts that are missing.
func (u *unit) rows(ctx context.Context, reader *promptset.Reader) iter.Seq[*promptset.Row] {
	return func(yield func(*promptset.Row) bool) {
		for i := 0; i < len(u.saved.missing); i++ {
			from, to := u.saved.parts.Range(u.saved.missing[i])
			// Parts that follow one another are read in one go.
			for i+1 < len(u.saved.missing) && u.saved.missing[i+1] == u.saved.missing[i]+1 {
				i++
				_, to = u.saved.parts.Range(u.saved.missing[i])
			}
			for row := range reader.Range(ctx, from, to) {
				if !yield(row) {
					return
				}
			}
			if reader.Err() != nil {
				return
			}
		}
	}
}

// openFamily opens what rows need that go on from others.
func (u *unit) openFamily(ctx context.Context, opened *Opened) error {
	l, err := opened.lineage(ctx)
	if l == nil || err != nil {
		return err
	}
	u.rowsAt = newRowsAt(opened.reader, opened.parts.Rows)
	u.results = &partResults{saved: u.saved, reader: opened.reader.Beside(), of: u.builder.parameters,
		wanted: l.isNamed}
	u.out.family, err = u.saved.openFamily(l, u.process.Messages)
	return err
}

// requests yields requests for what was in flight before, then for each row that is good and not done; bad rows and
// those that the journal has whole go straight to the output. Rows that go on from others come as soon as these end.
func (u *unit) requests(ctx context.Context) iter.Seq2[*pendingRow, *engine.Request] {
	return func(yield func(*pendingRow, *engine.Request) bool) {
		all := func(p *pendingRow) bool {
			for _, r := range u.out.requests(p) {
				if !yield(p, r) {
					return false
				}
			}
			return true
		}
		for _, p := range u.out.unfinished() {
			if !all(p) {
				return
			}
		}
		for {
			p, more, err := u.step(ctx)
			if err != nil || !more || p != nil && !all(p) {
				return
			}
		}
	}
}

// step takes up one row: one that goes on from another which has ended, or the next one. It returns the row if
// completions of it are to be drawn now. An error means that nothing more can be begun.
func (u *unit) step(ctx context.Context) (p *pendingRow, more bool, err error) {
	if p := u.out.goOn(ctx, false); p != nil {
		p, err = u.launch(ctx, p)
		return p, true, err
	}
	if u.stash == nil {
		if u.await != nil && !u.await(ctx) {
			return nil, false, nil
		}
		var ok bool
		if u.stash, ok = u.next(); !ok {
			u.stash = nil
			if u.reader.Err() != nil {
				return nil, false, nil
			}
			if p := u.out.goOn(ctx, true); p != nil {
				p, err = u.launch(ctx, p)
				return p, true, err
			}
			return nil, false, nil
		}
	}
	row, early, err := u.due(ctx)
	if err != nil {
		return nil, false, u.unreadable(ctx, err)
	}
	p, err = u.begin(ctx, row, early)
	switch {
	case errors.Is(err, errGoOn):
		return nil, true, nil
	case err != nil:
		return nil, false, u.unreadable(ctx, err)
	case early:
		u.line = u.line[:len(u.line)-1]
	default:
		u.begunTo, u.stash, u.traced = row.Index+1, nil, false
	}
	return p, true, nil
}

// unreadable ends the collector by an error that is not its own, nor says that the run was ended.
func (u *unit) unreadable(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		u.out.end(err)
	}
	return err
}

// due returns the row that is begun next: the one that was read, or one before it that it goes on from.
func (u *unit) due(ctx context.Context) (row *promptset.Row, early bool, err error) {
	if u.out.family == nil {
		return u.stash, false, nil
	}
	if !u.traced {
		u.line, u.traced = u.out.unbegun(u.stash.Index), true
	}
	if n := len(u.line); n > 0 {
		row, err = u.rowsAt.row(ctx, u.line[n-1])
		return row, true, err
	}
	return u.stash, false, nil
}

// begin takes a row up. It returns the row if completions of it are to be drawn now. An error means that it was not
// begun, or that nothing more can be.
func (u *unit) begin(ctx context.Context, row *promptset.Row, early bool) (*pendingRow, error) {
	if !early {
		begun, done, drawn, err := u.out.takeEarly(row.Index)
		if begun || err != nil {
			return nil, err
		}
		if done != nil {
			return nil, u.replay(ctx, row, done, drawn)
		}
	}
	failed := row.Err
	if l := u.out.family; l != nil && failed == nil {
		_, failed = l.parent(row)
	}
	set := u.builder.parameters(row)
	done := u.drawnBefore(ctx, row.Index)
	n := set.N * (1 + len(row.More))
	done = slices.DeleteFunc(done, func(r promptset.Result) bool {
		return r.Generation < set.Generation || r.Generation-set.Generation >= n
	})
	if failed != nil {
		n = 1
	}
	p, err := u.out.begin(ctx, row, n, early)
	switch {
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, u.out.fail(p, failed)
	}
	p.done = done
	if u.out.family != nil && u.out.wait(p) {
		return nil, nil
	}
	return u.launch(ctx, p)
}

// drawnBefore returns the completions of a row that are in the journal, or in a part that is written again.
func (u *unit) drawnBefore(ctx context.Context, row int64) []promptset.Result {
	if u.saved == nil { // nothing is kept
		return nil
	}
	done, err := u.saved.of(row)
	if err != nil {
		fmt.Fprintf(u.process.Messages, "warning: %v; it is generated again\n", err)
		done = nil
	}
	if u.process.RetryErrors || u.saved.retriesErrors() {
		done = slices.DeleteFunc(done, func(r promptset.Result) bool { return r.Err != "" })
	}
	return Merged(u.stale.of(ctx, row, u.process.Messages), done)
}

// launch makes the request of a row that was begun, and returns the row if completions of it are to be drawn.
func (u *unit) launch(ctx context.Context, p *pendingRow) (*pendingRow, error) {
	done := p.done
	p.done = nil
	whole := p.left >= 1 && len(done) >= p.left
	if !whole || u.out.family != nil && u.out.family.isNamed(p.row.Index) {
		from, err := u.parentOf(ctx, p.row)
		if err != nil {
			return nil, u.unreadable(ctx, err)
		}
		requests, err := u.builder.requests(p.row, from)
		if err != nil {
			return nil, u.out.fail(p, err)
		}
		u.out.give(p, requests)
		for _, r := range requests {
			u.builder.equal.look(p.row, r)
		}
	}
	if len(done) > 0 {
		if err := u.out.restore(p, done); err != nil {
			return nil, err
		}
	}
	if whole {
		return nil, nil
	}
	return p, nil
}

// parentOf returns what a row goes on from; nil is nothing.
func (u *unit) parentOf(ctx context.Context, row *promptset.Row) (*kin, error) {
	if u.out.family == nil {
		return nil, nil
	}
	parent := u.out.family.parents[row.Index]
	if parent < 0 {
		return nil, nil
	}
	return u.kin(ctx, parent)
}

// replay takes a row up at its place that was drawn before it.
func (u *unit) replay(ctx context.Context, row *promptset.Row, done *kin, drawn int) error {
	p, err := u.out.begin(ctx, row, len(done.results), false)
	if err != nil {
		return err
	}
	p.counted, p.drawn = true, drawn
	return u.out.restore(p, done.results)
}

// rowError names a row and what is wrong with it; the row's own errors do both.
func rowError(row *promptset.Row, failure string) string {
	if row.Err != nil && row.Err.Error() == failure {
		return failure
	}
	return row.Error(fmt.Sprintf("(id %s) %s", visible.Cut(row.ID), failure)).Error()
}

// namesRows adds the rows that were in flight to the error for a device that goes on failing. Other errors stay.
func (u *unit) namesRows(err error) error {
	if gone := (*gaveUpError)(nil); !errors.As(err, &gone) {
		return err
	}
	var names []string
	rows := u.out.unfinished()
	for _, p := range rows[:min(len(rows), errorExamples)] {
		names = append(names, p.row.Error(fmt.Sprintf("(id %s)", visible.Cut(p.row.ID))).Error())
	}
	at := "no row was begun"
	if len(names) > 0 {
		at = fmt.Sprintf("%s in slots or waiting for one, the first: %s", plural.Count(len(rows), "row")+
			plural.Of(len(rows), " was", " were"), strings.Join(names, ", "))
	}
	return fmt.Errorf("%w (%s)", err, at)
}
