// Package generate generates the completions of units of a job with one engine, gathers them by row, and writes parts.
package generate

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/reward"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/batch/watch"
	"github.com/quire/quire/engine"
)

// source gives the units of a job: all that is missing of it, or of a shard, or leases of a queue.
type source interface {
	// Next returns a unit that is started. The goroutine of the engine's intake calls it.
	Next(ctx context.Context) (NextUnit, error)
}

// NextUnit is what a source has next: a unit, an engine that is to be opened again, or, if it is the zero value,
// nothing that may be generated together with the units in flight.
type NextUnit struct {
	Unit    *Unit
	Resized bool // another process began the job with other sizes, which the engine must have too
}

// Listener receives the progress of a unit. The goroutine of the engine's intake calls unread and broken, and the
// goroutine of its completions moved and broken.
type Listener interface {
	// Progressed is called after each completion of a unit, and when all of its rows were started.
	Progressed(ctx context.Context, u *Unit)
	// ReadFailed takes a unit whose rows can't be read, and broken one whose rows can't be written.
	ReadFailed(ctx context.Context, u *Unit, err error)
	WriteFailed(ctx context.Context, u *Unit, err error)
}

// ending is how an attempt at the generating ended.
type ending int

const (
	sourceEmpty   ending = iota // the source has nothing now
	engineResized               // the engine is to be opened again, with other sizes
	engineFailed                // the device failed
	workFailed                  // a unit can't be started, read or written
)

// Generator generates the completions of units with one engine. It is what a run, a shard and a worker have in common.
type Generator struct {
	Process *process.Process
	Job     *spec.Job // the settled job
	Opened  *prepare.Opened
	builder *ask.Builder
	Active  ActiveUnits
	// Ready is called when an engine is open, for the first time or with other sizes; nil for nobody.
	Ready func(engine.Plan)

	Session *process.Session // nil while no engine is open
	last    *process.Session // the previous session

	equals  reuse.Judge
	watcher *watch.Watcher // nil unless the job's weights may change
	judge   *verdict.Judge // nil while nothing is judged
	caller  *tools.Caller  // nil while no tools are called
	record  *record        // what answers in place of commands; nil if they are asked

	restarts int
	again    bool         // the engine is opened after a failure
	resized  bool         // the engine is opened with other sizes than the last one
	engines  engine.Stats // totals of all engines
}

func NewGenerator(p *process.Process, j *spec.Job, opened *prepare.Opened) *Generator {
	g := &Generator{Process: p, Job: j, Opened: opened, builder: process.NewBuilder(j, nil),
		equals: reuse.Judge{Messages: p.Messages}, watcher: watch.New(p, j)}
	// A program that writes rows to standard input may make them from completions, while files exist before the job.
	// A turn after a call of a tool continues the turn before.
	g.builder.Leaves = opened.Reader != nil && !opened.Reader.HasParents() && !j.Tools.Used()
	return g
}

// open makes the engine, in place of one that is there.
func (g *Generator) open(ctx context.Context) error {
	g.Release()
	if !g.again && g.record == nil {
		if err := prepare.CheckCommands(g.Job); err != nil {
			return err
		}
	}
	if !g.again {
		g.Process.ReportOpening(g.Job)
	}
	g.Process.Observer.Run.Opening()
	s, err := g.Process.Models.OpenSession(ctx, g.Job, g.Process)
	if err != nil {
		return err
	}
	if err := conversation.Check(g.Job, s.Template); err != nil {
		s.Release()
		return err
	}
	known := g.last != nil && !g.resized // the plan
	g.Session, g.last = s, s
	s.Serve(g.builder)
	if known {
		g.Process.Observer.Again()
		return nil
	}
	if g.resized = false; g.Ready != nil {
		g.Ready(s.Plan())
	}
	return nil
}

func (g *Generator) Release() {
	if g.Session != nil {
		g.Session.Release()
		g.Session = nil
	}
}

// Close gives back all that the generator has.
func (g *Generator) Close() error {
	g.Release()
	var err error
	if g.judge != nil {
		err = g.judge.Close()
	}
	if g.caller != nil {
		err = errors.Join(err, g.caller.Close())
	}
	return err
}

// judgeUnit returns how a unit's completions are judged, nil if they are not. ctx is what a report to the unit's
// listener may take.
func (g *Generator) judgeUnit(ctx context.Context, u *Unit) (*judging, error) {
	settings := &g.Job.Accept
	if !settings.Judges() {
		return nil, nil
	}
	if g.judge == nil {
		verifier := g.record.verifier(settings)
		var costly []verdict.Verifier
		if settings.Score != "" && verifier == nil {
			model, err := reward.Open(ctx, g.Process, g.Job, func(failures int, err error) {
				g.Active.Fail(&DeviceFailedError{failures, err})
			})
			if err != nil {
				return nil, err
			}
			costly = append(costly, model)
		}
		if verifier == nil {
			var err error
			if verifier, err = verdict.New(settings, costly...); err != nil {
				return nil, err
			}
		}
		g.judge = verdict.NewJudge(verifier, settings.AtOnce())
	}
	slots := g.Session.Slots()
	// No call is made for a completion that a row may not need, and a record has nothing of such a completion.
	if _, impure := g.Job.Tools.Impure(); impure || g.record != nil {
		slots = 0
	}
	return &judging{settings: settings, judge: g.judge, slots: slots, told: g.tellUnit(ctx, u)}, nil
}

// tellUnit returns what tells a unit's listener of what came from elsewhere than the engine, or of an error of the
// writer or the journal.
func (g *Generator) tellUnit(ctx context.Context, u *Unit) func(error) {
	return func(err error) {
		if err != nil {
			u.Listener.WriteFailed(ctx, u, err)
		} else {
			u.Listener.Progressed(ctx, u)
		}
		g.Active.notify()
	}
}

// Claim makes the job, with what the engine settled on, the folder's job, if there is none yet. It returns resized if
// another process was faster since the engine was opened: the generator's job then has the sizes of that process. An
// error reports that the folder has a different job, or one that was computed in a different way.
func (g *Generator) Claim(ctx context.Context, saved *resume.Saved) (resized bool, err error) {
	plan := g.Session.Plan()
	d := *g.Opened.Description
	d.Settled, d.Device, d.Runtime = spec.Settled(plan), plan.Backend, plan.Runtime
	d.Meta = saved.Job.Footer(g.Process.Version, g.Session.Model, g.Session.Fingerprint)
	if d.Arithmetic, err = saved.Arithmetic(g.Session.Device); err != nil {
		return false, err
	}
	if err := errors.Join(saved.Claim(ctx, &d), saved.DropStandard()); err != nil {
		return false, err
	}
	if was := saved.State.Job().Binding(); !spec.Settled(plan).Same(was) {
		as, err := resume.SettledAs(g.Job, g.Process, was, nil)
		if err != nil {
			return false, err
		}
		before := g.Job.Engine
		if g.Job = as; as.Engine != before { // else an engine that is opened again is the same
			return true, nil
		}
	}
	return false, saved.CheckArithmetic(d.Arithmetic)
}

// Generate does the units that are started, and then the units that the source gives, until it gives none. If the
// engine fails, a new one continues with what was in flight. The error is what ended it early: a [*gaveUpError] if the
// device continues failing.
func (g *Generator) Generate(ctx context.Context, units source) error {
	failures := 0
	for {
		before := g.Active.Generated()
		end, err := g.attempt(ctx, units)
		if fatal := g.Active.failed(); fatal != nil {
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
		// Several processes that run a job together start together: the job is started again, not the engine.
		if end != engineFailed || ctx.Err() != nil || g.Process.Several() {
			return err
		}
		if g.Active.Generated().Completions > before.Completions {
			failures = 0
		}
		g.Process.Observer.Failed(err)
		if failures++; failures > g.Process.MaxRestarts {
			return &DeviceFailedError{failures, err}
		}
		if err := g.pause(ctx, failures, err); err != nil {
			return err
		}
		g.Release()
	}
}

// pause waits before the engine is started again.
func (g *Generator) pause(ctx context.Context, failures int, err error) error {
	pause := g.Process.Timing.Backoff(failures)
	g.Process.Printf("warning: the device failed: %v; the engine is started again in %s (try %d of %d without a "+
		"completion in between)", err, pause, failures, g.Process.MaxRestarts)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
	}
	g.restarts++
	g.again = true
	return nil
}

// attempt runs one engine until no unit comes any more, or one that can't be started, or the engine fails.
func (g *Generator) attempt(ctx context.Context, units source) (ending, error) {
	if g.Session == nil {
		if err := g.open(ctx); err != nil {
			return engineFailed, err
		}
	}
	ctx, cancel := context.WithCancel(ctx) // lets go of the reading goroutine when the loop is left early
	defer cancel()
	defer g.Active.whenFailed(cancel)()
	if g.watcher != nil {
		if err := replay(ctx, g); err != nil {
			return engineFailed, err
		}
	}
	unwatch, err := g.watcher.Serve(ctx, g.Session)
	if err != nil {
		return workFailed, err
	}
	defer unwatch()
	in := &intake{active: &g.Active, units: units, watcher: g.watcher, rows: map[*engine.Request]*requested{}}
	device := process.WatchDevice(g.Process, g.Session, in.idle)
	defer device.Stop()
	if g.Job.Accept.Stops() {
		// What is left in the engine when all rows are decided is in vain, and the last verdict comes from elsewhere.
		defer g.Active.whenIdle(func() {
			if in.over() {
				cancel()
			}
		})()
	}
	var failure error
	for c, err := range g.Session.Run(ctx, in.requests(ctx)) {
		device.Alive()
		if err != nil {
			if failure = err; g.Job.Accept.Stops() && in.over() && g.Active.idle() {
				failure = nil // all is decided
			}
			cancel()
			break
		}
		u, row := in.rowOf(c)
		if u == nil || !g.Active.has(u) { // it was given up, and this was in flight
			continue
		}
		if err := u.Out.add(row, c); err != nil {
			u.Listener.WriteFailed(ctx, u, err)
			cancel()
			break
		}
		u.Listener.Progressed(ctx, u)
	}
	g.engines = g.engines.Then(g.Session.Stats())
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
	active  *ActiveUnits
	units   source
	watcher *watch.Watcher // nil if the weights stay

	// How it ended: of the goroutine of the engine's intake, until the engine's run is over.
	resized bool
	failure error

	mu    sync.Mutex
	rows  map[*engine.Request]*requested // rows of the outstanding completions
	ended bool                           // no more requests come
}

// idle reports whether the engine has nothing to do.
func (in *intake) idle() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.rows) == 0
}

// over reports whether the source has given all that it had.
func (in *intake) over() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// end notes that no more requests come.
func (in *intake) end() {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	in.active.notify()
}

// requested is the row of a request.
type requested struct {
	unit *Unit
	row  *pendingRow
	left int // completions of the request
}

// requests yields requests of units that were started before, then of new units.
func (in *intake) requests(ctx context.Context) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		defer in.end()
		units := in.active.List()
		for {
			for _, u := range units {
				for row, request := range u.requests(ctx) {
					if in.watcher != nil {
						u.noteVersions(row.row.Index, request, in.watcher.Names)
					}
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
				if err := u.Out.failed(); err != nil && err != errEnded { // else its part is published
					u.Listener.WriteFailed(ctx, u, err)
					return
				}
				if err := u.reader.Err(); err != nil && !u.read {
					u.StopReading()
					u.Listener.ReadFailed(ctx, u, err)
					continue
				}
				u.read = true
				u.StopReading()
				u.Listener.Progressed(ctx, u)
			}
			n, err := in.units.Next(ctx)
			if n.Unit == nil || err != nil {
				in.resized, in.failure = n.Resized, err
				return
			}
			units = []*Unit{n.Unit}
		}
	}
}

// rowOf returns whose completion it is.
func (in *intake) rowOf(c *engine.Completion) (*Unit, *pendingRow) {
	in.mu.Lock()
	defer in.mu.Unlock()
	owner := in.rows[c.Request]
	if owner == nil {
		return nil, nil
	}
	if owner.left--; owner.left == 0 || ask.Refused(c.Err) { // a request that is refused has one completion
		delete(in.rows, c.Request)
	}
	return owner.unit, owner.row
}
