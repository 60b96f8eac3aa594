package encode

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/share"
)

// Replicas are encoders with the same model and sizes, each on devices of its own, that take requests from one queue. A
// vector does not depend on which of them makes it.
type Replicas struct {
	encoders []*Encoder
}

// NewReplicas makes an encoder on each of the backends. cfg.Backend is not read.
func NewReplicas(ctx context.Context, cfg Config, backends []compute.Backend) (*Replicas, error) {
	if len(backends) == 0 {
		return nil, errors.New("encode: replicas need at least one backend")
	}
	r := &Replicas{}
	for i, backend := range backends {
		cfg.Backend = backend
		e, err := New(ctx, cfg)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("replica %d of %d: %w", i+1, len(backends), err)
		}
		r.encoders = append(r.encoders, e)
	}
	return r, nil
}

// Plan returns what each of the replicas settled on.
func (r *Replicas) Plan() config.Plan {
	p := r.encoders[0].Plan()
	p.Replicas = len(r.encoders)
	return p
}

// Executables returns the program of the first replica; the others' differ by their devices only.
func (r *Replicas) Executables() map[string]compute.Executable { return r.encoders[0].Executables() }

// Calls is as [Encoder.Calls], over all replicas.
func (r *Replicas) Calls() (n int64) {
	for _, e := range r.encoders {
		n += e.Calls()
	}
	return n
}

// Close frees the replicas.
func (r *Replicas) Close() {
	for _, e := range r.encoders {
		e.Close()
	}
}

// Run is as [Encoder.Run], but completions come in any order.
func (r *Replicas) Run(ctx context.Context,
	requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error] {
	samplers := make([]share.Sampler, len(r.encoders))
	for i, e := range r.encoders {
		samplers[i] = e.Run
	}
	return share.Run(ctx, requests, samplers)
}

// Stats returns the figures of the last run, as [share.SumStats] adds them up.
func (r *Replicas) Stats() schedule.Stats {
	var all []schedule.Stats
	for _, e := range r.encoders {
		all = append(all, e.Stats())
	}
	return share.SumStats(all)
}
