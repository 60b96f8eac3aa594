// Package plan finds the sizes with which a job fits on devices, which need not be there, by compiling its programs,
// and how fast it could be at most.
package plan

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/plan/speed"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/linear"
)

// Options of a plan.
type Options struct {
	Model    string // the model, as reports name it
	Defaults string // defaults of parameters that the model's files ask for
	// Context is the tokens of each sequence that sequences and speeds are reported for; 0 is 2048, or the most that a
	// sequence may have if that is less.
	Context int
	// Trials is how many sizes of the KV cache are compiled at most, to find the largest.
	Trials int
	// Note takes lines about what is under way.
	Note func(format string, args ...any)
	// Compiled, if not nil, is given all programs, as they are with the sizes that were found.
	Compiled func(programs iter.Seq2[string, compute.Executable]) error
}

// Planner compiles the programs of one job.
type Planner struct {
	options Options
	backend *xla.Backend // backend of the devices that run a program together
	// replicas are all backends of the job: backend is the first.
	replicas []compute.Backend
	devices  int // in all
	config   engine.Config
	// available is the device's memory in bytes.
	available int64
	// kept is the largest program of the best trial.
	kept *engine.Precompiled
}

// New makes a planner for a job with an engine of this config on each of the replicas, backends of package xla, of so
// many devices in all.
func New(config engine.Config, replicas []compute.Backend, devices int, o Options) (*Planner, error) {
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	backend, ok := replicas[0].(*xla.Backend)
	if !ok {
		return nil, fmt.Errorf("backend %s compiles nothing", replicas[0].Name())
	}
	config.Backend = backend
	return &Planner{options: o, backend: backend, replicas: replicas, devices: devices, config: config}, nil
}

// firstPages is the share of the memory that the first trial takes, of what weights and everything besides programs
// leave. All of it is too much; but a program that does not fit is compiled in a quarter of the time, because the
// compiler finds out early, and the error reports how much too large it is. If there are to be few trials the first one
// should fit.
func firstPages(trials int) float64 {
	if trials < 3 {
		return 0.9
	}
	return 1
}

// largestProgram is the one that holds weights, state and temporaries at once; the others need far less.
const largestProgram = "run"

// doesNotFitError reports that a model has no room on a device.
type doesNotFitError struct {
	device                     string
	weights, needed, available int64
	pages, pageSize            int
	program                    string // the program that needs so much
	least                      bool   // with fewer pages there is no room for a sequence
	cause                      error
}

func (e *doesNotFitError) Error() string { return e.text().String() }

// Spell is the error with settings in a spelling: see [setting.Spell].
func (e *doesNotFitError) Spell(spell setting.Spelling) string { return e.text().Spell(spell) }

func (e *doesNotFitError) text() setting.Text {
	remedy := setting.Textf("take a smaller `dtype` or `max-seqs`, a device with more memory, or more devices that " +
		"run the model together (`tp`)")
	if e.needed == 0 {
		weights, available := sizes(e.weights, e.available)
		return setting.Textf("the model does not fit: its weights are %s, and a device of %s has %s; %s", weights,
			e.device, available, remedy)
	}
	what, or := "the model", setting.Text{}
	why := fmt.Sprintf("%d KV pages of %d tokens", e.pages, e.pageSize)
	if e.least {
		why += ", which is what one sequence takes"
	} else {
		what, or = "the job", setting.Textf("lower `kv-memory`, or ")
	}
	needed, available := sizes(e.needed, e.available)
	return setting.Textf(
		"%s does not fit: with weights of %s and %s, program %s needs %s, and a device of %s has %s; %s%s",
		what, Size(e.weights), why, e.program, needed, e.device, available, or, remedy)
}

func (e *doesNotFitError) Unwrap() error { return e.cause }

// Plan finds the sizes, compiles all programs with them, and describes what came out.
func (p *Planner) Plan(ctx context.Context) (*Report, error) {
	var err error
	if p.available, err = p.backend.FreeMemory(0); err != nil {
		return nil, err
	}
	sketch, err := p.sketch()
	if err != nil {
		return nil, err
	}
	if sketch.AllWeightBytes() >= p.available {
		return nil, &doesNotFitError{device: p.device(), weights: sketch.AllWeightBytes(), available: p.available}
	}
	// The sizes that follow from the memory are the same in all trials.
	if sketch.KV == "paged" {
		p.config.MaxSeqs, p.config.PageSize = sketch.MaxSeqs, sketch.PageSize
	}
	r := &Report{Model: p.options.Model, Defaults: p.options.Defaults, Device: p.device(),
		Devices: p.devices, DeviceMemory: p.available}
	if t, ok := p.backend.Topology(); ok {
		r.Topology = t.Name
	}
	if p.config.KVMemory == 0 && sketch.KV == "paged" {
		if err := p.search(ctx, sketch, r); err != nil {
			return nil, err
		}
	}
	defer p.keep(nil)
	done, err := p.compile(ctx, sketch, r)
	if err != nil {
		return nil, err
	}
	defer done.Close()
	if p.options.Compiled != nil {
		if err := p.options.Compiled(p.programs(done)); err != nil {
			return nil, err
		}
	}
	return r, r.describe(p, done)
}

// compile compiles the programs that the search has not compiled, and describes all of them in the report. If they need
// more than the search left for them, it gives up pages.
func (p *Planner) compile(ctx context.Context, sketch engine.Plan, r *Report) (*engine.Precompiled, error) {
	searched := p.kept != nil
	for {
		var others []string // all, if none is compiled yet
		if p.kept != nil {
			others = slices.DeleteFunc(slices.Clone(p.kept.Plan.Programs),
				func(name string) bool { return name == largestProgram })
		}
		p.options.Note("compiling the programs")
		done, err := engine.Precompile(ctx, p.config, others...)
		var oom *xla.OutOfMemoryError
		if errors.As(err, &oom) {
			return nil, p.tooLarge(sketch, oom.Needed, oom.Program, err)
		}
		if err != nil {
			return nil, err
		}
		programs := done.Programs
		if p.kept != nil {
			programs = append(slices.Clone(programs), p.kept.Programs...)
		}
		if r.Programs, err = programsOf(programs); err != nil {
			done.Close()
			return nil, err
		}
		a := accountOf(done.Plan, r.Programs)
		missing := a.total() - p.available
		if missing <= 0 || p.backend.Traits().IsHost && !searched {
			return done, nil
		}
		done.Close()
		page := sketch.PageBytes()
		pages := p.config.KVMemory/page - (missing+page-1)/page
		if !searched || pages < int64(sketch.PagesPerSeq) {
			return nil, p.tooLarge(sketch, a.total(), a.program, nil)
		}
		p.config.KVMemory = pages * page
		p.keep(nil)
	}
}

// tooLarge is the error of a job whose pages have no room.
func (p *Planner) tooLarge(sketch engine.Plan, needed int64, program string, cause error) error {
	return &doesNotFitError{device: p.device(), weights: sketch.AllWeightBytes(), available: p.available,
		needed: needed, pages: int(p.config.KVMemory / sketch.PageBytes()), pageSize: sketch.PageSize,
		program: program, cause: cause}
}

// programs are the programs of the best trial and others, by name.
func (p *Planner) programs(others *engine.Precompiled) iter.Seq2[string, compute.Executable] {
	return func(yield func(string, compute.Executable) bool) {
		for _, of := range []*engine.Precompiled{p.kept, others} {
			if of == nil {
				continue
			}
			for _, program := range of.Programs {
				if !yield(program.Name, program.Executable) {
					return
				}
			}
		}
	}
}

// CompileReplicas compiles the programs of the replicas after the first, for the cache. If a program runs on one
// device, it is the same for all; one of several devices names them.
func (p *Planner) CompileReplicas(ctx context.Context) error {
	if p.backend.Partitions() == 1 {
		return nil
	}
	for i, backend := range p.replicas[1:] {
		p.options.Note("compiling the programs of replica %d of %d", i+2, len(p.replicas))
		c := p.config
		c.Backend = backend
		done, err := engine.Precompile(ctx, c)
		if err != nil {
			return fmt.Errorf("replica %d: %w", i+2, err)
		}
		done.Close()
	}
	return nil
}

// keep holds on to the programs of the best trial, in place of those held before.
func (p *Planner) keep(programs *engine.Precompiled) {
	if p.kept != nil {
		p.kept.Close()
	}
	p.kept = programs
}

// device names what one device is.
func (p *Planner) device() string {
	if t, ok := p.backend.Topology(); ok {
		return fmt.Sprintf("%s (%s)", t.Name, t.DeviceKind)
	}
	return p.backend.Platform()
}

// sketch returns the plan for the memory that the flags give, or for all of the device's: a plan that needs no
// compiler.
func (p *Planner) sketch() (engine.Plan, error) {
	c := p.config
	if c.KVMemory == 0 {
		c.KVMemory = p.available
	}
	return c.Plan()
}

// usablePages is how many pages a job can use: more are never taken.
func usablePages(p engine.Plan) int { return (p.MaxSeqs + p.Holders) * p.PagesPerSeq }

// search sets the config's KV memory to the most that compiles and fits.
func (p *Planner) search(ctx context.Context, sketch engine.Plan, r *Report) error {
	page := sketch.PageBytes()
	s := pageSearch{
		atLeast: sketch.PagesPerSeq, atMost: usablePages(sketch), pageBytes: page, available: p.available,
		maxTrials: p.options.Trials,
		try:       func(pages int) (Trial, error) { return p.try(ctx, pages, page) },
	}
	rest := p.available - sketch.AllWeightBytes() - sketch.StagingBytes - sketch.LaterFeatureBytes
	guess := int(firstPages(p.options.Trials) * float64(rest) / float64(page))
	best, trials, err := s.run(guess)
	r.Trials = trials
	if err != nil {
		return err
	}
	r.Complete = s.complete(best, trials)
	if best == 0 && !r.Complete {
		return setting.Errorf("`max-compiles` %d is too few: no number of pages was found to fit yet (%s)",
			p.options.Trials, r.Tried())
	}
	if best == 0 {
		last := trials[len(trials)-1]
		return &doesNotFitError{device: p.device(), weights: sketch.AllWeightBytes(), needed: last.Bytes,
			available: p.available, pages: last.Pages, pageSize: sketch.PageSize,
			program: largestProgram, least: true}
	}
	p.config.KVMemory = int64(best) * page
	return nil
}

// try compiles the largest program with a number of pages.
func (p *Planner) try(ctx context.Context, pages int, pageBytes int64) (Trial, error) {
	c := p.config
	c.KVMemory = int64(pages) * pageBytes
	p.options.Note("compiling with %d pages, %s of KV cache", pages, Size(c.KVMemory))
	start := time.Now()
	done, err := engine.Precompile(ctx, c, largestProgram)
	t := Trial{Pages: pages, Seconds: time.Since(start).Seconds()}
	var oom *xla.OutOfMemoryError
	if errors.As(err, &oom) {
		plan, err := c.Plan()
		if err != nil {
			return t, err
		}
		if t.Bytes = oom.Needed; t.Bytes > 0 {
			t.Bytes += accountOf(plan, nil).total()
		}
		needed, available := sizes(t.Bytes, p.available)
		p.options.Note("  needs %s of %s: does not fit (%.0f s)", needed, available, t.Seconds)
		return t, nil
	}
	if err != nil {
		return t, err
	}
	programs, err := programsOf(done.Programs)
	if err != nil {
		done.Close()
		return t, err
	}
	t.Bytes = accountOf(done.Plan, programs).ofTrial().total()
	if t.Fits = t.Bytes <= p.available; t.Fits {
		p.keep(done) // a trial that fits has more pages than those before
	} else {
		done.Close()
	}
	needed, available := sizes(t.Bytes, p.available)
	fits := "fits"
	if !t.Fits {
		fits = "does not fit"
	}
	p.options.Note("  needs %s of %s: %s (%.0f s)", needed, available, fits, t.Seconds)
	return t, nil
}

// programsOf describes compiled programs.
func programsOf(compiled []engine.PrecompiledProgram) (list []Program, err error) {
	for _, program := range compiled {
		e, ok := program.Executable.(*xla.Executable)
		if !ok {
			return nil, fmt.Errorf("program %s is a %T, which does not tell its memory", program.Name,
				program.Executable)
		}
		entry := Program{Name: program.Name, Seconds: program.Seconds, Before: e.FromCache}
		if entry.Memory, err = e.Memory(); err != nil {
			return nil, err
		}
		if cost, err := e.Cost(); err == nil {
			entry.Cost = &cost
		}
		list = append(list, entry)
	}
	return list, nil
}

// work is what speeds depend on.
func (p *Planner) work(plan engine.Plan, sequences, context int) speed.Work {
	c := p.config.Model.Config
	together := float64(plan.Devices) // each does its share
	layers, logits := c.Work()
	headDims := 0
	for i := range c.Layers {
		headDims += c.OfLayer(i).HeadDim
	}
	return speed.Work{
		LayerParams: float64(layers) / together, HeadParams: float64(logits) / together,
		Read:       func(tokens float64) float64 { return c.Read(tokens) / together },
		WeightSize: float64(plan.WeightBytes) * together / float64(plan.Parameters),
		Layers:     float64(c.NumLayers), Heads: float64(c.NumHeads) / together,
		HeadDim:         float64(headDims) / float64(c.NumLayers),
		KVBytesPerToken: float64(plan.KVBytesPerToken),
		Sequences:       sequences, Context: context, Step: plan.PrefillTokens, Tiles: tilesOf(c, plan),
		Devices: plan.Devices, Rounds: plan.MaxRounds, PageSize: plan.PageSize,
	}
}

// matrix returns the bytes of the largest matrix of a device, which is the output's in all known models.
func (p *Planner) matrix(plan engine.Plan) int64 {
	_, logits := p.config.Model.Config.Work()
	return int64(float64(logits) * float64(plan.WeightBytes) / float64(plan.Parameters))
}

// tilesOf is how many tiles of rows a prompt step runs through the experts of a layer, on a device; 1 without experts.
func tilesOf(c models.Config, plan engine.Plan) float64 {
	for _, l := range c.Layers {
		if e := l.Experts; e.Count > 0 {
			groups := float64(max(1, plan.ExpertGroups))
			return linear.MeanTiles(float64(plan.PrefillTokens*e.Chosen)/groups, float64(e.Count)/groups)
		}
	}
	return 1
}
