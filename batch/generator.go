package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
)

// source gives the units of a job: all that is missing of it, or of a shard, or leases of a queue.
type source interface {
	// Next returns a unit that is begun. The goroutine of the engine's intake calls it.
	Next(ctx context.Context) (next, error)
}

// next is what a source has next: a unit, an engine that is to be opened again, or, if it is the zero value, nothing
// that may be generated together with the units in flight.
type next struct {
	unit    *unit
	resized bool // another process started the job with other sizes, which the engine must have too
}

// listener is told how a unit goes. The goroutine of the engine's intake calls unread and broken, that of its
// completions moved and broken.
type listener interface {
	// moved is called after each completion of a unit, and when all of its rows were begun.
	moved(ctx context.Context, u *unit)
	// unread takes a unit whose rows can't be read, and broken one whose rows can't be written.
	unread(ctx context.Context, u *unit, err error)
	broken(ctx context.Context, u *unit, err error)
}

// ending is how an attempt at the generating ended.
type ending int

const (
	sourceEmpty   ending = iota // the source has nothing now
	engineResized               // the engine is to be opened again, with other sizes
	engineFailed                // the device failed
	workFailed                  // a unit can't be begun, read or written
)

// generator generates the completions of units with one engine. It is what a run, a shard and a worker have in common.
type generator struct {
	process *Process
	job     *Job // as it is settled
	opened  *Opened
	builder *ask.Builder
	flight  flight
	// ready is called when an engine is open, for the first time or with other sizes; nil for nobody.
	ready func(engine.Plan)

	session *Session // nil while no engine is open
	last    *Session // that was open

	restarts int
	again    bool         // the engine is opened after a failure
	resized  bool         // the engine is opened with other sizes than the last one
	engines  engine.Stats // of all engines
}

func newGenerator(p *Process, j *Job, opened *Opened) *generator {
	g := &generator{process: p, job: j, opened: opened, builder: newBuilder(j, nil, p.Messages)}
	// Who writes rows to standard input may make them of completions; files are there before the job.
	g.builder.Leaves = opened.reader != nil && !opened.reader.HasParents()
	return g
}

// open makes the engine, in place of one that is there.
func (g *generator) open(ctx context.Context) error {
	g.release()
	if !g.again {
		g.process.sayOpening(g.job)
	}
	g.process.Observer.Run.Opening()
	s, err := g.process.Models.Open(ctx, g.job, g.process)
	if err != nil {
		return err
	}
	known := g.last != nil && !g.resized // the plan
	g.session, g.last = s, s
	s.serve(g.builder)
	if known {
		g.process.Observer.again()
		return nil
	}
	if g.resized = false; g.ready != nil {
		g.ready(s.Plan())
	}
	return nil
}

func (g *generator) release() {
	if g.session != nil {
		g.session.Release()
		g.session = nil
	}
}

// claim makes the job, with what the engine settled on, the folder's job, if there is none yet. It returns resized if
// another process was faster since the engine was opened: the generator's job has that one's sizes then. An error says
// that the job there is another one, or computed in another way.
func (g *generator) claim(ctx context.Context, saved *savedJob) (resized bool, err error) {
	plan := g.session.Plan()
	d := *g.opened.description
	d.Settled, d.Device, d.Meta = settled(plan), plan.Backend, saved.job.footer(g.process.Version, g.session)
	if d.Arithmetic, err = saved.arithmetic(g.session.Device); err != nil {
		return false, err
	}
	if err := errors.Join(saved.claim(ctx, &d), saved.dropStandard()); err != nil {
		return false, err
	}
	if was := saved.state.Job().Settled; !settled(plan).Same(was) {
		as, err := g.job.settledAs(g.process, was, nil)
		if err != nil {
			return false, err
		}
		before := g.job.Engine
		if g.job = as; as.Engine != before { // else an engine that is opened again is the same
			return true, nil
		}
	}
	return false, saved.computes(d.Arithmetic)
}

// generate does the units that are begun and those that the source gives, until it gives none. If the engine fails,
// another one goes on with what was in flight. The error is what ended it early: a [*gaveUpError] if the device goes on
// failing.
func (g *generator) generate(ctx context.Context, units source) error {
	failures := 0
	for {
		before := g.flight.drawn()
		end, err := g.attempt(ctx, units)
		if fatal := g.flight.failed(); fatal != nil {
			if end == engineFailed {
				err = nil // it follows
			}
			return errors.Join(fatal, err)
		}
		if end == engineResized && ctx.Err() == nil {
			g.again, g.resized = false, true
			if err = g.open(ctx); err == nil {
				continue
			}
			end = engineFailed
		}
		// What several processes do together they begin together, too: the job is started again, not the engine.
		if end != engineFailed || ctx.Err() != nil || g.process.several() {
			return err
		}
		if g.flight.drawn().Completions > before.Completions {
			failures = 0
		}
		g.process.Observer.failed(err)
		if failures++; failures > g.process.MaxRestarts {
			return &gaveUpError{failures, err}
		}
		if err := g.pause(ctx, failures, err); err != nil {
			return err
		}
		g.release()
	}
}

// gaveUpError says that the device goes on failing.
type gaveUpError struct {
	failures int
	err      error // the last one
}

func (e *gaveUpError) Error() string {
	return fmt.Sprintf("the device failed %s without finishing a completion in between, the last time with: %v",
		plural.Count(e.failures, "time"), e.err)
}

func (e *gaveUpError) Unwrap() error { return e.err }

// pause waits before the engine is started again.
func (g *generator) pause(ctx context.Context, failures int, err error) error {
	pause := g.process.Timing.Backoff(failures)
	g.process.tell("warning: the device failed: %v; the engine is started again in %s (try %d of %d without a "+
		"completion in between)", err, pause, failures, g.process.MaxRestarts)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
	}
	g.restarts++
	g.again = true
	return nil
}

// attempt runs one engine until no unit comes any more, or one that can't be begun, or the engine fails.
func (g *generator) attempt(ctx context.Context, units source) (ending, error) {
	if g.session == nil {
		if err := g.open(ctx); err != nil {
			return engineFailed, err
		}
	}
	ctx, cancel := context.WithCancel(ctx) // lets go of the reading goroutine when the loop is left early
	defer cancel()
	watch := watchDevice(g.process, g.session, g.flight.idle)
	defer watch.stop()
	in := &intake{flight: &g.flight, units: units, rows: map[*engine.Request]*requested{}}
	var failure error
	for c, err := range g.session.Run(ctx, in.requests(ctx)) {
		watch.alive()
		if err != nil {
			failure = err
			cancel()
			break
		}
		u, row := in.rowOf(c)
		if u == nil || !g.flight.has(u) { // it was given up, and this was in flight
			continue
		}
		if err := u.out.add(row, c); err != nil {
			u.listener.broken(ctx, u, err)
			cancel()
			break
		}
		u.listener.moved(ctx, u)
	}
	g.engines = g.engines.Then(g.session.Stats())
	switch {
	case in.failure != nil:
		return workFailed, errors.Join(in.failure, failure)
	case failure != nil:
		g.resized = g.resized || in.resized
		return engineFailed, failure
	case in.resized:
		return engineResized, nil
	}
	return sourceEmpty, nil
}

// intake gives the engine the requests of one attempt, and knows whose they are.
type intake struct {
	flight *flight
	units  source

	// How it ended: of the goroutine of the engine's intake, until the engine's run is over.
	resized bool
	failure error

	mu   sync.Mutex
	rows map[*engine.Request]*requested // of completions that are to come
}

// requested is the row of a request.
type requested struct {
	unit *unit
	row  *pendingRow
	left int // completions of the request
}

// requests yields requests of units that were begun before, then of those that come.
func (in *intake) requests(ctx context.Context) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		units := in.flight.inOrder()
		for {
			for _, u := range units {
				for row, request := range u.requests(ctx) {
					in.mu.Lock()
					in.rows[request] = &requested{u, row, request.N}
					in.mu.Unlock()
					if !yield(request) {
						return
					}
				}
				if ctx.Err() != nil {
					return
				}
				if err := u.out.failed(); err != nil {
					u.listener.broken(ctx, u, err)
					return
				}
				if err := u.reader.Err(); err != nil && !u.read {
					u.rows.stop()
					u.listener.unread(ctx, u, err)
					continue
				}
				u.read = true
				u.rows.stop()
				u.listener.moved(ctx, u)
			}
			n, err := in.units.Next(ctx)
			if n.unit == nil || err != nil {
				in.resized, in.failure = n.resized, err
				return
			}
			units = []*unit{n.unit}
		}
	}
}

// rowOf returns whose completion it is.
func (in *intake) rowOf(c *engine.Completion) (*unit, *pendingRow) {
	in.mu.Lock()
	defer in.mu.Unlock()
	of := in.rows[c.Request]
	if of == nil {
		return nil, nil
	}
	if of.left--; of.left == 0 || refused(c.Err) { // a request that is refused has one completion
		delete(in.rows, c.Request)
	}
	return of.unit, of.row
}
