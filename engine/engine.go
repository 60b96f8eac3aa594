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
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/lockstep"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/prefix"
	"github.com/quire/quire/tokenizer"
)

// Config says what to run on what. Zero values stand for what the engine finds fitting.
type Config struct {
	Model *models.Checkpoint
	// Tokenizer turns tokens into text and is what stop strings need; nil leaves Completion.Text empty.
	Tokenizer *tokenizer.Tokenizer
	Backend   compute.Backend
	// Hosts are the processes whose devices run the model together: Backend is then a group over them, and there is an
	// engine with the same config in each. That of process 0 draws completions, the others [Engine.Follow] it. nil for
	// this process alone.
	Hosts *lockstep.Group

	// MaxSeqs is how many sequences decode at once.
	MaxSeqs int
	// PageSize is the tokens a page: a power of two up to 32, or a multiple of 32.
	PageSize int
	// MaxModelLen bounds prompt and completion together; by default what the model was trained for.
	MaxModelLen int
	// PrefillTokens is how many prompt tokens a step takes.
	PrefillTokens int
	// MaxRounds bounds the decode steps of a call.
	MaxRounds int
	// KVMemory is the bytes for keys and values; by default most of what an accelerator has free, or half of a CPU's
	// memory, 4 GiB at most.
	KVMemory int64
	// KV is "paged" or "basic", the contiguous cache that serves as oracle.
	KV string
	// Admission is Overcommit (default) or Reserve. Where the pool has room for every sequence at its longest, it is
	// Reserve.
	Admission Admission
	// HostKVMemory is the bytes of the host's memory for prefixes that had to leave the device, and for snapshots; 0
	// for none.
	HostKVMemory int64
	// StopStates is the room on the device for automata that look for stop strings and for sequences of stop tokens,
	// about a state for each byte of the strings that run at once; 2048 by default where there is a Tokenizer. Below 0
	// the host looks for stop strings, after each call. So it does for strings that need more than half of it.
	StopStates int
	// MaskStates is the room on the device for states of structured output, 1 KiB each; 32768 by default. There is room
	// for an eighth as many masks of the vocabulary, a bit for each token. The room is taken with the first request
	// that needs it: see Features.
	MaskStates int
	// Contexts is how many contexts may be open at once: see NewContext. 0 leaves out their programs.
	Contexts int
	// NoPrefixCache turns off that pages are kept for other requests that begin with the same tokens.
	NoPrefixCache bool
	// DType is of weights and activations: Float32, BFloat16 or Float16, by default the checkpoint's own
	// ([models.Checkpoint.DType]). KVDType is of the cache: one of these, by default DType; or Int8 or F8E4M3FN, which
	// have a scale for each token and KV head beside the bytes.
	DType, KVDType dtypes.DType
	// Layers is LayersUnrolled (default) or LayersLoop: how the model's layers stand in the programs, and so how
	// weights and caches lie.
	Layers string
	// ExpertGroups is in how many groups the devices that run the model together share out the experts of each layer; a
	// divisor of the devices, 1 by default. The devices of a group split each of its experts.
	ExpertGroups int
	// Weights is how matrices are held: "" in DType; WeightsAuto those in blocks as the checkpoint has them, and others
	// in DType; "f32", "bf16" or "f16"; "q8_0" or "q4_0" in blocks of 32 numbers of 8 or 4 bits with a scale; "int8" as
	// 8-bit numbers, each row with a scale. Kernels round activations to 8 bits before products with other than floats.
	Weights string
	// Features are what requests may ask for without a program being compiled for it during the run; by default none.
	// Requests may ask for others: with the first of them the program that draws is compiled anew, between two calls.
	Features Features
	// Speculate is how many tokens of a sequence are drafted in a step at most, to draw several together: see
	// docs/speculation.md. Completions stay the same. 0 drafts none, SpeculateAuto as many as pay, and none where the
	// bytes of a token depend on the step that it runs in.
	Speculate int
	// DraftModel is a small model that drafts them, in place of a sequence's own text; nil for none. It must have the
	// model's tokens.
	DraftModel *models.Checkpoint
	// ZeroPages clears pages when they are freed, for tenants who must not share memory. Without it pages are cleared
	// logically.
	ZeroPages bool
	// Debug checks every rule of the device state after each step, and logs the free pages.
	Debug bool
	Log   *slog.Logger
	// Observe is told of each call of the device when it has ended; nil for nobody. Replicas tell it at the same time.
	Observe func(Call)
	// Inspect is called after each call of the device, and when a run or a follower fails; nil for nobody. It returns
	// the file that it put the tables in, which the failure then names. Replicas call it at the same time.
	Inspect func(Inspection) (file string)
	// Trace gives what takes the times of a replica, by its number from 0; nil for none.
	Trace func(replica int) schedule.Tracer

	replica int // among several, from 0
}

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
	if cfg.Model == nil || cfg.Backend == nil {
		return nil, errors.New("engine: Config.Model and Config.Backend are needed")
	}
	plan, err := cfg.plan()
	if err == nil {
		err = cfg.checkSlots(plan)
	}
	if err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
	together, err := newInStep(cfg)
	if err == nil && together != nil {
		plan, err = together.sameMemory(&cfg, plan)
	}
	if err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
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
		e.trace = cfg.Trace(cfg.replica)
	}
	e.plan, e.graphs = plan, cfg.graphs(plan)
	e.admission.open()
	programs := e.graphs.Programs()
	for _, p := range programs {
		plan.Programs = append(plan.Programs, p.Name)
	}
	e.plan.Programs, e.prefixSeed = plan.Programs, newPrefixSeed(cfg, plan)
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
