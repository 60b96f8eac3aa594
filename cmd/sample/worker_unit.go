package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tally"
)

// workUnit is a unit that the worker has begun: a job of one part.
type workUnit struct {
	lease  *queue.Lease
	job    *job
	writer *promptset.Writer
	stop   func() // of the reading
	begun  int    // its number among the units of this worker
	read   bool   // to the end; of the goroutine that begins units
	ended  bool   // under the worker's lock
}

// begin opens a unit. It returns nil for one that is done already, or that this worker can't do now.
func (w *worker) begin(ctx context.Context, lease *queue.Lease) (u *workUnit, err error) {
	if lease.Number < 0 || lease.Number >= w.opened.parts.Count() {
		err := fmt.Errorf("unit %d is not one of the job, which has %d parts", lease.Number, w.opened.parts.Count())
		return nil, lease.Fail(ctx, err)
	}
	o := *w.options
	// A unit is a shard of one part: with a lock, a journal and notes of its own, beside other shards and apart from
	// runs of the whole.
	o.shard = jobstate.Shard{Index: lease.Number, Count: w.opened.parts.Count()}
	o.writer = queue.CleanName(fmt.Sprintf("unit-%05d-%s-%d", lease.Number, w.name, os.Getpid()))
	saved, err := openSaved(ctx, w.env.fs, &o, w.opened.parts, w.opened.description)
	switch {
	case errors.Is(err, jobstate.ErrBusy), errors.Is(err, jobstate.ErrOtherShards):
		// Its last worker lives, though the queue gave it up; or a run of the whole job does.
		w.log.Info("a unit is worked on elsewhere, and given back", "unit", lease.Number, "err", err.Error())
		return nil, lease.Busy(ctx, w.job.AckWait/4)
	case err != nil:
		return nil, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	defer func() {
		if u == nil {
			err = errors.Join(err, saved.close())
		}
	}()
	for _, d := range saved.damaged {
		w.log.Warn("the part of a unit is damaged, and drawn again", "unit", lease.Number, "part", d.Part.Name, "what",
			d.What)
	}
	if len(saved.missing) == 0 {
		w.log.Info("the part of a unit is there", "unit", lease.Number)
		if err := w.sweep(lease.Number); err != nil {
			return nil, errors.Join(err, lease.GiveBack(ctx, 0))
		}
		return nil, lease.Done(ctx, saved.before)
	}
	switch err := w.claim(&o, saved); {
	case errors.Is(err, errSettled):
		w.first = lease
		return nil, err
	case err != nil:
		return nil, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	if dir, err := o.workFolder(); err == nil {
		w.observer.keepWorker(w.env, filepath.Join(dir, jobstate.Folder), w.name)
	}
	// From here on what goes wrong may be the unit's fault.
	if u, err = w.openUnit(ctx, &o, saved, lease); err != nil {
		return nil, errors.Join(err, lease.Fail(ctx, ofJob(err)))
	}
	w.mu.Lock()
	u.begun = w.begun
	w.begun++
	w.units[u.job.out] = u
	w.observer.run.Working()
	w.mu.Unlock()
	rows, completions := saved.journaled()
	w.log.Info("unit begun", "unit", lease.Number, "from", lease.From, "to", lease.To, "journaled_completions",
		completions)
	if rows > 0 {
		lease.Progress(tally.Counts{Rows: int64(rows)})
		lease.Note(ctx)
	}
	return u, nil
}

// claim makes the description the folder's job, if this is the first worker, and refuses a job that this worker can't
// do as others do.
func (w *worker) claim(o *runOptions, saved *savedJob) (err error) {
	plan := w.session.Plan()
	d := *w.opened.description
	d.Settled, d.Device, d.Meta = settled(plan), plan.Backend, w.options.footer(w.session)
	if d.Arithmetic, err = w.options.arithmetic(w.session.device); err != nil {
		return err
	}
	others, err := saved.claim(w.env.fs, o, &d)
	if err != nil {
		return err
	}
	if others && !sameSettled(settled(plan), saved.state.Job().Settled) {
		differences, err := w.options.settle(saved.state.Job().Settled)
		if err == nil && len(differences) > 0 {
			err = o.different(differences)
		}
		return cmp.Or(err, errSettled)
	}
	return saved.computes(o, d.Arithmetic)
}

// openUnit makes what draws and writes the unit.
func (w *worker) openUnit(ctx context.Context, o *runOptions, saved *savedJob, lease *queue.Lease) (*workUnit, error) {
	if err := w.sweep(lease.Number); err != nil {
		return nil, err
	}
	if err := saved.open(w.env.fs, w.env.stderr); err != nil {
		return nil, err
	}
	saved.observer = w.observer
	writer, err := saved.writer(o, w.opened.reader.Schema())
	if err != nil {
		return nil, errors.Join(err, saved.journal.Close())
	}
	u := &workUnit{lease: lease, writer: writer}
	u.job = &job{options: o, reader: w.opened.reader, saved: saved, builder: w.builder,
		out: newCollector(writer, saved.journal, rowsInFlight), stderr: w.env.stderr, observer: w.observer}
	u.job.out.observer = w.observer
	u.job.next, u.stop = iter.Pull(u.job.rows(context.WithoutCancel(ctx)))
	return u, nil
}

// sweep removes what earlier workers left of the unit unpublished. It is called with the unit's lock.
func (w *worker) sweep(unit int) error {
	if storage.IsRemote(w.options.output) {
		return nil
	}
	names, err := w.env.fs.List(w.options.output)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, rest, ok := strings.Cut(name, ".tmp-"+fmt.Sprintf("unit-%05d-", unit)); ok &&
			strings.HasPrefix(name, ".") && rest != "" {
			if err := w.env.fs.Remove(filepath.Join(w.options.output, name)); err != nil &&
				!errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// end takes a unit from those that are begun. It returns false if it was before.
func (w *worker) end(u *workUnit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if u.ended {
		return false
	}
	u.ended = true
	if delete(w.units, u.job.out); len(w.units) == 0 {
		w.observer.run.Waiting()
	}
	return true
}

// look tells the queue how far a unit is, and ends it when its part is published.
func (w *worker) look(ctx context.Context, u *workUnit) {
	t, _, _ := u.job.out.counts()
	u.lease.Progress(t)
	if len(u.writer.Unpublished()) > 0 || !w.end(u) {
		return
	}
	_, drawn, _ := u.job.out.counts()
	w.mu.Lock()
	w.total = w.total.Plus(drawn)
	w.done++
	done := w.done
	w.mu.Unlock()
	if w.options.progress != "none" {
		fmt.Fprintf(w.env.stderr, "unit %d is done: rows %d to %d, %s, %s; %s by this worker\n",
			u.lease.Number, u.lease.From, u.lease.To-1, plural.Count(t.Completions, "completion"),
			plural.Count(t.RowsWithErrors, "row with errors"), plural.Count(done, "unit"))
	}
	w.telling.Go(func() {
		err := w.close(u)
		if err == nil {
			err = u.lease.Done(context.WithoutCancel(ctx), t)
		}
		w.told(err)
	})
}

// close gives up what the unit has open. Without its lock another worker may have it.
func (w *worker) close(u *workUnit) error {
	err := errors.Join(u.writer.Close(), u.job.saved.journal.Close())
	if len(u.writer.Unpublished()) == 0 {
		err = errors.Join(err, u.job.saved.clearJournals(w.env.fs))
	}
	return errors.Join(err, u.job.saved.close())
}

// told notes that the queue could not be told what became of a unit, which ends the worker.
func (w *worker) told(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fatal == nil {
		w.fatal = err
	}
}

// fail gives up a unit; completions of it that are in flight are dropped.
func (w *worker) fail(ctx context.Context, u *workUnit, cause error) {
	if !w.end(u) {
		return
	}
	w.log.Warn("a unit failed", "unit", u.lease.Unit.String(), "err", cause.Error())
	w.telling.Go(func() {
		u.writer.Close() // its error is the cause
		err := errors.Join(u.job.saved.journal.Close(), u.job.saved.close())
		if err != nil {
			w.log.Warn("closing what a unit had", "unit", u.lease.Number, "err", err.Error())
		}
		if errors.Is(cause, fs.ErrExist) {
			// Another worker, that the queue had given up, published the part: whoever gets the unit finds it.
			w.told(u.lease.GiveBack(context.WithoutCancel(ctx), time.Second))
			return
		}
		w.told(u.lease.Fail(context.WithoutCancel(ctx), ofJob(cause)))
	})
}

// broken gives up a unit that could not be written, and with it the worker: others could not be either. A part that
// another worker put there is no such case.
func (w *worker) broken(ctx context.Context, u *workUnit, cause error) {
	w.fail(ctx, u, cause)
	if !errors.Is(cause, fs.ErrExist) {
		w.told(cause)
	}
}

// release gives back what is begun.
func (w *worker) release(ctx context.Context) {
	w.mu.Lock()
	units := byNumber(w.units)
	w.mu.Unlock()
	for _, u := range units {
		w.end(u)
		u.stop()
		if err := w.close(u); err != nil {
			w.log.Warn("closing what a unit had", "unit", u.lease.Number, "err", err.Error())
		}
	}
	if w.first != nil {
		w.first = nil // Close gives it back
	}
}
