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

	mu     sync.Mutex
	leases map[*unit]*queue.Lease // of the units that are running; protected by mu

	changed chan struct{} // has a value when something ended
	telling sync.WaitGroup
	done    atomic.Int64 // units
}

// started tells of a unit that is begun.
func (l *leasedUnits) started(ctx context.Context, u *unit, lease *queue.Lease) {
	l.mu.Lock()
	l.leases[u] = lease
	l.mu.Unlock()
	l.flight.begin(u)
	l.tellState()
	rows, completions := u.saved.journaled()
	l.log.Info("unit begun", "unit", lease.Number, "from", lease.From, "to", lease.To, "journaled_completions",
		completions)
	if rows > 0 {
		lease.Progress(tally.Counts{Rows: int64(rows)})
		lease.Note(ctx)
	}
}

// moved tells the queue how far a unit is, and ends it when its part is published.
func (l *leasedUnits) moved(ctx context.Context, u *unit) {
	defer l.signal()
	t, _, _ := u.out.counts()
	lease := l.leaseOf(u)
	if lease == nil { // the other goroutine has seen its last completion
		return
	}
	lease.Progress(t)
	if len(u.writer.Unpublished()) > 0 {
		return
	}
	if _, ok := l.takeOut(u, true); !ok {
		return
	}
	done := l.done.Add(1)
	l.process.say("unit %d is done: rows %d to %d, %s, %s; %s by this worker",
		lease.Number, lease.From, lease.To-1, plural.Count(t.Completions, "completion"),
		plural.Count(t.RowsWithErrors, "row with errors"), plural.Count(done, "unit"))
	l.telling.Go(func() {
		err := u.release()
		if err == nil {
			err = lease.Done(context.WithoutCancel(ctx), t)
		}
		l.flight.fail(err) // of the queue, which could not be told
	})
}

// takeOut removes a unit from the running ones and returns its lease. ok is false if it was removed before.
func (l *leasedUnits) takeOut(u *unit, whole bool) (lease *queue.Lease, ok bool) {
	if !l.flight.end(u, whole) {
		return nil, false
	}
	l.mu.Lock()
	lease = l.leases[u]
	delete(l.leases, u)
	l.mu.Unlock()
	l.tellState()
	return lease, true
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

// leaseOf returns the lease of a running unit; nil if the unit has ended.
func (l *leasedUnits) leaseOf(u *unit) *queue.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[u]
}

// alone reports whether a unit is begun that must be alone.
func (l *leasedUnits) alone() (is bool) {
	l.flight.look(func(units []*unit) {
		is = slices.ContainsFunc(units, func(u *unit) bool { return l.leaseOf(u).Suspect })
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
	lease, ok := l.takeOut(u, false)
	if !ok {
		return
	}
	l.log.Warn("a unit failed", "unit", lease.Unit.String(), "err", cause.Error())
	l.telling.Go(func() {
		u.writer.Close() // its error is the cause
		err := errors.Join(u.saved.journal.Close(), u.saved.close())
		if err != nil {
			l.log.Warn("closing what a unit had", "unit", lease.Number, "err", err.Error())
		}
		if errors.Is(cause, fs.ErrExist) {
			// Another worker, that the queue had given up, published the part: whoever gets the unit finds it.
			l.flight.fail(lease.GiveBack(context.WithoutCancel(ctx), time.Second))
			return
		}
		l.flight.fail(lease.Fail(context.WithoutCancel(ctx), l.reword(cause)))
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
		lease, ok := l.takeOut(u, false)
		u.rows.stop()
		if err := u.release(); err != nil && ok {
			l.log.Warn("closing what a unit had", "unit", lease.Number, "err", err.Error())
		}
	}
}
