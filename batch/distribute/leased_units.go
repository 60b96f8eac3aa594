package distribute

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

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/internal/plural"
)

// leasedUnits report the state of a worker's units to the queue. A goroutine of its own reports each finished unit.
type leasedUnits struct {
	process *process.Process
	active  *generate.ActiveUnits
	log     *slog.Logger
	reword  func(error) error // words an error for the operator of the worker

	mu     sync.Mutex
	leases map[*generate.Unit]*queue.Lease // leases of the running units; protected by mu

	changed chan struct{} // has a value when something ended
	reports sync.WaitGroup
	done    atomic.Int64 // units
}

// started reports a unit that was started.
func (l *leasedUnits) started(ctx context.Context, u *generate.Unit, lease *queue.Lease) {
	l.mu.Lock()
	l.leases[u] = lease
	l.mu.Unlock()
	l.active.Track(u)
	l.reportState()
	rows, completions := u.Saved.CountJournaled()
	l.log.Info("unit started", "unit", lease.Number, "from", lease.From, "to", lease.To, "journaled_completions",
		completions)
	if rows > 0 {
		lease.Progress(tally.Counts{Rows: int64(rows)})
		lease.Note(ctx)
	}
}

// Progressed reports a unit's progress to the queue, and ends the unit when its part is published.
func (l *leasedUnits) Progressed(ctx context.Context, u *generate.Unit) {
	defer l.signal()
	t, _, _ := u.Out.Counts()
	lease := l.leaseOf(u)
	if lease == nil { // the other goroutine has seen its last completion
		return
	}
	lease.Progress(t)
	if len(u.Writer.Unpublished()) > 0 {
		return
	}
	if _, ok := l.takeOut(u, true); !ok {
		return
	}
	done := l.done.Add(1)
	l.process.Statusf("unit %d is done: rows %d to %d, %s, %s; %s by this worker",
		lease.Number, lease.From, lease.To-1, plural.Count(t.Completions, "completion"),
		plural.Count(t.RowsWithErrors, "row with errors"), plural.Count(done, "unit"))
	l.reports.Go(func() {
		err := closeUnit(u)
		if err == nil {
			err = lease.Done(context.WithoutCancel(ctx), t)
		}
		l.active.Fail(err) // the report to the queue failed
	})
}

// takeOut removes a unit from the running ones and returns its lease. ok is false if it was removed before.
func (l *leasedUnits) takeOut(u *generate.Unit, whole bool) (lease *queue.Lease, ok bool) {
	if !l.active.Remove(u, whole) {
		return nil, false
	}
	l.mu.Lock()
	lease = l.leases[u]
	delete(l.leases, u)
	l.mu.Unlock()
	l.reportState()
	return lease, true
}

// reportState reports whether there is something to do. Units start and end in two goroutines: the last one to report
// sends the current state.
func (l *leasedUnits) reportState() {
	l.active.View(func(units []*generate.Unit) {
		if len(units) == 0 {
			l.process.Observer.Run.Waiting()
		} else {
			l.process.Observer.Run.Working()
		}
	})
}

// leaseOf returns the lease of a running unit; nil if the unit has ended.
func (l *leasedUnits) leaseOf(u *generate.Unit) *queue.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[u]
}

// runsAlone reports whether a unit is started that must be alone.
func (l *leasedUnits) runsAlone() (alone bool) {
	l.active.View(func(units []*generate.Unit) {
		alone = slices.ContainsFunc(units, func(u *generate.Unit) bool { return l.leaseOf(u).Suspect })
	})
	return alone
}

func (l *leasedUnits) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// closeUnit closes what the unit has open. Without its lock another worker may have it.
func closeUnit(u *generate.Unit) error {
	u.EndCollecting()
	err := errors.Join(u.Writer.Close(), u.Saved.Journal.Close())
	if len(u.Writer.Unpublished()) == 0 {
		err = errors.Join(err, u.Saved.ClearJournals())
	}
	return errors.Join(err, u.Saved.Close())
}

// ReadFailed gives up a unit; completions of it that are in flight are dropped.
func (l *leasedUnits) ReadFailed(ctx context.Context, u *generate.Unit, cause error) {
	lease, ok := l.takeOut(u, false)
	if !ok {
		return
	}
	l.log.Warn("a unit failed", "unit", lease.Unit.String(), "err", cause)
	l.reports.Go(func() {
		u.EndCollecting()
		u.Writer.Close() // its error is the cause
		err := errors.Join(u.Saved.Journal.Close(), u.Saved.Close())
		if err != nil {
			l.log.Warn("closing what a unit had", "unit", lease.Number, "err", err.Error())
		}
		if inputChanged(cause) { // another job's, whoever reads it
			l.active.Fail(errors.Join(outcome.Errorf(outcome.Misused, "`input` %w", cause),
				lease.GiveBack(context.WithoutCancel(ctx), time.Second)))
			return
		}
		if errors.Is(cause, fs.ErrExist) {
			// A worker that the queue had given up published the part: the next worker of the unit finds it.
			l.active.Fail(lease.GiveBack(context.WithoutCancel(ctx), time.Second))
			return
		}
		l.active.Fail(lease.Fail(context.WithoutCancel(ctx), l.reword(cause)))
	})
}

// inputChanged reports whether an error is that an input was changed. One that is gone may come back.
func inputChanged(err error) bool {
	var file *promptset.FileError
	return errors.As(err, &file) && (file.Changed || errors.Is(err, storage.ErrChanged))
}

// WriteFailed gives up a unit that could not be written, and with it the worker: others could not be either. A part
// that another worker put there is no such case.
func (l *leasedUnits) WriteFailed(ctx context.Context, u *generate.Unit, cause error) {
	l.ReadFailed(ctx, u, cause)
	if !errors.Is(cause, fs.ErrExist) {
		l.active.Fail(cause)
	}
}

// gaveUp reports to the queue what was in flight when the device failed once too often.
func (l *leasedUnits) gaveUp(ctx context.Context, first *queue.Lease, err error) error {
	err = l.reword(err)
	units := l.active.List()
	for _, u := range units {
		l.ReadFailed(ctx, u, err)
	}
	if first != nil {
		l.reports.Go(func() { l.active.Fail(first.Fail(context.WithoutCancel(ctx), err)) })
	}
	return fmt.Errorf("%w (%s in flight)", err, plural.Count(len(units), "unit")+plural.Of(len(units), " was", " were"))
}

// giveBack gives back what is started.
func (l *leasedUnits) giveBack() {
	for _, u := range l.active.List() {
		lease, ok := l.takeOut(u, false)
		u.StopReading()
		if err := closeUnit(u); err != nil && ok {
			l.log.Warn("closing what a unit had", "unit", lease.Number, "err", err.Error())
		}
	}
}
