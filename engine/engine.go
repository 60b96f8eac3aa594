// Package engine generates completions: requests go in, completions come out as they finish.
//
// An [Engine] is made of parts that own their state: core runs programs on the device, admit checks requests, prefixes
// keeps pages that requests share, and contexts has sequences that the caller owns. Package schedule decides what the
// next call of the device works on. Between two calls the device needs nothing from the host, and inside a call, which
// is many steps long, the host has no part.
//
// A completion depends on the model, the request, its generation and its seed, and not on what else runs: see
// docs/architecture.md, "Reproducibility".
package engine

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/engine/tables"
	"github.com/quire/quire/engine/turns"
	"github.com/quire/quire/engine/weights"
	"github.com/quire/quire/models"
)

// Engine runs one model on one backend. Run may be called again after it ended, not at the same time.
type Engine struct {
	plan     Plan
	core     *core.Core
	swapper  *core.Swapper
	follower *core.Follower // nil unless the engine follows the engine of another process
	prefixes *prefixes.Prefixes
	contexts *contexts.Contexts // nil without Config.Contexts
	lock     *turns.Lock
	runs     *runs
	weights  *weights.Replacer
}

// New plans the engine's sizes, compiles its programs and puts the weights on the device.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	return withSmallerKernels(cfg, func() (*Engine, error) { return newEngine(ctx, cfg) })
}

func newEngine(ctx context.Context, cfg Config) (_ *Engine, err error) {
	if cfg.Hosts != nil {
		defer func() {
			if err != nil && tryAgain(err) == "" {
				cfg.Hosts.Fail(err) // otherwise the others would wait
			}
		}()
	}
	settled, err := config.Settle(cfg)
	if err != nil {
		return nil, err
	}
	if err := settled.CheckMemory(); err != nil {
		return nil, err
	}
	hosts, settled, err := core.Join(settled)
	if err != nil {
		return nil, err
	}
	z := settled.Sizes
	checker := admit.New(settled.Config, admit.Limits{MaxModelLen: settled.MaxModelLen, PageSize: z.PageSize,
		Pages: z.Pages, ShortRope: settled.ShortRope, Masks: z.Masks, Adapters: z.Adapters,
		CannotHold: config.CannotHold(settled)})
	start := time.Now()
	texts := core.Texts{Pieces: checker.Pieces(), Vocabulary: checker.Masks().Vocabulary}
	c, err := core.New(ctx, settled, hosts, texts)
	if err != nil {
		return nil, err
	}
	e := assemble(c, checker)
	e.runs.stats.StartSeconds = time.Since(start).Seconds()
	if err := c.Reset(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// assemble makes the parts of an engine on its core.
func assemble(c *core.Core, checker *admit.Checker) *Engine {
	e := &Engine{plan: c.Settled.Plan(), core: c, swapper: core.NewSwapper(c), lock: &turns.Lock{}}
	r := &runs{core: c, swapper: e.swapper, checker: checker, lock: e.lock, beside: nothingBeside{}}
	r.inspector = inspector{core: c, calls: &r.calls, inspect: c.Settled.Config.Inspect}
	e.runs = r
	e.prefixes = prefixes.New(c, e.swapper, e.lock, r.runPrefix)
	r.prefixes = e.prefixes
	c.Renewed = func() {
		e.prefixes.Forget()
		checker.Masks().Arena.Forget()
	}
	if c.Settled.Sizes.Contexts > 0 {
		e.contexts = contexts.New(c, e.swapper, e.prefixes, checker, e.lock, r.run,
			func(err error) error { return r.inspector.look(nil, err) })
		c.Pinned, r.beside = e.contexts.PinnedPages, e.contexts
	}
	e.weights = weights.New(c, e.prefixes, e.contexts, e.lock)
	if c.Follows() {
		e.follower = core.NewFollower(c, e.swapper)
	}
	return e
}

// Plan returns what the engine settled on.
func (e *Engine) Plan() Plan { return e.plan }

// Contexts are the sequences that callers own. Without Config.Contexts they are nil, and fail with
// contexts.ErrNoContexts.
func (e *Engine) Contexts() *contexts.Contexts { return e.contexts }

// Run generates the completions of requests and yields them as they finish.
//
// A request that can't be run yields a completion with Err set, and the job continues. An error with a nil completion
// ends it: the device failed, or ctx was cancelled. Requests are taken as there is room for them, from another
// goroutine than the caller's. Stopping the iteration stops the engine's work on it.
func (e *Engine) Run(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return func(yield func(*Completion, error) bool) {
		run := e.lock.Begin()
		defer e.lock.Leave(run)
		decided(requests, func(all iter.Seq[*Request]) iter.Seq2[*Completion, error] {
			return e.runs.run(ctx, run, all)
		})(yield)
	}
}

// Calls is how many calls of the device have ended in this run: a heartbeat, which may be read at any time.
func (e *Engine) Calls() int64 { return e.runs.calls.Load() }

// Stats returns the figures of the last run, or of the one under way as far as it came when it ends.
func (e *Engine) Stats() Stats { return e.runs.stats }

// Swap loads a checkpoint of the same model beside the run that is under way, if there is one, and has the engine take
// it between two calls of the device. It waits until then: with [Finish] until the completions that have started are
// done. Pinned prefixes are let go; contexts and snapshots keep the keys and values that they have. On how long from
// must stay open see [weights.Replacer.Load].
//
// Completions report which weights generated their tokens: see [Generated].
func (e *Engine) Swap(ctx context.Context, from *models.Checkpoint, policy Policy) (Swapped, error) {
	pending, err := e.weights.Load(ctx, from)
	if err != nil {
		return Swapped{}, err
	}
	return pending.Swap(ctx, policy)
}

// Replay is as [Engine.Run], for requests with Weights: the engine takes the versions that they name, one after the
// other, as open opens them, and each completion comes to the bytes that it had when they were swapped at its tokens.
// The engine then has the version that was needed last. If requests with several versions cannot be run, they come back
// with the reason, which wraps [ErrSeveralVersions].
func (e *Engine) Replay(ctx context.Context, requests iter.Seq[*Request], open OpenVersion) iter.Seq2[*Completion,
	error] {
	return func(yield func(*Completion, error) bool) {
		run := e.lock.Begin()
		stop := e.weights.Replay(ctx, run, open)
		defer stop()
		defer e.lock.Leave(run)
		e.runs.run(ctx, run, requests)(yield)
	}
}

// Executables returns the compiled programs by their names in Plan.Programs, to be looked at: they stay the engine's.
// Those that a job may do without are compiled for it, and waited for.
func (e *Engine) Executables() map[string]compute.Executable { return e.core.Executables() }

// Close frees the engine's device memory, and with it what contexts hold. The model and the backend stay the caller's.
func (e *Engine) Close() {
	if e.contexts != nil {
		e.contexts.Close()
	}
	e.core.Close(e.swapper.Wait)
}

// Tables describes the engine's tables between runs; ErrRunning during one.
func (e *Engine) Tables() (d *tables.Dump, err error) {
	err = e.lock.Alone(func() error {
		d = e.runs.inspector.dump(nil, nil)
		d.Calls = 0
		return nil
	})
	return d, err
}

// DumpTables writes the engine's tables for people, between runs; ErrRunning during one.
func (e *Engine) DumpTables(w io.Writer) error {
	d, err := e.Tables()
	if err != nil {
		return err
	}
	return d.WriteText(w)
}

// Follow does what the engine of process 0 does, until that engine is done: then it returns nil. It is for an engine
// with Config.Hosts of another process, in place of Run. When ctx is cancelled, process 0 is asked to end.
func (e *Engine) Follow(ctx context.Context) error {
	f := e.follower
	if f == nil {
		return errors.New("engine: only the engine of a process other than 0 follows")
	}
	defer e.lock.Leave(e.lock.Begin())
	defer context.AfterFunc(ctx, f.Leave)()
	start := time.Now()
	for {
		call, err := f.Next()
		if err == io.EOF {
			e.swapper.Wait()
			e.runs.stats.WallSeconds = time.Since(start).Seconds()
			return nil
		}
		if err == nil {
			err = e.runs.inspector.look(nil, f.Do(call, &e.runs.calls))
		}
		if err != nil {
			f.Fail(err)
			return err
		}
	}
}

// PinPrefix keeps the keys and values of a prefix for every prompt that begins with it: see [prefixes.Prefixes.Pin].
func (e *Engine) PinPrefix(ctx context.Context, tokens []int32) (pinned int, err error) {
	return e.prefixes.Pin(ctx, tokens)
}

// UnpinPrefix lets a pinned prefix go: see [prefixes.Prefixes.Unpin].
func (e *Engine) UnpinPrefix(tokens []int32) error { return e.prefixes.Unpin(tokens) }

// SavePrefix writes the keys and values of a prefix to a file: see [prefixes.Prefixes.Save].
func (e *Engine) SavePrefix(ctx context.Context, tokens []int32, w io.Writer) (saved int, err error) {
	return e.prefixes.Save(ctx, tokens, w)
}

// LoadPrefix reads what SavePrefix wrote, and pins it: see [prefixes.Prefixes.Load].
func (e *Engine) LoadPrefix(r io.Reader) (tokens []int32, err error) { return e.prefixes.Load(r) }
