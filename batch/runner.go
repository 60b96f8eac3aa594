package batch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/tally"
)

// source gives a runner its units: all that is missing of a job, or of a shard, or leases of a queue. The goroutine of
// the engine's intake calls next, unread and broken, that of its completions moved and broken.
type source interface {
	// ready is called when the engine is open, for the first time or with other sizes.
	ready(engine.Plan)
	// next returns a unit that is begun. It returns nil when there is none, or none that may be drawn together with
	// those in flight, and errSettled when the engine has to be opened again, with other sizes.
	next(ctx context.Context) (*unit, error)
	// moved is called after each completion of a unit, and when all of its rows were begun.
	moved(ctx context.Context, u *unit)
	// unread takes a unit whose rows can't be read, and broken one whose rows can't be written.
	unread(ctx context.Context, u *unit, err error)
	broken(ctx context.Context, u *unit, err error)
	// gaveUp takes the error for a device that goes on failing, and adds what was in flight.
	gaveUp(ctx context.Context, err error) error
}

// errSettled says that another process began the job with other sizes, which the engine must have too.
var errSettled = errors.New("another process began the job")

// runner draws the units of a source with one engine. It is what a run, a shard and a worker have in common.
type runner struct {
	task    *Task
	job     *openedJob
	source  source
	builder *requestBuilder
	session *Session // nil while no engine is open
	last    *Session // that was open

	restarts int
	again    bool         // the engine is opened after a failure
	resized  bool         // the engine is opened with other sizes than the last one
	engines  engine.Stats // of all engines

	mu    sync.Mutex
	units map[*collector]*unit // begun and not ended
	begun int                  // units
	total tally.Counts         // what was drawn of units that are done
	fatal error                // what ends the runner
}

func newRunner(t *Task, job *openedJob) *runner {
	r := &runner{task: t, job: job, units: map[*collector]*unit{}, builder: newRequestBuilder(t, nil)}
	// Who writes rows to standard input may make them of completions; files are there before the job.
	r.builder.leaves = job != nil && job.reader != nil && !job.reader.HasParents()
	return r
}

// open makes the engine, in place of one that is there.
func (r *runner) open(ctx context.Context) error {
	r.release()
	if !r.again {
		r.task.sayOpening()
	}
	r.task.Observer.Run.Opening()
	s, err := r.task.Models.Open(ctx, r.task)
	if err != nil {
		return err
	}
	told := r.last != nil && !r.resized // the source knows the plan
	r.session, r.last, r.builder.session = s, s, s
	if told {
		r.task.Observer.again()
	} else {
		r.resized = false
		r.source.ready(s.Plan())
	}
	return nil
}

// sayOpening says that the model is opened.
func (t *Task) sayOpening() {
	t.say("opening %s on %s; a first run compiles its programs, later ones find them in the cache", t.Model,
		t.Engine.Backend)
}

// sayPlan says what the engine settled on.
func (t *Task) sayPlan(plan engine.Plan) {
	if t.Verbose {
		t.say("%s", plan)
	} else {
		t.say("%s", plan.Brief())
	}
}

func (r *runner) release() {
	if r.session != nil {
		r.session.Release()
		r.session = nil
	}
}

// draw draws the units of the source until it gives none. Where the engine fails, another one goes on with what was in
// flight. The error is what ended the drawing early.
func (r *runner) draw(ctx context.Context) error {
	failures := 0
	for {
		before := r.drawn()
		left, err := r.attempt(ctx)
		fatal := r.failed()
		if errors.Is(left, errSettled) && err == nil && fatal == nil && ctx.Err() == nil {
			r.again, r.resized = false, true
			if err = r.open(ctx); err == nil {
				continue
			}
			left = nil
		}
		// What several processes do together they begin together, too: the job is started again, not the engine.
		if err == nil || left != nil || ctx.Err() != nil || fatal != nil || r.task.several() {
			if fatal != nil {
				err = nil // it follows
			}
			return errors.Join(fatal, left, err)
		}
		if r.drawn().Completions > before.Completions {
			failures = 0
		}
		r.task.Observer.failed(err)
		if failures++; failures > r.task.MaxRestarts {
			return r.source.gaveUp(ctx, fmt.Errorf("the device failed %s without finishing a completion in between, "+
				"the last time with: %w", plural.Count(failures, "time"), err))
		}
		if err := r.pause(ctx, failures, err); err != nil {
			return err
		}
		r.release()
	}
}

// pause waits before the engine is started again.
func (r *runner) pause(ctx context.Context, failures int, err error) error {
	pause := Backoff(failures)
	r.task.tell("warning: the device failed: %v; the engine is started again in %s (try %d of %d without a completion "+
		"in between)", err, pause, failures, r.task.MaxRestarts)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
	}
	r.restarts++
	r.again = true
	return nil
}

// attempt runs one engine until no unit comes any more, or one that can't be begun, whose error is left, or the engine
// fails.
func (r *runner) attempt(ctx context.Context) (left, err error) {
	if r.session == nil {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx) // lets go of the reading goroutine when the loop is left early
	defer cancel()
	watch := r.task.watchDevice(r.session, r.idle)
	defer watch.stop()
	for c, runErr := range r.session.Run(ctx, r.requests(ctx, &left)) {
		watch.alive()
		if runErr != nil {
			err = runErr
			cancel()
			break
		}
		u := r.unitOf(c)
		if u == nil { // it was given up, and this was in flight
			continue
		}
		if addErr := u.out.add(c); addErr != nil {
			r.source.broken(ctx, u, addErr)
			cancel()
			break
		}
		r.source.moved(ctx, u)
	}
	r.engines = r.engines.Then(r.session.Stats())
	return left, err
}

// idle says that no row is begun and not finished.
func (r *runner) idle() bool {
	for _, u := range r.inOrder() {
		if _, _, running := u.out.counts(); running > 0 {
			return false
		}
	}
	return true
}

func (r *runner) unitOf(c *engine.Completion) *unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.units[c.Request.Tag.(*pendingRow).of]
}

// requests yields requests of units that were begun before, then of those that come.
func (r *runner) requests(ctx context.Context, left *error) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		units := r.inOrder()
		for {
			for _, u := range units {
				for request := range u.requests(ctx) {
					if !yield(request) {
						return
					}
				}
				if ctx.Err() != nil {
					return
				}
				if err := u.out.failed(); err != nil {
					r.source.broken(ctx, u, err)
					return
				}
				if err := u.reader.Err(); err != nil && !u.read {
					u.stop()
					r.source.unread(ctx, u, err)
					continue
				}
				u.read = true
				u.stop()
				r.source.moved(ctx, u)
			}
			u, err := r.source.next(ctx)
			if u == nil || err != nil {
				*left = err
				return
			}
			units = []*unit{u}
		}
	}
}

// begin takes a unit up.
func (r *runner) begin(u *unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	u.number = r.begun
	r.begun++
	r.units[u.out] = u
}

// end takes a unit from those that are begun. It returns false if it was taken before.
func (r *runner) end(u *unit, whole bool) bool {
	_, drawn, _ := u.out.counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.ended {
		return false
	}
	u.ended = true
	if whole {
		r.total = r.total.Plus(drawn)
	}
	delete(r.units, u.out)
	return true
}

// inOrder lists the units that are begun.
func (r *runner) inOrder() []*unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*unit
	for _, u := range r.units {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b *unit) int { return a.number - b.number })
	return all
}

// drawn adds up what this process drew.
func (r *runner) drawn() tally.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.total
	for _, u := range r.units {
		_, drawn, _ := u.out.counts()
		f = f.Plus(drawn)
	}
	return f
}

// fail ends the runner by an error, unless it ends by another one already.
func (r *runner) fail(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
}

func (r *runner) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fatal
}
