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
	"time"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tally"
)

// leases is the source of a worker: units of a job in a queue, each a part.
type leases struct {
	*generator
	log   *slog.Logger
	name  string // of the worker
	of    queue.Job
	taken *queue.Worker
	units *leasedUnits

	first *queue.Lease // taken, and not begun
}

// Next takes and begins a unit, when the engine has not enough to do. It has nothing if there is none, and if what is
// in flight must be through first; the engine's run ends then, and another one may follow.
func (s *leases) Next(ctx context.Context) (next, error) {
	enough := 2 * s.session.Plan().MaxSeqs // rows: slots never wait for the queue while it has something
	for ctx.Err() == nil {
		rows := s.flight.running()
		if s.units.alone() {
			return next{}, nil
		}
		if rows >= enough {
			select {
			case <-ctx.Done():
			case <-s.units.changed:
			}
			continue
		}
		lease := s.first
		s.first = nil
		if lease == nil {
			var err error
			if rows == 0 {
				s.process.Observer.Run.Waiting()
			}
			if lease, err = s.taken.Next(ctx, s.process.Timing.PollUnits); err != nil || lease == nil {
				return next{}, err
			}
		}
		s.process.Observer.Run.Working()
		// Its worker died, more than once: perhaps of this unit. Others should not die with it.
		if lease.Suspect && rows > 0 {
			s.first = lease
			return next{}, nil
		}
		n, err := s.begin(ctx, lease)
		if n.unit != nil || n.resized || err != nil {
			return n, err
		}
	}
	return next{}, nil
}

// begin opens a unit. It has none if the unit is done already, or if this worker can't do it now.
func (s *leases) begin(ctx context.Context, lease *queue.Lease) (_ next, err error) {
	parts := s.opened.parts
	if lease.Number < 0 || lease.Number >= parts.Count() {
		err := fmt.Errorf("unit %d is not one of the job, which has %d parts", lease.Number, parts.Count())
		return next{}, lease.Fail(ctx, err)
	}
	// A unit is a shard of one part: with a lock, a journal and notes of its own.
	p := s.process.ofUnit(jobstate.Shard{Index: lease.Number, Count: parts.Count()},
		queue.CleanName(fmt.Sprintf("unit-%05d-%s-%d", lease.Number, s.name, os.Getpid())))
	saved, err := openSaved(ctx, p, s.opened.as(s.job))
	switch {
	case errors.Is(err, jobstate.ErrBusy), errors.Is(err, jobstate.ErrOtherShards):
		// Its last worker lives, though the queue gave it up; or a run of the whole job does.
		s.log.Info("a unit is worked on elsewhere, and given back", "unit", lease.Number, "err", err.Error())
		return next{}, lease.Busy(ctx, s.of.AckWait/4)
	case err != nil:
		return next{}, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	var u *unit
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
			return next{}, errors.Join(err, lease.GiveBack(ctx, 0))
		}
		return next{}, lease.Done(ctx, saved.before)
	}
	switch resized, err := s.claim(ctx, saved); {
	case resized:
		s.first = lease
		return next{resized: true}, nil
	case err != nil:
		return next{}, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	if dir, err := p.workFolder(s.job); err == nil {
		p.Observer.keepWorker(p.FS, filepath.Join(dir, jobstate.Folder), s.name)
	}
	// From here on what goes wrong may be the unit's fault.
	if err = s.sweep(lease.Number); err == nil {
		u, err = s.openUnit(context.WithoutCancel(ctx), saved, nil)
	}
	if err != nil {
		return next{}, errors.Join(err, lease.Fail(ctx, s.units.reword(err)))
	}
	u.listener = s.units
	s.units.started(ctx, u, lease)
	return next{unit: u}, nil
}

// sweep removes what earlier workers left of the unit unpublished. It is called with the unit's lock.
func (s *leases) sweep(unit int) error {
	if storage.IsRemote(s.job.Output) {
		return nil
	}
	names, err := s.process.FS.List(s.job.Output)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, rest, ok := strings.Cut(name, ".tmp-"+fmt.Sprintf("unit-%05d-", unit)); ok &&
			strings.HasPrefix(name, ".") && rest != "" {
			err := s.process.FS.Remove(filepath.Join(s.job.Output, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
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
	ticker := time.NewTicker(s.process.Timing.BeatEvery)
	defer ticker.Stop()
	for {
		f, units := s.flight.drawn(), len(s.flight.inOrder())
		now := sample{time.Now(), f}
		minute = append(minute, now)
		if len(minute) > int(time.Minute/s.process.Timing.BeatEvery)+1 {
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
