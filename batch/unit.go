package batch

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/queue"
)

// unit is what a runner reads, draws and writes in one go: the parts of a run or of a shard that are missing, or one
// part of a job in a queue.
type unit struct {
	task    *Task // of the unit's own shard, where it is of a queue
	reader  *promptset.Reader
	saved   *savedJob
	builder *requestBuilder
	out     *collector
	writer  *promptset.Writer
	lease   *queue.Lease // nil where it is of no queue

	// The rows that are not in a published part and were not begun, read across restarts.
	next    func() (*promptset.Row, bool)
	stop    func()         // of the reading
	stash   *promptset.Row // read, and not begun
	begunTo int64          // all rows to be done before this one were begun

	number int  // among the units of its runner
	read   bool // to the end; of the goroutine that begins rows
	ended  bool // under the runner's lock
}

// openUnit opens the journal, calls opened if it is given, and makes what draws and writes the parts that are missing.
func (r *runner) openUnit(ctx context.Context, t *Task, saved *savedJob, opened func()) (*unit, error) {
	if err := saved.open(t.Messages); err != nil {
		return nil, err
	}
	if opened != nil {
		opened()
	}
	saved.observer = t.Observer
	writer, err := saved.writer(t, r.job.reader.Schema())
	if err != nil {
		return nil, err
	}
	u := &unit{task: t, reader: r.job.reader, saved: saved, builder: r.builder, writer: writer,
		out: newCollector(writer, saved.journal, rowsInFlight)}
	u.out.observer = t.Observer
	u.next, u.stop = iter.Pull(u.rows(ctx))
	return u, nil
}

// rows gives the rows of the parts that are missing.
func (u *unit) rows(ctx context.Context) iter.Seq[*promptset.Row] {
	return func(yield func(*promptset.Row) bool) {
		for i := 0; i < len(u.saved.missing); i++ {
			from, to := u.saved.parts.Range(u.saved.missing[i])
			// Parts that follow one another are read in one go.
			for i+1 < len(u.saved.missing) && u.saved.missing[i+1] == u.saved.missing[i]+1 {
				i++
				_, to = u.saved.parts.Range(u.saved.missing[i])
			}
			for row := range u.reader.Range(ctx, from, to) {
				if !yield(row) {
					return
				}
			}
			if u.reader.Err() != nil {
				return
			}
		}
	}
}

// requests yields requests for what was in flight before, then for each row that is good and not done; bad rows and
// those that the journal has whole go straight to the output.
func (u *unit) requests(ctx context.Context) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		all := func(p *pendingRow) bool {
			for _, r := range u.out.requests(p) {
				if !yield(r) {
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
			if u.stash == nil {
				var ok bool
				if u.stash, ok = u.next(); !ok {
					u.stash = nil
					return
				}
			}
			p, err := u.begin(ctx, u.stash)
			if err != nil {
				return
			}
			u.begunTo = u.stash.Index + 1
			u.stash = nil
			if p != nil && !all(p) {
				return
			}
		}
	}
}

// begin takes a row up. It returns the row if completions of it are to be drawn. An error means that it was not begun,
// or that nothing more can be.
func (u *unit) begin(ctx context.Context, row *promptset.Row) (*pendingRow, error) {
	if row.Err != nil {
		return nil, u.out.fail(ctx, row, row.Err)
	}
	set := u.builder.parameters(row)
	first, n := set.Generation, set.N
	done, err := u.saved.of(row.Index)
	if err != nil {
		fmt.Fprintf(u.task.Messages, "warning: %v; it is drawn again\n", err)
		done = nil
	}
	done = slices.DeleteFunc(done, func(r promptset.Result) bool {
		return r.Generation < first ||
			r.Generation-first >= n
	})
	var request *engine.Request
	if n < 1 || len(done) < n {
		if request, err = u.builder.request(row); err != nil {
			return nil, u.out.fail(ctx, row, err)
		}
	}
	p, err := u.out.begin(ctx, row, n)
	if err != nil {
		return nil, err
	}
	p.request = request
	if request != nil {
		u.builder.equal.look(row, request)
	}
	if len(done) > 0 {
		if err := u.out.restore(p, done); err != nil {
			return nil, err
		}
	}
	if request == nil {
		return nil, nil
	}
	return p, nil
}

// rowError names a row and what is wrong with it; the row's own errors do both.
func rowError(row *promptset.Row, failure string) string {
	if row.Err != nil && row.Err.Error() == failure {
		return failure
	}
	return row.Error(fmt.Sprintf("(id %s) %s", row.ID, failure)).Error()
}

// gaveUp adds the rows that were in flight to the error for a device that goes on failing.
func (u *unit) gaveUp(err error) error {
	var names []string
	rows := u.out.unfinished()
	for _, p := range rows[:min(len(rows), errorExamples)] {
		names = append(names, p.row.Error(fmt.Sprintf("(id %s)", p.row.ID)).Error())
	}
	at := "no row was begun"
	if len(names) > 0 {
		at = fmt.Sprintf("%s in slots or waiting for one, the first: %s", plural.Count(len(rows), "row")+
			plural.Of(len(rows), " was", " were"), strings.Join(names, ", "))
	}
	return fmt.Errorf("%w (%s)", err, at)
}
