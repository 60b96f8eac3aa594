package batch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tally"
)

// leases is the source of a worker: units of a job in a queue, each a part. Each unit that is through is told to the
// queue by a goroutine of its own.
type leases struct {
	*runner
	worker *Worker
	log    *slog.Logger
	queue  *queue.Queue
	of     queue.Job
	taken  *queue.Worker

	first   *queue.Lease  // taken, and not begun
	changed chan struct{} // has a value when something ended
	telling sync.WaitGroup
	done    int // units; of the goroutine of the engine's completions and, without any, of its intake
}

func (s *leases) ready(plan engine.Plan) { s.task.Observer.started(plan, s.of.Rows, 0) }

// next takes and begins a unit, when the engine has not enough to do. It returns nil when there is none, and when what
// is in flight must be through first; the engine's run ends then, and another one may follow.
func (s *leases) next(ctx context.Context) (*unit, error) {
	enough := 2 * s.session.Plan().MaxSeqs // rows: slots never wait for the queue while it has something
	for ctx.Err() == nil {
		rows, alone := s.flight()
		if alone {
			return nil, nil
		}
		if rows >= enough {
			select {
			case <-ctx.Done():
			case <-s.changed:
			}
			continue
		}
		lease := s.first
		s.first = nil
		if lease == nil {
			var err error
			if rows == 0 {
				s.task.Observer.Run.Waiting()
			}
			if lease, err = s.taken.Next(ctx, Timing.PollUnits); err != nil || lease == nil {
				return nil, err
			}
		}
		s.task.Observer.Run.Working()
		// Its worker died, more than once: perhaps of this unit. Others should not die with it.
		if lease.Suspect && rows > 0 {
			s.first = lease
			return nil, nil
		}
		u, err := s.begin(ctx, lease)
		if u != nil || err != nil {
			return u, err
		}
	}
	return nil, nil
}

// flight counts rows that are begun and not finished; alone says that a unit among them must be alone.
func (s *leases) flight() (rows int, alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.units {
		_, _, running := u.out.counts()
		rows += int(running)
		alone = alone || u.lease.Suspect
	}
	return rows, alone
}

// begin opens a unit. It returns nil for one that is done already, or that this worker can't do now.
func (s *leases) begin(ctx context.Context, lease *queue.Lease) (u *unit, err error) {
	parts := s.job.parts
	if lease.Number < 0 || lease.Number >= parts.Count() {
		err := fmt.Errorf("unit %d is not one of the job, which has %d parts", lease.Number, parts.Count())
		return nil, lease.Fail(ctx, err)
	}
	t := *s.task
	// A unit is a shard of one part: with a lock, a journal and notes of its own, beside other shards and apart from
	// runs of the whole.
	t.Shard = jobstate.Shard{Index: lease.Number, Count: parts.Count()}
	t.writer = queue.CleanName(fmt.Sprintf("unit-%05d-%s-%d", lease.Number, s.worker.Name, os.Getpid()))
	saved, err := t.openSaved(ctx, parts, s.job.description)
	switch {
	case errors.Is(err, jobstate.ErrBusy), errors.Is(err, jobstate.ErrOtherShards):
		// Its last worker lives, though the queue gave it up; or a run of the whole job does.
		s.log.Info("a unit is worked on elsewhere, and given back", "unit", lease.Number, "err", err.Error())
		return nil, lease.Busy(ctx, s.of.AckWait/4)
	case err != nil:
		return nil, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	defer func() {
		if u == nil {
			err = errors.Join(err, saved.close())
		}
	}()
	for _, d := range saved.damaged {
		s.log.Warn("a unit's part is damaged, and generated again", "unit", lease.Number, "part", d.Part.Name, "what",
			d.What)
	}
	if len(saved.missing) == 0 {
		s.log.Info("the part of a unit is there", "unit", lease.Number)
		if err := s.sweep(lease.Number); err != nil {
			return nil, errors.Join(err, lease.GiveBack(ctx, 0))
		}
		return nil, lease.Done(ctx, saved.before)
	}
	switch err := s.claim(ctx, &t, saved); {
	case errors.Is(err, errSettled):
		s.first = lease
		return nil, err
	case err != nil:
		return nil, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	if dir, err := t.workFolder(); err == nil {
		t.Observer.keepWorker(t.FS, filepath.Join(dir, jobstate.Folder), s.worker.Name)
	}
	// From here on what goes wrong may be the unit's fault.
	if err = s.sweep(lease.Number); err == nil {
		u, err = s.openUnit(context.WithoutCancel(ctx), &t, saved, nil)
	}
	if err != nil {
		return nil, errors.Join(err, lease.Fail(ctx, s.worker.reword(err)))
	}
	u.lease = lease
	s.started(ctx, u)
	return u, nil
}

// started tells of a unit that is begun.
func (s *leases) started(ctx context.Context, u *unit) {
	s.runner.begin(u)
	s.tellState()
	rows, completions := u.saved.journaled()
	s.log.Info("unit begun", "unit", u.lease.Number, "from", u.lease.From, "to", u.lease.To, "journaled_completions",
		completions)
	if rows > 0 {
		u.lease.Progress(tally.Counts{Rows: int64(rows)})
		u.lease.Note(ctx)
	}
}

// sweep removes what earlier workers left of the unit unpublished. It is called with the unit's lock.
func (s *leases) sweep(unit int) error {
	t := s.task
	if storage.IsRemote(t.Output) {
		return nil
	}
	names, err := t.FS.List(t.Output)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, rest, ok := strings.Cut(name, ".tmp-"+fmt.Sprintf("unit-%05d-", unit)); ok &&
			strings.HasPrefix(name, ".") && rest != "" {
			if err := t.FS.Remove(filepath.Join(t.Output, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// moved tells the queue how far a unit is, and ends it when its part is published.
func (s *leases) moved(ctx context.Context, u *unit) {
	defer s.signal()
	t, _, _ := u.out.counts()
	u.lease.Progress(t)
	if len(u.writer.Unpublished()) > 0 || !s.takeOut(u, true) {
		return
	}
	s.mu.Lock()
	s.done++
	done := s.done
	s.mu.Unlock()
	s.task.say("unit %d is done: rows %d to %d, %s, %s; %s by this worker",
		u.lease.Number, u.lease.From, u.lease.To-1, plural.Count(t.Completions, "completion"),
		plural.Count(t.RowsWithErrors, "row with errors"), plural.Count(done, "unit"))
	s.telling.Go(func() {
		err := s.close(u)
		if err == nil {
			err = u.lease.Done(context.WithoutCancel(ctx), t)
		}
		s.fail(err) // of the queue, which could not be told
	})
}

// takeOut is end, and says when nothing is left to do.
func (s *leases) takeOut(u *unit, whole bool) bool {
	ok := s.end(u, whole)
	if ok {
		s.tellState()
	}
	return ok
}

// tellState says whether there is something to do. Units begin and end in two goroutines: the last to say it says how
// it is now.
func (s *leases) tellState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.units) == 0 {
		s.task.Observer.Run.Waiting()
	} else {
		s.task.Observer.Run.Working()
	}
}

func (s *leases) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// close gives up what the unit has open. Without its lock another worker may have it.
func (s *leases) close(u *unit) error {
	err := errors.Join(u.writer.Close(), u.saved.journal.Close())
	if len(u.writer.Unpublished()) == 0 {
		err = errors.Join(err, u.saved.clearJournals())
	}
	return errors.Join(err, u.saved.close())
}

// unread gives up a unit; completions of it that are in flight are dropped.
func (s *leases) unread(ctx context.Context, u *unit, cause error) {
	if !s.takeOut(u, false) {
		return
	}
	s.log.Warn("a unit failed", "unit", u.lease.Unit.String(), "err", cause.Error())
	s.telling.Go(func() {
		u.writer.Close() // its error is the cause
		err := errors.Join(u.saved.journal.Close(), u.saved.close())
		if err != nil {
			s.log.Warn("closing what a unit had", "unit", u.lease.Number, "err", err.Error())
		}
		if errors.Is(cause, fs.ErrExist) {
			// Another worker, that the queue had given up, published the part: whoever gets the unit finds it.
			s.fail(u.lease.GiveBack(context.WithoutCancel(ctx), time.Second))
			return
		}
		s.fail(u.lease.Fail(context.WithoutCancel(ctx), s.worker.reword(cause)))
	})
}

// broken gives up a unit that could not be written, and with it the worker: others could not be either. A part that
// another worker put there is no such case.
func (s *leases) broken(ctx context.Context, u *unit, cause error) {
	s.unread(ctx, u, cause)
	if !errors.Is(cause, fs.ErrExist) {
		s.fail(cause)
	}
}

// gaveUp says to the queue what was in flight when the device failed once too often.
func (s *leases) gaveUp(ctx context.Context, err error) error {
	err = s.worker.reword(err)
	units := s.inOrder()
	for _, u := range units {
		s.unread(ctx, u, err)
	}
	if first := s.first; first != nil {
		s.first = nil
		s.telling.Go(func() { s.fail(first.Fail(context.WithoutCancel(ctx), err)) })
	}
	return fmt.Errorf("%w (%s in flight)", err, plural.Count(len(units), "unit")+plural.Of(len(units), " was", " were"))
}

// giveBack gives back what is begun.
func (s *leases) giveBack() {
	for _, u := range s.inOrder() {
		s.takeOut(u, false)
		u.stop()
		if err := s.close(u); err != nil {
			s.log.Warn("closing what a unit had", "unit", u.lease.Number, "err", err.Error())
		}
	}
	s.first = nil // closing gives it back
}

// abandon gives all units back to the queue at once: this process ends in the middle of them. Whoever gets one waits
// for this process' locks, and goes on from its journal.
func (s *leases) abandon(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.taken.Close(last); err != nil {
		s.log.Warn("the queue was not told that this worker ends", "err", err.Error())
	}
}

// beat tells how the worker is, and ends its work when the job is no more to be done.
func (s *leases) beat(ctx context.Context, end context.CancelCauseFunc) {
	host, _ := os.Hostname()
	type sample struct {
		at      time.Time
		figures tally.Counts
	}
	var minute []sample
	ticker := time.NewTicker(Timing.BeatEvery)
	defer ticker.Stop()
	for {
		f, units := s.drawn(), s.inFlight()
		now := sample{time.Now(), f}
		minute = append(minute, now)
		if len(minute) > int(time.Minute/Timing.BeatEvery)+1 {
			minute = minute[1:]
		}
		life := queue.Life{Host: host, PID: os.Getpid(), Units: units, Figures: f}
		if seconds := now.at.Sub(minute[0].at).Seconds(); seconds > 0 {
			life.RowsPerSecond = float64(f.Rows-minute[0].figures.Rows) / seconds
			life.TokensPerSecond = float64(f.CompletionTokens-minute[0].figures.CompletionTokens) / seconds
		}
		if err := s.taken.Beat(ctx, life); errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrNoJob) {
			end(err)
		} else if err != nil && ctx.Err() == nil {
			s.log.Debug("no heartbeat", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *leases) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.units)
}
