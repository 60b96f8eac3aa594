// Package encode turns rows of tokens into vectors: an [Encoder] runs a model without a KV cache and without a loop. A
// step packs whole rows into one run of tokens, which attend within their row only, pools each row on the device, and
// returns one vector for each.
//
// A row's vector depends on the model and the row: not on the other rows of a step, their order, or the size of steps.
package encode

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/schedule"
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
	plan  config.Plan
	stats schedule.Stats
}

// New compiles the program and puts the weights on the device.
func New(ctx context.Context, cfg Config) (*Encoder, error) {
	return nil, errors.New("encode: not there yet")
}

// Plan returns what the encoder settled on.
func (e *Encoder) Plan() config.Plan { return e.plan }

// Stats returns the figures of the last run.
func (e *Encoder) Stats() schedule.Stats { return e.stats }

// Close frees the device's memory. The model and the backend stay the caller's.
func (e *Encoder) Close() {}

// Run yields a completion with a Vector for each request, as they finish. Requests have an ID and Tokens; their other
// fields are not read. A request that can't be run yields a completion with Err set; an error with a nil completion
// ends the run.
func (e *Encoder) Run(ctx context.Context,
	requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error] {
	return func(yield func(*admit.Completion, error) bool) {}
}

// Check returns the error with which an encoder of this config refuses a request.
func (c Config) Check(r *admit.Request) error { return nil }

// Plan returns what an encoder of this config would settle on. It compiles nothing.
func (c Config) Plan() (config.Plan, error) { return config.Plan{}, nil }
