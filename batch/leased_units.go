package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/tally"
)

// leasedUnits tell the queue how the units of a worker go. Each unit that is through is told by a goroutine of its own.
type leasedUnits struct {
	process *Process
	flight  *flight
	log     *slog.Logger
	reword  func(error) error // words an error for whoever runs the worker

	changed chan struct{} // has a value when something ended
	telling sync.WaitGroup
	done    atomic.Int64 // units
}

// started tells of a unit that is begun.
func (l *leasedUnits) started(ctx context.Context, u *unit) {
	l.tellState()
	rows, completions := u.saved.journaled()
	l.log.Info("unit begun", "unit", u.lease.Number, "from", u.lease.From, "to", u.lease.To, "journaled_completions",
		completions)
	if rows > 0 {
		u.lease.Progress(tally.Counts{Rows: int64(rows)})
		u.lease.Note(ctx)
	}
}

// moved tells the queue how far a unit is, and ends it when its part is published.
func (l *leasedUnits) moved(ctx context.Context, u *unit) {
	defer l.signal()
	t, _, _ := u.out.counts()
	u.lease.Progress(t)
	if len(u.writer.Unpublished()) > 0 || !l.takeOut(u, true) {
		return
	}
	done := l.done.Add(1)
	l.process.say("unit %d is done: rows %d to %d, %s, %s; %s by this worker",
		u.lease.Number, u.lease.From, u.lease.To-1, plural.Count(t.Completions, "completion"),
		plural.Count(t.RowsWithErrors, "row with errors"), plural.Count(done, "unit"))
	l.telling.Go(func() {
		err := u.release()
		if err == nil {
			err = u.lease.Done(context.WithoutCancel(ctx), t)
		}
		l.flight.fail(err) // of the queue, which could not be told
	})
}

// takeOut takes a unit from those that are begun, and says when nothing is left to do. It returns false if it was taken
// before.
func (l *leasedUnits) takeOut(u *unit, whole bool) bool {
	ok := l.flight.end(u, whole)
	if ok {
		l.tellState()
	}
	return ok
}

// tellState says whether there is something to do. Units begin and end in two goroutines: the last to say it says how
// it is now.
func (l *leasedUnits) tellState() {
	l.flight.look(func(units []*unit) {
		if len(units) == 0 {
			l.process.Observer.Run.Waiting()
		} else {
			l.process.Observer.Run.Working()
		}
	})
}

// alone reports whether a unit is begun that must be alone.
func (l *leasedUnits) alone() (is bool) {
	l.flight.look(func(units []*unit) {
		is = slices.ContainsFunc(units, func(u *unit) bool { return u.lease.Suspect })
	})
	return is
}

func (l *leasedUnits) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// release gives up what the unit has open. Without its lock another worker may have it.
func (u *unit) release() error {
	err := errors.Join(u.writer.Close(), u.saved.journal.Close())
	if len(u.writer.Unpublished()) == 0 {
		err = errors.Join(err, u.saved.clearJournals())
	}
	return errors.Join(err, u.saved.close())
}

// unread gives up a unit; completions of it that are in flight are dropped.
func (l *leasedUnits) unread(ctx context.Context, u *unit, cause error) {
	if !l.takeOut(u, false) {
		return
	}
	l.log.Warn("a unit failed", "unit", u.lease.Unit.String(), "err", cause.Error())
	l.telling.Go(func() {
		u.writer.Close() // its error is the cause
		err := errors.Join(u.saved.journal.Close(), u.saved.close())
		if err != nil {
			l.log.Warn("closing what a unit had", "unit", u.lease.Number, "err", err.Error())
		}
		if errors.Is(cause, fs.ErrExist) {
			// Another worker, that the queue had given up, published the part: whoever gets the unit finds it.
			l.flight.fail(u.lease.GiveBack(context.WithoutCancel(ctx), time.Second))
			return
		}
		l.flight.fail(u.lease.Fail(context.WithoutCancel(ctx), l.reword(cause)))
	})
}

// broken gives up a unit that could not be written, and with it the worker: others could not be either. A part that
// another worker put there is no such case.
func (l *leasedUnits) broken(ctx context.Context, u *unit, cause error) {
	l.unread(ctx, u, cause)
	if !errors.Is(cause, fs.ErrExist) {
		l.flight.fail(cause)
	}
}

// gaveUp says to the queue what was in flight when the device failed once too often.
func (l *leasedUnits) gaveUp(ctx context.Context, first *queue.Lease, err error) error {
	err = l.reword(err)
	units := l.flight.inOrder()
	for _, u := range units {
		l.unread(ctx, u, err)
	}
	if first != nil {
		l.telling.Go(func() { l.flight.fail(first.Fail(context.WithoutCancel(ctx), err)) })
	}
	return fmt.Errorf("%w (%s in flight)", err, plural.Count(len(units), "unit")+plural.Of(len(units), " was", " were"))
}

// giveBack gives back what is begun.
func (l *leasedUnits) giveBack() {
	for _, u := range l.flight.inOrder() {
		l.takeOut(u, false)
		u.rows.stop()
		if err := u.release(); err != nil {
			l.log.Warn("closing what a unit had", "unit", u.lease.Number, "err", err.Error())
		}
	}
}
