package core

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// weights are the weights of the models, as programs take them.
type weights struct {
	model, drafter []compute.Buffer
	adapters       arena
}

// load puts the arrays of the models on the device, one at a time, so that the host holds no second copy of them.
func (w *weights) load(ctx context.Context, gr *device.Graphs, cfg config.Config) error {
	err := loadArrays(ctx, cfg.Backend, &w.model, gr.Arrays, cfg.Model)
	if err == nil && gr.Drafter != nil {
		if err = loadArrays(ctx, cfg.Backend, &w.drafter, gr.Drafter.Arrays, cfg.DraftModel); err != nil {
			err = fmt.Errorf("the draft model: %w", err)
		}
	}
	if err == nil {
		w.adapters, err = newArena(cfg.Backend, gr.AdapterArrays)
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
