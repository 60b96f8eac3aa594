package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// ErrNoMemoryForWeights means that the device has no memory for other weights beside the ones that it runs.
var ErrNoMemoryForWeights = errors.New("there is no memory for two sets of weights")

// weights are the weights of the models, as programs take them.
type weights struct {
	model, drafter []compute.Buffer
	arrays         []decoder.Array    // of model
	from           *models.Checkpoint // has the tensors of model
	version        string             // its fingerprint
	adapters       Adapters
}

// load puts the arrays of the models on the device, one at a time, so that the host holds no second copy of them.
func (w *weights) load(ctx context.Context, gr *device.Graphs, cfg config.Config) error {
	w.arrays, w.from, w.version = gr.Arrays, cfg.Model, cfg.Model.FingerPrint()
	err := loadArrays(ctx, cfg.Backend, &w.model, gr.Arrays, cfg.Model)
	if err == nil && gr.Drafter != nil {
		if err = loadArrays(ctx, cfg.Backend, &w.drafter, gr.Drafter.Arrays, cfg.DraftModel); err != nil {
			err = fmt.Errorf("the draft model: %w", err)
		}
	}
	if err == nil {
		w.adapters, err = newAdapters(cfg.Backend, gr)
	}
	return err
}

func loadArrays(ctx context.Context, backend compute.Backend, to *[]compute.Buffer, arrays []decoder.Array,
	from *models.Checkpoint) error {
	for _, a := range arrays {
		if err := ctx.Err(); err != nil {
			return err
		}
		buffer, err := a.Load(backend, 0, from)
		if err != nil {
			return err
		}
		*to = append(*to, buffer)
	}
	return nil
}

func (w *weights) close() {
	finalize(w.model)
	finalize(w.drafter)
	w.adapters.close()
	w.model, w.drafter = nil, nil
}

// Weights are arrays on the device that can take the place of the model's: see [Core.LoadWeights].
type Weights struct {
	Version string // the checkpoint's fingerprint
	Bytes   int64  // what was loaded
	Arrays  int    // how many arrays were loaded; the others are the same as the model's
	from    *models.Checkpoint
	arrays  []compute.Buffer // nil for an array that is the same
}

// Close frees the arrays.
func (w *Weights) Close() {
	finalize(w.arrays)
	w.arrays = nil
}

// Version identifies the weights that programs take now.
func (c *Core) Version() string { return c.weights.version }

// LoadWeights loads a checkpoint of the same model, beside the weights that programs take and beside their calls.
// Arrays whose tensors all are the model's own are not loaded again. [Core.SwapWeights] must come before any other
// LoadWeights.
func (c *Core) LoadWeights(ctx context.Context, from *models.Checkpoint) (*Weights, error) {
	running := &c.weights
	if err := from.Fits(running.from); err != nil {
		return nil, fmt.Errorf("the weights of %s: %w", from.Ref, err)
	}
	w := &Weights{Version: from.FingerPrint(), from: from, arrays: make([]compute.Buffer, len(running.arrays))}
	if w.Version == "" {
		return nil, fmt.Errorf("the files of %s can no longer be read", from.Ref)
	}
	var load []int
	for i, a := range running.arrays {
		if !a.Shared(from, running.from) {
			load = append(load, i)
			w.Bytes += int64(a.Shape.Memory())
		}
	}
	w.Arrays = len(load)
	if b, ok := c.backend.(interface {
		FreeMemory(device compute.DeviceNum) (int64, error)
	}); ok {
		if free, err := b.FreeMemory(0); err == nil && free < w.Bytes {
			return nil, fmt.Errorf("%w: %s takes %d bytes beside the running model's, and %d are free: give less "+
				"memory to keys and values", ErrNoMemoryForWeights, from.Ref, w.Bytes, free)
		}
	}
	for _, i := range load {
		one := w.arrays[i : i : i+1]
		if err := loadArrays(ctx, c.backend, &one, running.arrays[i:i+1], from); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// SwapWeights makes programs take other weights from the next call on, and returns the weights that they took before,
// which are the caller's to close.
func (c *Core) SwapWeights(w *Weights) (before *Weights) {
	old := &c.weights
	before = &Weights{Version: old.version, from: old.from}
	arrays := slices.Clone(old.model)
	for i, b := range w.arrays {
		if b != nil {
			before.arrays, arrays[i] = append(before.arrays, arrays[i]), b
		}
	}
	old.model, old.from, old.version = arrays, w.from, w.Version
	w.arrays = nil
	return before
}
