package distribute

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

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/tally"
)

// leaseSource is the source of a worker: units of a job in a queue, each a part.
type leaseSource struct {
	*generate.Generator
	log    *slog.Logger
	name   string // name of the worker
	queued queue.Job
	taken  *queue.Worker
	units  *leasedUnits

	first *queue.Lease // taken, and not started
}

// Next takes and begins a unit, when the engine has not enough to do. It has nothing if there is none, and if what is
// in flight must be through first; the engine's run ends then, and another one may follow.
func (s *leaseSource) Next(ctx context.Context) (generate.NextUnit, error) {
	enough := 2 * s.Session.Plan().MaxSeqs // rows: slots never wait for the queue while it has something
	for ctx.Err() == nil {
		rows := s.Active.RunningRows()
		if s.units.runsAlone() {
			return generate.NextUnit{}, nil
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
				s.Process.Observer.Run.Waiting()
			}
			if lease, err = s.taken.Next(ctx, s.Process.Timing.PollUnits); err != nil || lease == nil {
				return generate.NextUnit{}, err
			}
		}
		s.Process.Observer.Run.Working()
		// Its worker died, more than once: perhaps of this unit. Others should not die with it.
		if lease.Suspect && rows > 0 {
			s.first = lease
			return generate.NextUnit{}, nil
		}
		n, err := s.begin(ctx, lease)
		if n.Unit != nil || n.Resized || err != nil {
			return n, err
		}
	}
	return generate.NextUnit{}, nil
}

// begin opens a unit. It has none if the unit is done already, or if this worker can't do it now.
func (s *leaseSource) begin(ctx context.Context, lease *queue.Lease) (_ generate.NextUnit, err error) {
	parts := s.Opened.Parts
	if lease.Number < 0 || lease.Number >= parts.Count() {
		err := fmt.Errorf("unit %d is not one of the job, which has %d parts", lease.Number, parts.Count())
		return generate.NextUnit{}, lease.Fail(ctx, err)
	}
	// A unit is a shard of one part: with a lock, a journal and notes of its own.
	p := s.Process.ForUnit(jobstate.Shard{Index: lease.Number, Count: parts.Count()},
		queue.CleanName(fmt.Sprintf("unit-%05d-%s-%d", lease.Number, s.name, os.Getpid())))
	saved, err := resume.Open(ctx, p, s.Opened.WithJob(s.Job))
	switch {
	case errors.Is(err, jobstate.ErrBusy), errors.Is(err, jobstate.ErrOtherShards):
		// Its last worker lives, though the queue gave it up; or a run of the whole job does.
		s.log.Info("a unit is worked on elsewhere, and given back", "unit", lease.Number, "err", err.Error())
		return generate.NextUnit{}, lease.Busy(ctx, s.queued.AckWait/4)
	case err != nil:
		return generate.NextUnit{}, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	var u *generate.Unit
	defer func() {
		if u == nil {
			err = errors.Join(err, saved.Close())
		}
	}()
	for _, d := range saved.Damaged {
		s.log.Warn("a unit's part is damaged, and generated again", "unit", lease.Number, "part", d.Part.Name, "what",
			d.What)
	}
	if len(saved.Missing) == 0 {
		s.log.Info("the part of a unit is there", "unit", lease.Number)
		if err := s.sweep(lease.Number); err != nil {
			return generate.NextUnit{}, errors.Join(err, lease.GiveBack(ctx, 0))
		}
		return generate.NextUnit{}, lease.Done(ctx, saved.Before)
	}
	switch resized, err := s.Claim(ctx, saved); {
	case resized:
		s.first = lease
		return generate.NextUnit{Resized: true}, nil
	case err != nil:
		return generate.NextUnit{}, errors.Join(err, lease.GiveBack(ctx, 0))
	}
	if dir, err := p.WorkFolder(s.Job); err == nil {
		p.Observer.KeepWorkerSeries(p.FS, filepath.Join(dir, jobstate.Folder), s.name)
	}
	// From here on what goes wrong may be the unit's fault.
	if err = s.sweep(lease.Number); err == nil {
		u, err = s.OpenUnit(context.WithoutCancel(ctx), saved, nil)
	}
	if err != nil {
		return generate.NextUnit{}, errors.Join(err, lease.Fail(ctx, s.units.reword(err)))
	}
	u.Listener = s.units
	s.units.started(ctx, u, lease)
	return generate.NextUnit{Unit: u}, nil
}

// sweep removes what earlier workers left of the unit unpublished. It is called with the unit's lock.
func (s *leaseSource) sweep(unit int) error {
	if storage.IsRemote(s.Job.Output) {
		return nil
	}
	names, err := s.Process.FS.List(s.Job.Output)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, rest, ok := strings.Cut(name, ".tmp-"+fmt.Sprintf("unit-%05d-", unit)); ok &&
			strings.HasPrefix(name, ".") && rest != "" {
			err := s.Process.FS.Remove(filepath.Join(s.Job.Output, name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// abandon gives all units back to the queue at once: this process ends in the middle of them. A worker that gets one
// waits for this process' locks, and continues its journal.
func (s *leaseSource) abandon(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := s.taken.Close(last); err != nil {
		s.log.Warn("the queue was not told that this worker ends", "err", err.Error())
	}
}

// beat reports how the worker is, and ends its work when the job is no more to be done.
func (s *leaseSource) beat(ctx context.Context, end context.CancelCauseFunc) {
	host, _ := os.Hostname()
	type sample struct {
		time    time.Time
		figures tally.Counts
	}
	var minute []sample
	ticker := time.NewTicker(s.Process.Timing.BeatEvery)
	defer ticker.Stop()
	for {
		f, units := s.Active.Generated(), len(s.Active.List())
		now := sample{time.Now(), f}
		minute = append(minute, now)
		if len(minute) > int(time.Minute/s.Process.Timing.BeatEvery)+1 {
			minute = minute[1:]
		}
		life := queue.Life{Host: host, PID: os.Getpid(), Units: units, Figures: f}
		if seconds := now.time.Sub(minute[0].time).Seconds(); seconds > 0 {
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
