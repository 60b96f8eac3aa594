// Package distribute does a job with several processes: it puts a job's missing parts into a queue as units, does them
// in workers with one engine for each job, and reports how far a job of the queue is.
package distribute

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

// Worker takes units of jobs out of a queue and generates them, with one engine for each job.
type Worker struct {
	// Options of the process. WorkDir is for outputs in object stores.
	process.Options
	// Name is the worker's, which no other one has; one that is started again under its name gets its units back at
	// once.
	Name string
	// KVMemory is the bytes of the KV cache on this machine; 0 takes the job's.
	KVMemory int64
	// Plugins takes jobs whose backend is a plugin's file, too: anyone who may write to the queue chooses that code.
	Plugins bool
	// Supervised reports whether another process reports how the job ended.
	Supervised bool
	// Reword rephrases an error of a job for the operator of the worker, who did not choose the job's settings; nil
	// leaves it.
	Reword func(error) error
}

func (w *Worker) reworded(err error) error {
	if w.Reword == nil || err == nil {
		return err
	}
	return w.Reword(err)
}

// Work works on a job until nothing of it waits or runs or, without a job, on any job until ctx is done. Relative names
// of a job start in the folder that it was submitted in, which becomes the folder of this process.
func (w *Worker) Work(ctx context.Context, q *queue.Queue, job string) error {
	w.Options = load.WithModels(w.Options).WithDefaults()
	if w.Name == "" {
		host, _ := os.Hostname()
		w.Name = queue.CleanName(fmt.Sprintf("%s-%d-%06x", host, os.Getpid(), time.Now().UnixNano()&0xffffff))
	}
	if job == "" {
		return w.workOnAny(ctx, q)
	}
	j, err := q.Job(ctx, job)
	if err != nil {
		return err
	}
	return w.workOn(ctx, q, j)
}

func (w *Worker) workOnAny(ctx context.Context, q *queue.Queue) error {
	aside := map[string]time.Time{}
	for ctx.Err() == nil {
		w.Observer.Run.Waiting()
		jobs, err := q.Jobs(ctx)
		if err != nil {
			return err
		}
		worked := false
		for _, j := range jobs {
			if t, ok := aside[j.ID]; ok && time.Since(t) < w.Timing.SetAside || ctx.Err() != nil || j.Cancelled {
				continue
			}
			if left, err := q.Left(ctx, j); err != nil || !left {
				if err != nil {
					return err
				}
				continue
			}
			worked = true
			err := w.workOn(ctx, q, j)
			w.Observer.Run.Waiting()
			var end *outcome.Error // how a job may end; wrong inputs or settings are no end
			if err != nil && (!errors.As(err, &end) || end.Outcome == outcome.Misused) && ctx.Err() == nil {
				w.Observer.Log.Error("this worker can't do a job, and leaves it for a while", "job", j.ID, "err",
					err.Error())
				aside[j.ID] = time.Now()
			}
		}
		if !worked {
			select {
			case <-ctx.Done():
			case <-time.After(w.Timing.BetweenJobs):
			}
		}
	}
	return outcome.Errorf(outcome.Interrupted, "interrupted")
}

// workOn works on one job until nothing of it is left.
func (w *Worker) workOn(ctx context.Context, q *queue.Queue, j queue.Job) (err error) {
	w.Observer.Run.Begin()
	defer func() { w.Observer.EndSeries(outcome.Word(err)) }()
	if j.Cancelled {
		return jobCancelled(ctx, q, j.ID)
	}
	s, err := w.prepare(ctx, q, j)
	refused := err != nil
	if !refused {
		err = s.run(ctx)
	}
	final := outcome.Of(err) == outcome.Misused
	err = w.reworded(err)
	if (refused || final) && ctx.Err() == nil {
		host, _ := os.Hostname()
		if noteErr := q.Refuse(ctx, j.ID, queue.Refusal{Worker: w.Name, Host: host, Error: inLine(err),
			Final: final}); noteErr != nil {
			w.Observer.Log.Debug("the queue was not told why this worker can't do a job", "err", noteErr.Error())
		}
	}
	return err
}

// inLine is an error's text in one line.
func inLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// prepare looks whether the job is what was submitted, and whether this worker can do it, before it takes a unit.
func (w *Worker) prepare(ctx context.Context, q *queue.Queue, j queue.Job) (*jobWorker, error) {
	p, job, c, err := w.describe(j)
	if err != nil {
		return nil, err
	}
	if err := p.Models.Lacks(job.Engine.Backend); err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	opened, err := prepare.Open(ctx, p, job)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	if differences := opened.Description.Differences(c.Description); len(differences) > 0 {
		return nil, outcome.Errorf(outcome.Misused, "job %s differs on this machine: %s", j.ID, differences)
	}
	c.call(opened)
	if err := opened.CheckLineage(ctx, jobstate.Shard{}); err != nil { // a different version may have submitted the job
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	existing, err := jobstate.ReadOutput(ctx, job.Output)
	if err != nil {
		return nil, err
	}
	if job = opened.Job; existing != nil {
		differences := opened.Description.Differences(existing)
		if job, err = resume.SettledAs(job, p, existing.Binding(), differences); err != nil {
			return nil, err
		}
	}
	taken, err := q.Worker(ctx, j, w.Name)
	if err != nil {
		return nil, err
	}
	g := generate.NewGenerator(p, job, opened)
	g.Ready = func(plan engine.Plan) { p.Observer.Started(plan, j.Rows, 0) }
	log := p.Observer.Log.With("job", j.ID)
	return &jobWorker{worker: w, queue: q, leaseSource: &leaseSource{Generator: g, log: log, name: w.Name, queued: j,
		taken: taken,
		units: &leasedUnits{process: p, active: &g.Active, log: log, reword: w.reworded,
			leases: map[*generate.Unit]*queue.Lease{}, changed: make(chan struct{}, 1)}}}, nil
}

// describe is the job of a queue as this worker does it.
func (w *Worker) describe(j queue.Job) (*process.Process, *spec.Job, *queuedJob, error) {
	c, err := parseQueued(j.Config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("job %s was not submitted by Quire: %w", j.ID, err)
	}
	options := w.Options
	options.WorkDir = ""
	if w.WorkDir != "" && storage.IsRemote(c.Spec.Output) {
		options.WorkDir = w.WorkDir
	}
	full := c.fullSpec()
	if w.KVMemory != 0 {
		full.Engine.KVMemory = w.KVMemory
	}
	p := &process.Process{Options: load.WithModels(options).WithDefaults(), Queued: j.ID}
	job, err := process.Describe(full, options)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	if parts, _, ok := spec.PartsOf(c.Description); ok {
		job.CutRows = parts.PartRows
	}
	if c.local() {
		if err := os.Chdir(c.Dir); err != nil {
			return nil, nil, nil, fmt.Errorf("job %s has names relative to %s, which is not here: %w; submit it with "+
				"absolute paths or URLs", j.ID, c.Dir, err)
		}
	}
	if strings.ContainsRune(job.Engine.Backend, filepath.Separator) && !w.Plugins {
		return nil, nil, nil, setting.Errorf("job %s wants the plugin %s, and this worker was not told that it may "+
			"load what a job names: give it `plugins`", j.ID, job.Engine.Backend)
	}
	return p, job, c, nil
}

// jobWorker is a worker at one job.
type jobWorker struct {
	*leaseSource
	worker *Worker
	queue  *queue.Queue
}

// run takes units until nothing of the job is left.
func (s *jobWorker) run(ctx context.Context) (err error) {
	defer s.Close()
	ctx, end := context.WithCancelCause(ctx) // cancelling the job also ends ctx
	defer end(nil)
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer process.EndInTime(ctx, s.Process, func() { s.abandon(ctx) })()
	var beating sync.WaitGroup
	beating.Go(func() { s.beat(beats, end) })
	defer func() {
		s.units.reports.Wait()
		stop()
		beating.Wait()
		// The last report is not worth waiting for an absent server.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		s.units.giveBack()
		if cerr := s.taken.Close(last); cerr != nil {
			s.log.Warn("the queue was not told that this worker ends", "err", cerr.Error())
		}
	}()
	for {
		if s.first == nil {
			s.Process.Observer.Run.Waiting()
			if s.first, err = s.taken.Next(ctx, s.Process.Timing.PollUnits); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if cause := context.Cause(ctx); errors.Is(cause, queue.ErrCancelled) || errors.Is(cause, queue.ErrNoJob) {
			return jobCancelled(context.WithoutCancel(ctx), s.queue, s.queued.ID)
		}
		if ctx.Err() != nil {
			if len(s.Active.List()) == 0 && s.first == nil && s.worker.Supervised { // the job is done
				return nil
			}
			return outcome.Errorf(outcome.Interrupted, "interrupted: the units of %s go to other workers",
				s.worker.Name)
		}
		if s.first != nil {
			s.Process.Observer.Run.Working()
			err := s.Generate(ctx, s.leaseSource)
			if gone := (*generate.DeviceFailedError)(nil); errors.As(err, &gone) {
				err = s.units.gaveUp(ctx, s.first, err)
				s.first = nil
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
			s.units.reports.Wait()
			continue
		}
		if over, err := s.over(ctx); over {
			return err
		}
	}
}

// over reports whether nothing of the job is left, and then how it ended.
func (s *jobWorker) over(ctx context.Context) (over bool, err error) {
	if left, err := s.queue.Left(ctx, s.queued); err != nil || left {
		return err != nil && ctx.Err() == nil, err
	}
	status, err := s.queue.Status(ctx, s.queued.ID)
	switch {
	case err == nil && status.Over && s.worker.Supervised: // the supervisor reports how it ended
		return true, nil
	case err == nil && status.Over:
		return true, JobOver(status)
	case errors.Is(err, queue.ErrNoJob):
		return true, jobCancelled(ctx, s.queue, s.queued.ID)
	}
	return false, nil
}

// JobOver is how a job of a queue ended that is over: nil, or an error of outcome [Partial] if rows carry errors.
func JobOver(s *queue.Status) error {
	var what []string
	for i, u := range s.ParkedUnits {
		if i == outcome.ErrorExamples {
			what = append(what, fmt.Sprintf("%d more", s.Parked-i))
			break
		}
		what = append(what, fmt.Sprintf("%s: %s", u.Unit, u.Error))
	}
	switch {
	case s.Job.Cancelled:
		return wasCancelled(s)
	case s.Parked > 0:
		return setting.Errorf(
			"%s of %s %s parked, and %s missing: %s; fix what is wrong and submit the job again: \"sample submit "+
				"`retry`\"",
			plural.Count(s.Parked, "unit"), s.Job.Name, plural.Of(s.Parked, "is", "are"),
			plural.Of(s.Parked, "its part is", "their parts are"), strings.Join(what, "; "))
	case s.Lost > 0:
		return fmt.Errorf("%s of %s %s neither done nor in the queue: its server lost %s; submit the job again",
			plural.Count(s.Lost, "unit"), s.Job.Name, plural.Of(s.Lost, "is", "are"), plural.Of(s.Lost, "it", "them"))
	}
	return outcome.RowsWithErrors(s.Figures.RowsWithErrors, s.Figures.Rows, s.Job.Name)
}

// jobCancelled is the error for a job that was cancelled, or taken out of the queue.
func jobCancelled(ctx context.Context, q *queue.Queue, id string) error {
	s, err := q.Status(ctx, id)
	if errors.Is(err, queue.ErrNoJob) {
		return outcome.Errorf(outcome.Failed, "job %s was taken out of the queue", id)
	}
	if err != nil {
		return err
	}
	return wasCancelled(s)
}

func wasCancelled(s *queue.Status) error {
	return outcome.Errorf(outcome.Failed,
		"job %s was cancelled: %d of %d rows are finished and kept in %s; submit it again to continue",
		s.Job.ID, s.Figures.Rows, s.Job.Rows, s.Job.Name)
}
