package engine

import (
	"context"
	"slices"

	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models"
)

// ByHand runs single completions whose weights are replaced at given tokens, as slowly as it takes to be sure: one
// request a run, a token a call, and nothing of a run knows that the weights are others.
type ByHand struct {
	*Engine
	stored map[string]*core.Weights // versions that the engine does not have now
	runs   []WeightsRun             // of the completion under way
	tokens int                      // generated
	err    error
}

// NewByHand makes e a reference. It must have the weights of versions[0].
func NewByHand(e *Engine, versions ...*models.Checkpoint) (*ByHand, error) {
	h := &ByHand{Engine: e, stored: map[string]*core.Weights{}}
	for _, v := range versions[1:] {
		w, err := e.core.LoadWeights(context.Background(), v)
		if err != nil {
			return nil, err
		}
		h.stored[w.Version] = w
	}
	e.runs.watch = func(d schedule.Device) schedule.Device { return byHand{d, h} }
	return h, nil
}

// take gives the engine a version.
func (h *ByHand) take(version string) {
	if w := h.stored[version]; w != nil {
		delete(h.stored, version)
		before := h.core.SwapWeights(w)
		h.stored[before.Version] = before
	}
}

// Take gives the engine, which does not run, a version.
func (h *ByHand) Take(version *models.Checkpoint) { h.take(version.FingerPrint()) }

// Complete generates one completion of a request with the weights of runs.
func (h *ByHand) Complete(r *Request, generation int, runs []WeightsRun) (*Completion, error) {
	one := *r
	one.FirstGeneration, one.N = generation, 1
	h.runs, h.tokens = runs, 0
	h.prefixes.Forget()
	for c, err := range h.Run(context.Background(), slices.Values([]*Request{&one})) {
		return c, err
	}
	panic("no completion")
}

// Close frees all versions.
func (h *ByHand) Close() {
	for _, w := range h.stored {
		w.Close()
	}
}

type byHand struct {
	schedule.Device
	hand *ByHand
}

// Run implements [schedule.Device].
func (d byHand) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	h := d.hand
	in.Columns = 1
	for len(h.runs) > 0 && h.runs[0].First <= h.tokens {
		h.take(h.runs[0].Version)
		h.runs = h.runs[1:]
	}
	out, spent, err := d.Device.Run(in)
	if err == nil {
		for _, owner := range out.Owners {
			if owner >= 0 {
				h.tokens++
			}
		}
	}
	return out, spent, err
}
