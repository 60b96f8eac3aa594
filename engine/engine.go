// Package engine draws completions: requests go in, completions come out as they finish.
//
// The engine owns the device state (tables, caches, parameters of the sequences that run) and the programs that advance
// it. The host admits requests, and reads what was drawn; between two calls of a program the device needs nothing from
// it, and inside a call, which is many steps long, it has no part.
//
// What a completion is depends on the model, the request, its generation and its seed, and not on what else runs: see
// docs/architecture.md, "Reproducibility".
package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/prefix"
)

// Engine runs one model on one backend. Run may be called again after it ended, not at the same time.
type Engine struct {
	admission
	graphs     *device.Graphs
	programs   map[string]*program
	later      later
	compiling  sync.WaitGroup // what is done beside the first calls, too
	weights    []compute.Buffer
	drafter    []compute.Buffer // weights of Config.DraftModel
	state      []compute.Buffer
	extras     []compute.Buffer // of the features of program run, behind its state
	asked      atomic.Uint32    // the features of all requests so far
	sent       map[string]*sent // by program
	log        *slog.Logger
	swapper    *swapper            // moves pages between device and host
	hostCache  *schedule.HostCache // nil without HostKVMemory
	index      *prefix.Index       // names of the device's pages; nil without a prefix cache
	prefixSeed prefix.Hash         // begins the names of pages
	stats      Stats
	calls      atomic.Int64
	now        func() time.Time // for the account of time
	began      time.Time        // when the device began the program that it ran last
	ran        time.Duration    // how long the device ran the program that it ran last
	trace      schedule.Tracer  // nil without Config.Trace
	lock       lock
	contexts   contexts
	inStep     *inStep // nil without other processes
	// each call waits until it has all the requests that there is room for; for tests, whose figures it makes the same
	// each time
	inOrder bool
	watch   func(schedule.Device) schedule.Device // stands before the device of a run, if not nil: for tests
}

// New plans the engine's sizes, compiles its programs and puts the weights on the device.
func New(ctx context.Context, cfg Config) (_ *Engine, err error) {
	return withSmallerKernels(cfg, func() (*Engine, error) { return newEngine(ctx, cfg) })
}

func newEngine(ctx context.Context, cfg Config) (_ *Engine, err error) {
	if cfg.Hosts != nil {
		defer func() {
			if err != nil && tryAgain(err) == "" {
				cfg.Hosts.Fail(err) // or the others would wait
			}
		}()
	}
	settled, err := config.Settle(cfg)
	if err == nil {
		err = settled.CheckMemory()
	}
	if err != nil {
		return nil, err
	}
	together, err := newInStep(cfg)
	if err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
	if together != nil {
		if settled, err = together.sameMemory(settled); err != nil {
			return nil, err
		}
		cfg = settled.Config
	}
	plan := settled.Plan()
	unused, err := cfg.Model.Validate()
	if err != nil {
		return nil, err
	}
	e := &Engine{admission: admission{cfg: cfg}, inStep: together, log: cfg.Log, programs: map[string]*program{},
		sent: map[string]*sent{}, now: time.Now}
	if e.log == nil {
		e.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.DraftModel != nil {
		if _, err := cfg.DraftModel.Validate(); err != nil {
			return nil, fmt.Errorf("the draft model: %w", err)
		}
	}
	for _, name := range unused {
		e.log.Warn("the model has no use for a tensor", "name", name)
	}
	if b, ok := cfg.Backend.(interface{ Platform() string }); ok {
		for _, warning := range plan.Warnings(b.Platform()) {
			e.log.Warn(warning)
		}
	}
	if cfg.Trace != nil {
		e.trace = cfg.Trace(cfg.Replica)
	}
	e.plan, e.settled, e.graphs = plan, settled, settled.Graphs()
	e.admission.open(settled.Sizes.Stops, settled.Sizes.Masks)
	programs := e.graphs.Programs()
	e.prefixSeed = settled.PrefixSeed()
	e.swapper = newSwapper(e)
	e.contexts.byID = map[int32]*heldPage{}
	if plan.Contexts > 0 {
		e.contexts.rows = make([]*contextRow, plan.Contexts+1)
	}
	e.makeCaches()

	start := time.Now()
	for _, step := range []func() error{func() error { return e.compileAndLoad(ctx, programs) }, e.loadStops,
		e.loadMaskTexts} {
		if err := step(); err != nil {
			e.Close()
			return nil, err
		}
	}
	e.stats.StartSeconds = time.Since(start).Seconds()
	return e, e.reset()
}

// makeCaches makes what knows of pages that are kept.
func (e *Engine) makeCaches() {
	if e.plan.PrefixCache {
		e.index = prefix.NewIndex(e.plan.Pages)
	}
	if e.plan.Transfers && e.cfg.HostKVMemory > 0 {
		e.hostCache = schedule.NewHostCache(e.cfg.HostKVMemory)
	}
}

// loadWeights puts the arrays of the models on the device, one at a time, so that the host holds no second copy of
// them.
func (e *Engine) loadWeights(ctx context.Context) error {
	end := e.span(schedule.HostTrack, "load weights")
	defer end("bytes", e.plan.AllWeightBytes())
	err := e.loadArrays(ctx, &e.weights, e.graphs.Arrays, e.cfg.Model)
	if err == nil && e.graphs.Drafter != nil {
		if err = e.loadArrays(ctx, &e.drafter, e.graphs.Drafter.Arrays, e.cfg.DraftModel); err != nil {
			err = fmt.Errorf("the draft model: %w", err)
		}
	}
	return err
}

func (e *Engine) loadArrays(ctx context.Context, to *[]compute.Buffer, arrays []decoder.Array,
	from *models.Checkpoint) error {
	for _, a := range arrays {
		if err := ctx.Err(); err != nil {
			return err
		}
		buffer, err := a.Load(e.cfg.Backend, 0, from)
		if err != nil {
			return err
		}
		*to = append(*to, buffer)
	}
	return nil
}

// reset makes an empty device state.
func (e *Engine) reset() error {
	finalize(e.state)
	finalize(e.extras)
	e.extras = nil
	state, err := e.program(device.Init).Executable.Execute(nil, nil, 0)
	if err != nil {
		return fmt.Errorf("making the device state: %w", err)
	}
	e.state = state
	e.forgetPages()
	e.masks.arena.Forget()
	e.extras, err = e.newExtras(e.program(device.Run), nil)
	return err
}

// forgetPages gives up the names of all pages: what they hold is not known any more.
func (e *Engine) forgetPages() {
	if e.index != nil {
		e.index.Clear()
	}
}

// Plan returns what the engine settled on.
func (e *Engine) Plan() Plan { return e.plan }

// Close frees the engine's device memory, and with it what contexts hold. The model and the backend stay the caller's.
func (e *Engine) Close() {
	e.contexts.mu.Lock()
	e.contexts.closed = true
	e.contexts.mu.Unlock()
	if e.inStep.over() {
		return // a device may wait for those of another process for ever
	}
	e.swapper.wait()
	e.compiling.Wait()
	finalize(e.state)
	finalize(e.extras)
	finalize(e.weights)
	finalize(e.drafter)
	finalize(e.stops.tables)
	finalize(e.masks.texts)
	for _, s := range e.sent {
		finalize(s.buffers)
	}
	e.state, e.extras, e.weights, e.drafter, e.sent = nil, nil, nil, nil, nil
	e.stops.tables = nil
	for _, p := range e.programs {
		if p.compiled != nil {
			p.compiled.Executable.Finalize()
		}
	}
	e.programs = nil
}

func finalize(buffers []compute.Buffer) {
	for _, b := range buffers {
		if b != nil {
			_ = b.Finalize()
		}
	}
}
