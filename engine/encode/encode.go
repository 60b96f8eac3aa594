// Package encode turns rows of tokens into vectors: an [Encoder] runs a model without a KV cache and without a loop. A
// step packs whole rows into one run of tokens, which attend within their row only, pools each row on the device, and
// returns one vector for each.
//
// A row's vector depends on the model and the row: not on the other rows of a step, their order, or the size of steps.
// For a model with a head that scores classes, the vector is the scores. With [sentence.Tokens] for a pooling, and for
// heads that score tokens, it is the vectors of all tokens one after another.
package encode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/share"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/sentence"
)

// Config describes an encoder. The encoder chooses a value for each field that is zero.
type Config struct {
	Model   *models.Checkpoint
	Backend compute.Backend
	// DType and Weights are as in [config.Config].
	DType   dtypes.DType
	Weights string
	// Pooling is by default the checkpoint's: see [models.Checkpoint.Sentence].
	Pooling sentence.Pooling
	// MaxModelLen bounds the tokens of a row. The default is the checkpoint's limit.
	MaxModelLen int
	// StepTokens is how many tokens a step has room for: at least MaxModelLen.
	StepTokens int
	Log        *slog.Logger
}

// Encoder turns rows into vectors. It satisfies process.Sampler of package batch.
type Encoder struct {
	settled *settled
	program compute.Executable
	weights []compute.Buffer
	stats   schedule.Stats
	calls   atomic.Int64
}

// New compiles the program and puts the weights on the device.
func New(ctx context.Context, cfg Config) (_ *Encoder, err error) {
	start := time.Now()
	if cfg.Backend == nil {
		return nil, errors.New("encode: Config.Backend is needed")
	}
	s, err := settle(cfg)
	if err != nil {
		return nil, err
	}
	unused, err := s.model.Validate()
	if err != nil {
		return nil, err
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	for _, name := range unused {
		log.Warn("the model has no use for a tensor", "name", name)
	}
	e := &Encoder{settled: s}
	compiled := make(chan error, 1)
	go func() {
		var err error
		e.program, err = s.compile()
		compiled <- err
	}()
	if backend.Of(s.Backend).TunesOnDevice { // nothing else may run meanwhile
		compiled <- <-compiled
	}
	err = e.load(ctx)
	if failure := <-compiled; failure != nil {
		err = failure
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	e.stats.StartSeconds = time.Since(start).Seconds()
	return e, nil
}

// NewReplicas makes an encoder on each of the backends. cfg.Backend is not read.
func NewReplicas(ctx context.Context, cfg Config, backends []compute.Backend) (share.Group[*Encoder], error) {
	return share.New(backends, func(_ int, on compute.Backend) (*Encoder, error) {
		cfg.Backend = on
		return New(ctx, cfg)
	})
}

// load puts the weights on the device, one array at a time.
func (e *Encoder) load(ctx context.Context) error {
	for _, a := range e.settled.held.Arrays {
		if err := ctx.Err(); err != nil {
			return err
		}
		buffer, err := a.Load(e.settled.Backend, 0, e.settled.model)
		if err != nil {
			return err
		}
		e.weights = append(e.weights, buffer)
	}
	return nil
}

// Plan returns what the encoder settled on.
func (e *Encoder) Plan() config.Plan { return e.settled.plan() }

// Stats returns the figures of the last run.
func (e *Encoder) Stats() schedule.Stats { return e.stats }

// Calls is how many steps have ended in this run: a heartbeat, which may be read at any time.
func (e *Encoder) Calls() int64 { return e.calls.Load() }

// Executables returns the compiled program by its name in Plan.Programs. It stays the encoder's.
func (e *Encoder) Executables() map[string]compute.Executable {
	return map[string]compute.Executable{programName: e.program}
}

// Close frees the device's memory. The model and the backend stay the caller's.
func (e *Encoder) Close() {
	for _, b := range e.weights {
		_ = b.Finalize()
	}
	if e.program != nil {
		e.program.Finalize()
	}
	e.weights, e.program = nil, nil
}

// Run yields a completion with a Vector for each request, in the order of requests. Requests have an ID, and Tokens or
// Sequences; their other fields are not read. A request that can't be run yields a completion with Err set; an error
// with a nil completion ends the run. Requests are taken, and the next step is made, while the device runs one, from
// another goroutine than the caller's.
func (e *Encoder) Run(ctx context.Context,
	requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error] {
	return func(yield func(*admit.Completion, error) bool) {
		start := time.Now()
		e.stats = schedule.Stats{StartSeconds: e.stats.StartSeconds}
		e.calls.Store(0)
		defer func() {
			e.stats.WallSeconds = time.Since(start).Seconds()
			e.stats.HostSeconds = e.stats.WallSeconds - e.stats.DeviceSeconds
		}()
		ctx, stop := context.WithCancel(ctx)
		taken, steps := intake(ctx, requests), make(chan *step)
		go e.settled.pack(ctx, taken, steps)
		defer func() { // what was started here ends before Run does
			stop()
			for range steps {
			}
			for range taken {
			}
		}()
		for s := range steps {
			if len(s.rows) > 0 {
				if err := e.execute(s); err != nil {
					yield(nil, err)
					return
				}
			}
			if e.stats.FirstTokenSeconds == 0 {
				e.stats.FirstTokenSeconds = time.Since(start).Seconds()
			}
			for _, c := range s.completions {
				e.stats.Requests++
				if c.Err == nil {
					e.stats.PromptTokens += c.PromptTokens
				}
				if !yield(c, nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// execute runs a step and gives its completions their vectors.
func (e *Encoder) execute(s *step) error {
	z := e.settled
	input, err := z.Backend.BufferFromFlatData(0, s.input, shapes.Make(dtypes.Int32, len(s.input)))
	if err != nil {
		return fmt.Errorf("copying a step to the device: %w", err)
	}
	defer input.Finalize()
	args := append([]compute.Buffer{input}, e.weights...)
	began := time.Now()
	results, err := e.program.Execute(args, make([]bool, len(args)), 0)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	defer results[0].Finalize()
	size := z.model.Config.EmbeddingSize()
	vectors := make([]float32, z.rows*size)
	if z.ofTokens() {
		vectors = make([]float32, z.tokens*size)
	}
	if err := results[0].ToFlatData(vectors); err != nil {
		return fmt.Errorf("reading vectors from the device: %w", err)
	}
	e.stats.DeviceSeconds += time.Since(began).Seconds()
	e.calls.Add(1)
	e.stats.Calls++
	e.stats.PrefillSteps++
	e.stats.PrefillTokens += s.tokens
	for _, row := range s.rows {
		c := row.completion
		if c.Err != nil { // of an earlier row
			continue
		}
		vector := vectors[row.from*size : (row.from+row.n)*size]
		if slices.ContainsFunc(vector, func(x float32) bool { return x-x != 0 }) { // infinite, or not a number
			c.Vector, c.Err, c.FinishReason = nil, errNotANumber(), admit.FinishError
			continue
		}
		copy(c.Vector[row.to*size:], vector)
	}
	return nil
}
