package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/queue"
	"github.com/quire/quire/tally"
)

// worker does units of one job with one engine. The goroutine of the engine's intake begins units, the one of its
// completions ends them, and each that is through is told to the queue by one of its own.
type worker struct {
	options  *runOptions
	env      *environment
	observer *observer
	log      *slog.Logger
	queue    *queue.Queue
	job      queue.Job
	leases   *queue.Worker
	opened   *openedJob
	name     string

	session *session
	builder requestBuilder

	mu      sync.Mutex
	units   map[*collector]*workUnit // begun and not ended
	begun   int                      // units
	total   tally.Counts             // of units that are done
	done    int                      // how many those are
	fatal   error                    // what ends the worker
	changed chan struct{}            // has a value when something ended
	telling sync.WaitGroup

	first *queue.Lease // taken, and not begun
}

// pollUnits is how long one question for a unit waits at the server.
var pollUnits = time.Second

// errSettled says that another worker began the job with other settings, which the engine must have too.
var errSettled = errors.New("another worker began the job")

// run takes units until nothing of the job is left.
func (w *worker) run(ctx context.Context) (err error) {
	defer func() {
		if w.session != nil {
			w.session.close()
		}
	}()
	ctx, end := context.WithCancelCause(ctx) // which the job's cancelling does, too
	defer end(nil)
	beats, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beating sync.WaitGroup
	beating.Go(func() { w.beat(beats, end) })
	defer func() {
		w.telling.Wait()
		stop()
		beating.Wait()
		// What is told in the end is not worth the time that a server may be away.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		w.release(last)
		if cerr := w.leases.Close(last); cerr != nil {
			w.log.Warn("the queue was not told that this worker ends", "err", cerr.Error())
		}
	}()
	for {
		if w.first == nil {
			w.observer.run.Waiting()
			if w.first, err = w.leases.Next(ctx, pollUnits); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if cause := context.Cause(ctx); errors.Is(cause, queue.ErrCancelled) || errors.Is(cause, queue.ErrNoJob) {
			return w.cancelled(context.WithoutCancel(ctx))
		}
		if ctx.Err() != nil {
			if _, units := w.sum(); units == 0 && w.first == nil && supervised() { // the job is done
				return nil
			}
			return &exitError{exitInterrupted, fmt.Errorf("interrupted: the units of %s go to other workers", w.name)}
		}
		if w.first != nil {
			if err := w.draw(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			w.telling.Wait()
			continue
		}
		if left, err := w.queue.Left(ctx, w.job); err != nil || left {
			if err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		s, err := w.queue.Status(ctx, w.job.ID)
		if err == nil && s.Over {
			if supervised() { // whoever supervises says how it ended
				return nil
			}
			return over(s)
		}
		if errors.Is(err, queue.ErrNoJob) {
			return w.cancelled(ctx)
		}
	}
}

// cancelled is the error for a job that was cancelled, or taken out of the queue.
func (w *worker) cancelled(ctx context.Context) error {
	s, err := w.queue.Status(ctx, w.job.ID)
	if errors.Is(err, queue.ErrNoJob) {
		return &exitError{exitFailure, fmt.Errorf("job %s was taken out of the queue", w.job.ID)}
	}
	if err != nil {
		return err
	}
	return cancelled(s)
}

// open makes the engine, in place of one that is there.
func (w *worker) open(ctx context.Context) error {
	if w.session != nil {
		w.session.close()
		w.session = nil
	}
	if w.options.progress != "none" {
		fmt.Fprintf(w.env.stderr, "opening %s on %s\n", w.options.model, w.options.backend)
	}
	w.observer.run.Opening()
	s, err := w.env.open(ctx, w.env, w.options)
	if err != nil {
		return err
	}
	w.session = s
	w.observer.started(s.Plan(), w.job.Rows, 0)
	if w.builder.options == nil {
		w.builder = requestBuilder{w.options, s, &commonPrefix{}, newEqualRows(w.env.stderr)}
	}
	w.builder.session = s
	for _, u := range byNumber(w.units) {
		u.job.builder.session = s
	}
	return nil
}

// draw draws the first unit and those that come while it does. Where the engine fails, another one goes on with what
// was in flight.
func (w *worker) draw(ctx context.Context) error {
	failures := 0
	w.observer.run.Working()
	for {
		var err error
		before := w.drawn()
		if w.session == nil {
			err = w.open(ctx)
		}
		var ended error
		if err == nil {
			ended, err = w.attempt(ctx)
		}
		w.mu.Lock()
		fatal := w.fatal
		w.mu.Unlock()
		if errors.Is(ended, errSettled) && err == nil && fatal == nil && ctx.Err() == nil {
			err = w.open(ctx)
			if err == nil {
				continue
			}
		}
		if err == nil || ended != nil || ctx.Err() != nil || fatal != nil {
			return errors.Join(fatal, ended)
		}
		if w.drawn() > before {
			failures = 0
		}
		w.observer.failed(err)
		if failures++; failures > w.options.maxRestarts {
			return w.giveUp(ctx, failures, err)
		}
		pause := min(restartPause<<min(failures-1, 6), time.Minute)
		w.log.Warn("the device failed; the engine is started again", "err", err.Error(), "pause", pause.String(), "try",
			failures, "of", w.options.maxRestarts)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if w.session != nil {
			w.session.close()
			w.session = nil
		}
	}
}

// giveUp says to the queue what was in flight when the device failed once too often.
func (w *worker) giveUp(ctx context.Context, failures int, err error) error {
	err = ofJob(fmt.Errorf("the device failed %s without finishing a completion in between, the last time with: %w",
		plural.Count(failures, "time"), err))
	units := byNumber(w.units)
	for _, u := range units {
		w.fail(ctx, u, err)
	}
	if first := w.first; first != nil {
		w.first = nil
		w.telling.Go(func() { w.told(first.Fail(context.WithoutCancel(ctx), err)) })
	}
	return fmt.Errorf("%w (%s in flight)", err, plural.Count(len(units), "unit")+plural.Of(len(units), " was", " were"))
}

// attempt runs one engine until no unit comes any more, or one that can't be begun, whose error is ended, or the engine
// fails.
func (w *worker) attempt(ctx context.Context) (ended, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := watchDevice(w.env.stderr, w.session)
	defer watch.stop()
	for c, runErr := range w.session.Run(ctx, w.requests(ctx, &ended)) {
		watch.alive()
		if runErr != nil {
			err = runErr
			break
		}
		p := c.Request.Tag.(*pendingRow)
		w.mu.Lock()
		u := w.units[p.of]
		w.mu.Unlock()
		if u == nil { // it failed, and this was in flight
			continue
		}
		if addErr := u.job.out.add(c); addErr != nil {
			w.broken(ctx, u, addErr)
			break
		}
		w.look(ctx, u)
		w.signal()
	}
	return ended, err
}

// requests yields requests of units that were begun before, then of those that come.
func (w *worker) requests(ctx context.Context, ended *error) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		w.mu.Lock()
		units := byNumber(w.units)
		w.mu.Unlock()
		for {
			for _, u := range units {
				for r := range u.job.requests(ctx) {
					if !yield(r) {
						return
					}
				}
				if ctx.Err() != nil {
					return
				}
				if err := u.job.out.failed(); err != nil {
					w.broken(ctx, u, err)
					return
				}
				if err := u.job.reader.Err(); err != nil && !u.read {
					u.stop()
					w.fail(ctx, u, err)
					continue
				}
				u.read = true
				u.stop()
				w.look(ctx, u)
			}
			u, err := w.next(ctx)
			if u == nil || err != nil {
				*ended = err
				return
			}
			units = []*workUnit{u}
		}
	}
}

// next takes and begins a unit, when the engine has not enough to do. It returns nil when there is none, and when what
// is in flight must be through first; the engine's run ends then, and another one may follow.
func (w *worker) next(ctx context.Context) (*workUnit, error) {
	enough := 2 * w.session.Plan().MaxSeqs // rows: slots never wait for the queue while it has something
	for ctx.Err() == nil {
		rows, alone := w.flight()
		if alone {
			return nil, nil
		}
		if rows >= enough {
			select {
			case <-ctx.Done():
			case <-w.changed:
			}
			continue
		}
		lease := w.first
		w.first = nil
		if lease == nil {
			var err error
			if rows == 0 {
				w.observer.run.Waiting()
			}
			if lease, err = w.leases.Next(ctx, pollUnits); err != nil || lease == nil {
				return nil, err
			}
		}
		w.observer.run.Working()
		// Its worker died, more than once: perhaps of this unit. Others should not die with it.
		if lease.Suspect && rows > 0 {
			w.first = lease
			return nil, nil
		}
		u, err := w.begin(ctx, lease)
		if u != nil || err != nil {
			return u, err
		}
	}
	return nil, nil
}

// flight counts rows that are begun and not finished; alone says that a unit among them must be alone.
func (w *worker) flight() (rows int, alone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.units {
		_, _, running := u.job.out.counts()
		rows += int(running)
		alone = alone || u.lease.Suspect
	}
	return rows, alone
}

func (w *worker) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// drawn counts the completions of this worker.
func (w *worker) drawn() int64 {
	f, _ := w.sum()
	return f.Completions
}

// sum adds up what the worker drew, and counts its units.
func (w *worker) sum() (f tally.Counts, units int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f = w.total
	for _, u := range w.units {
		_, drawn, _ := u.job.out.counts()
		f = f.Plus(drawn)
	}
	return f, len(w.units)
}

// beatEvery is how often a worker tells how it is.
var beatEvery = 5 * time.Second

// beat tells how the worker is, and ends its work when the job is no more to be done.
func (w *worker) beat(ctx context.Context, end context.CancelCauseFunc) {
	host, _ := os.Hostname()
	type sample struct {
		at      time.Time
		figures tally.Counts
	}
	var minute []sample
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		f, units := w.sum()
		now := sample{time.Now(), f}
		minute = append(minute, now)
		if len(minute) > int(time.Minute/beatEvery)+1 {
			minute = minute[1:]
		}
		life := queue.Life{Host: host, PID: os.Getpid(), Units: units, Figures: f}
		if seconds := now.at.Sub(minute[0].at).Seconds(); seconds > 0 {
			life.RowsPerSecond = float64(f.Rows-minute[0].figures.Rows) / seconds
			life.TokensPerSecond = float64(f.CompletionTokens-minute[0].figures.CompletionTokens) / seconds
		}
		if err := w.leases.Beat(ctx, life); errors.Is(err, queue.ErrCancelled) || errors.Is(err, queue.ErrNoJob) {
			end(err)
		} else if err != nil && ctx.Err() == nil {
			w.log.Debug("no sign of life", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
