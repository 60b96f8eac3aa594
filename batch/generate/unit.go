package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/results"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// Unit is what is read, generated and written in one go: the parts of a run or of a shard that are missing, or one
// part of a job in a queue.
type Unit struct {
	process  *process.Process         // the process with the unit's own shard, if the unit comes from a queue
	reader   interface{ Err() error } // reader of the rows
	Saved    *resume.Saved            // nil if nothing is kept
	builder  *ask.Builder
	Out      *collector
	Writer   *promptset.Writer
	Listener Listener

	Rows    *rowQueue
	lineage *unitLineage // nil if no row continues another one
	// ancestry has the parents of audited rows, which are published; nil unless the unit is an audit.
	ancestry *ancestry
	reuse    *reusing
	stale    resume.StaleResults // results of parts that are written again

	// Owned by the goroutine that starts rows.
	read        bool          // read to the end
	interrupted []*pendingRow // rows that were started, and whose attempt ended before their requests were made
}

// OpenUnit opens the journal, calls opened if it is given, and makes what generates and writes the parts that are
// missing.
func (g *Generator) OpenUnit(ctx context.Context, saved *resume.Saved, opened func()) (*Unit, error) {
	p, j, reader := saved.Process, saved.Job, g.Opened.Reader
	g.Opened.NameInputs(saved.State.Job())
	if err := saved.Open(p.Messages); err != nil {
		return nil, err
	}
	if opened != nil {
		opened()
	}
	saved.Observer = p.Observer
	how := collecting{inFlight: rowsInFlight, window: 2 * int(min(saved.Parts.PartRows, rowsInFlight)),
		enough: 2 * g.Session.Slots(), format: j.Format, observer: p.Observer}
	var err error
	if how.results, err = results.NewMaker(p, j, g.Session, reader.Schema(), j.ColumnsOf(reader.Schema())); err != nil {
		return nil, err
	}
	if g.watcher != nil {
		how.results.Versions, how.underWay = completion.Versions{}, saved.Versions
	}
	u := &Unit{process: p, reader: reader, Saved: saved, builder: g.builder,
		stale: resume.StaleResults{Saved: saved, Reader: reader}}
	noting, err := u.openReuse(ctx, g, &how)
	if err != nil {
		return nil, err
	}
	if u.Writer, err = saved.NewWriter(reader.Schema(), g.Session.TokenText, noting); err != nil {
		return nil, err
	}
	if u.lineage, err = openLineage(ctx, g.Opened, saved, g.builder); err != nil {
		return nil, err
	}
	if u.lineage != nil {
		how.lineage = u.lineage
	}
	if how.judging, err = g.judgeUnit(ctx, u); err != nil {
		return nil, err
	}
	if how.conversing, err = converseUnit(ctx, g, u, saved.Calls); err != nil {
		return nil, err
	}
	u.Out = newCollector(u.Writer, saved.Journal, how)
	u.Out.repeats.judge = &g.equals
	u.Rows = newRowQueue(saved.MissingRows(ctx, reader), u.lineage)
	return u, nil
}

// requests yields requests for what was in flight before, then for each row that is good and not done; bad rows and
// those that the journal has whole go straight to the output. Rows that continue others come as soon as these end.
func (u *Unit) requests(ctx context.Context) iter.Seq2[*pendingRow, *engine.Request] {
	return func(yield func(*pendingRow, *engine.Request) bool) {
		all := func(p *pendingRow) bool {
			for _, r := range u.requestsOf(ctx, p) {
				if !yield(p, r) {
					return false
				}
			}
			return true
		}
		for _, p := range u.Out.unfinished() {
			if !all(p) {
				return
			}
		}
		again := u.interrupted
		u.interrupted = nil
		for i, p := range again {
			if p, err := u.launch(ctx, p); err != nil || p != nil && !all(p) {
				u.interrupted = append(u.interrupted, again[i+1:]...)
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

// requestsOf returns what generates what the row lacks now.
func (u *Unit) requestsOf(ctx context.Context, p *pendingRow) []*engine.Request {
	switch {
	case p.dialogs != nil:
		return u.turnRequests(ctx, p)
	case p.judged != nil:
		asked, err := u.asks(ctx, p)
		if err != nil {
			u.Out.end(err)
			return nil
		}
		return requestsOf(p.requests, asked)
	}
	return u.Out.requests(p)
}

// step starts one row: the continuation of a row that has ended, the next row, or more completions or turns of a row
// that was started. It returns the row if completions of it are to be generated now. An error means that nothing more
// can be started.
func (u *Unit) step(ctx context.Context) (p *pendingRow, more bool, err error) {
	if p, more, err = u.resume(ctx, true); more {
		return p, more, err
	}
	if !u.Rows.fill(ctx) {
		if u.reader.Err() != nil {
			return nil, false, nil
		}
		return u.resume(ctx, false)
	}
	row, early, err := u.Rows.due(ctx)
	if err != nil {
		return nil, false, u.unreadable(ctx, err)
	}
	p, yields, err := u.begin(ctx, row, early)
	switch {
	case err != nil:
		return nil, false, u.unreadable(ctx, err)
	case !yields:
		u.Rows.started(row, early)
	}
	return p, true, nil
}

// resume continues a row that was started: one whose parent has ended, or one whose verdicts ask for more
// completions. If no others are left to start, it waits for one, until none can come any more.
func (u *Unit) resume(ctx context.Context, othersLeft bool) (p *pendingRow, more bool, err error) {
	if p := u.nextContinuation(ctx, !othersLeft); p != nil {
		p, err = u.launch(ctx, p)
		return p, true, err
	}
	if ctx.Err() != nil || u.Out.failed() != nil {
		return nil, false, nil
	}
	p, later := u.wantsMore(othersLeft)
	return p, p != nil || !othersLeft && (later || u.lineage != nil && u.lineage.Waiting()), nil
}

// nextContinuation returns a row whose parent has ended. With patience it waits for one, or for a row that wants more
// completions, and returns nil when none can come any more.
func (u *Unit) nextContinuation(ctx context.Context, patience bool) *pendingRow {
	if patience {
		u.Out.await(ctx, u.mayResume)
	}
	if u.lineage == nil || ctx.Err() != nil || u.Out.failed() != nil {
		return nil
	}
	p, _ := u.lineage.Next()
	return p
}

// mayResume reports whether a row continues, or none will any more. The collector's lock is held.
func (u *Unit) mayResume() bool {
	o := u.Out
	if u.lineage != nil && u.lineage.Ready() || len(o.waves.wanting) > 0 || len(o.turns.ready) > 0 ||
		o.waves.mightWant() != nil {
		return true
	}
	return (u.lineage == nil || !u.lineage.Waiting()) && len(o.waves.running) == 0 && o.turns.rows == 0
}

// wantsMore returns a row that was started and wants more completions or turns, nil if there is none now. With nothing
// else to start, it may be one that only might need them. later reports whether rows may want more, now or later.
func (u *Unit) wantsMore(othersLeft bool) (p *pendingRow, later bool) {
	c := u.Out
	c.mu.Lock()
	defer c.mu.Unlock()
	if p = c.turns.next(); p == nil {
		p = c.waves.next(othersLeft)
	}
	return p, len(c.waves.running) > 0 || c.turns.rows > 0
}

// unreadable ends the collector by an error that is not its own, nor reports that the run was ended.
func (u *Unit) unreadable(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		u.Out.end(err)
	}
	return err
}

// begin starts a row. It returns the row if completions of it are to be generated now; yields reports whether it was
// not started, because others come first. An error means that it was not started, or that nothing more can be.
func (u *Unit) begin(ctx context.Context, row *promptset.Row, early bool) (p *pendingRow, yields bool, err error) {
	if u.lineage != nil && !early {
		if p, running := u.lineage.Running(row.Index); running && u.Out.reach(p) {
			return nil, false, nil
		}
		if done, generated, err := u.lineage.Early(row.Index); err != nil {
			return nil, false, err
		} else if done != nil {
			yields, err := u.replay(ctx, row, done, generated)
			return nil, yields, err
		}
	}
	failed := row.Err
	if u.lineage != nil && failed == nil {
		_, failed = u.lineage.Parent(row)
	}
	if failed == nil && u.Out.conversing != nil {
		failed = conversation.CheckRow(row)
	}
	if failed == nil && len(row.More) > 0 && u.Out.judging != nil && u.Out.judging.settings.Stops() {
		failed = severalPrompts(row)
	}
	set := u.builder.Parameters(row)
	done, old := u.generatedBefore(ctx, row.Index)
	n := set.N * (1 + len(row.More))
	done = slices.DeleteFunc(done, func(r completion.Result) bool {
		return r.Generation < set.Generation || r.Generation-set.Generation >= n
	})
	if failed != nil {
		n = 1
	}
	p, err = u.Out.begin(ctx, row, n, early)
	if p == nil || err != nil {
		return nil, err == nil, err
	}
	if u.lineage != nil {
		u.lineage.Begin(row.Index, p)
	}
	if failed != nil {
		return nil, false, u.Out.fail(p, failed)
	}
	if u.Out.judging != nil {
		u.Out.judgeRow(p, set.Generation, n)
	}
	p.done, p.old = done, old
	if u.lineage != nil && u.lineage.Wait(row.Index, p) {
		return nil, false, nil
	}
	p, err = u.launch(ctx, p)
	return p, false, err
}

// generatedBefore returns the completions of a row that are in the journal, or in a part that is written again; old
// reports that some are of such a part.
func (u *Unit) generatedBefore(ctx context.Context, row int64) (done []completion.Result, old bool) {
	if u.Saved == nil { // nothing is kept
		return nil, false
	}
	done, err := u.Saved.Journaled(row)
	if err != nil {
		fmt.Fprintf(u.process.Messages, "warning: %v; it is generated again\n", err)
		done = nil
	}
	if u.retriesErrors() {
		done = slices.DeleteFunc(done, func(r completion.Result) bool { return r.Err != "" })
	}
	before := u.stale.Results(ctx, row, u.process.Messages)
	return resume.Merged(before, done), len(before) > 0
}

// retriesErrors reports whether completions that have errors are tried again.
func (u *Unit) retriesErrors() bool {
	return u.Saved != nil && (u.process.RetryErrors || u.Saved.RetriesErrors())
}

// launch makes the request of a row that was started, and returns the row if completions of it are to be generated.
func (u *Unit) launch(ctx context.Context, p *pendingRow) (*pendingRow, error) {
	done := p.done
	p.done = nil
	whole := p.left >= 1 && len(done) >= p.left
	if p.judged != nil {
		whole = p.judged.decidedBy(done)
	}
	// The names of a row that is whole are noted, too. With a parent they would cost more than they are worth.
	needed := !whole || u.lineage != nil && u.lineage.IsNamed(p.row.Index)
	if needed || u.lineage == nil && u.Out.notes != nil {
		from, err := u.lineage.parentOf(ctx, p.row)
		if u.ancestry != nil {
			from, err = u.ancestry.parentOf(ctx, p.row)
		}
		if err != nil && ctx.Err() != nil { // of this attempt: the row is started, and only the next one can launch it
			p.done = done
			u.interrupted = append(u.interrupted, p)
			return nil, nil
		}
		if err != nil {
			return nil, u.unreadable(ctx, err)
		}
		requests, err := u.builder.Requests(p.row, from)
		if err != nil && needed {
			return nil, u.Out.fail(p, err)
		}
		if err == nil {
			u.Out.give(p, requests)
			// Names know nothing of vectors, versions of weights and what tools do; some audits need none.
			o := u.Out
			if !o.results.Encodes() && o.results.Versions == nil && u.reuse != nil &&
				(o.conversing == nil || o.conversing.pure) {
				u.name(p, p.old)
			}
		}
	}
	if len(done) > 0 {
		if err := u.Out.restore(p, done); err != nil {
			return nil, err
		}
	}
	if whole {
		return nil, nil
	}
	p, err := u.fill(ctx, p)
	if err == nil && p != nil && u.Out.conversing != nil {
		err = u.converse(p)
	}
	if err != nil {
		return nil, u.unreadable(ctx, err)
	}
	return p, nil
}

// replay restores a row that was generated earlier, at its place, with some of its results by this process. yields is
// as in begin.
func (u *Unit) replay(ctx context.Context, row *promptset.Row, done []completion.Result, generated int) (yields bool,
	err error) {
	p, err := u.Out.begin(ctx, row, len(done), false)
	if p == nil || err != nil {
		return err == nil, err
	}
	u.lineage.Begin(row.Index, p)
	p.counted, p.generated = true, generated
	return false, u.Out.restore(p, done)
}

// StopReading stops the reading of rows, and of places that completions are copied from.
func (u *Unit) StopReading() {
	u.Rows.Stop()
	u.reuse.close()
}

// EndCollecting lets nothing be written any more, also not when verdicts come that are waited for. Calls of tools that
// may not be made again end before it returns, and are in the log.
func (u *Unit) EndCollecting() {
	u.Out.end(errEnded)
	if u.Out.conversing != nil {
		u.Out.conversing.Close()
	}
}

// errEnded reports that a unit has ended.
var errEnded = errors.New("the unit has ended")

// nameRows adds the rows that were in flight to the error for a device that keeps failing. Other errors stay.
func (u *Unit) nameRows(err error) error {
	if gone := (*DeviceFailedError)(nil); !errors.As(err, &gone) {
		return err
	}
	var names []string
	rows := u.Out.unfinished()
	for _, p := range rows[:min(len(rows), outcome.ErrorExamples)] {
		names = append(names, p.row.Error(fmt.Sprintf("(id %s)", visible.Cut(p.row.ID))).Error())
	}
	where := "no row was started"
	if len(names) > 0 {
		where = fmt.Sprintf("%s in slots or waiting for one, the first: %s", plural.Count(len(rows), "row")+
			plural.Of(len(rows), " was", " were"), strings.Join(names, ", "))
	}
	return fmt.Errorf("%w (%s)", err, where)
}
