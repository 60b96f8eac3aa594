package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/share"
	"github.com/quire/quire/engine/weights"
	"github.com/quire/quire/models"
)

// Replicas are engines with the same model and sizes, each on devices of its own, that take requests from one queue. A
// completion does not depend on which of them generates it.
//
// Prefixes are shared by the requests that come to the same engine.
type Replicas struct {
	engines []*Engine
}

// NewReplicas makes an engine on each of the backends. cfg.Backend is not read. If cfg gives no KV memory, all take
// what the first one found.
func NewReplicas(ctx context.Context, cfg Config, backends []compute.Backend) (*Replicas, error) {
	if len(backends) == 0 {
		return nil, errors.New("engine: replicas need at least one backend")
	}
	if cfg.Hosts != nil && len(backends) > 1 {
		return nil, fmt.Errorf("%w: it is one replica", ErrSeveralHosts)
	}
	r := &Replicas{}
	for i, backend := range backends {
		cfg.Backend, cfg.Replica = backend, i
		e, err := New(ctx, cfg)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("replica %d of %d: %w", i+1, len(backends), err)
		}
		cfg.KVMemory = e.plan.KVBytes
		r.engines = append(r.engines, e)
	}
	return r, nil
}

// Engines returns the replicas.
func (r *Replicas) Engines() []*Engine { return slices.Clone(r.engines) }

// Plan returns what each of the replicas settled on.
func (r *Replicas) Plan() Plan {
	p := r.engines[0].Plan()
	p.Replicas = len(r.engines)
	return p
}

// Executables returns the programs of the first replica; the others' differ by their devices only.
func (r *Replicas) Executables() map[string]compute.Executable { return r.engines[0].Executables() }

// Calls is how many calls of the devices have ended in this run.
func (r *Replicas) Calls() (n int64) {
	for _, e := range r.engines {
		n += e.Calls()
	}
	return n
}

// Close frees the replicas.
func (r *Replicas) Close() {
	for _, e := range r.engines {
		e.Close()
	}
}

// Run is as [Engine.Run]. The replica that has the fewest completions to generate gets the next request. If one fails,
// the run ends.
func (r *Replicas) Run(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
	return r.run(ctx, requests, (*Engine).Run)
}

// Replay is as [Engine.Replay]. Replicas may have different versions afterwards.
func (r *Replicas) Replay(ctx context.Context, requests iter.Seq[*Request], open OpenVersion) iter.Seq2[*Completion,
	error] {
	return r.run(ctx, requests,
		func(e *Engine, ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
			return e.Replay(ctx, requests, open)
		})
}

func (r *Replicas) run(ctx context.Context, requests iter.Seq[*Request],
	run func(*Engine, context.Context, iter.Seq[*Request]) iter.Seq2[*Completion, error]) iter.Seq2[*Completion,
	error] {
	samplers := make([]share.Sampler, len(r.engines))
	for i, e := range r.engines {
		samplers[i] = func(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
			return run(e, ctx, requests)
		}
	}
	return share.Run(ctx, requests, samplers)
}

// Swap is as [Engine.Swap], for all replicas: all load the checkpoint before any takes it. The times are the longest of
// any.
func (r *Replicas) Swap(ctx context.Context, from *models.Checkpoint, policy Policy) (all Swapped, err error) {
	pending := make([]*weights.Pending, len(r.engines))
	for i, e := range r.engines {
		if pending[i], err = e.weights.Load(ctx, from); err != nil {
			for _, p := range pending[:i] {
				p.Drop()
			}
			return Swapped{}, fmt.Errorf("replica %d of %d: %w", i+1, len(r.engines), err)
		}
	}
	each, errs := make([]Swapped, len(pending)), make([]error, len(pending))
	var wait sync.WaitGroup
	for i, p := range pending {
		wait.Go(func() { each[i], errs[i] = p.Swap(ctx, policy) })
	}
	wait.Wait()
	all = each[0]
	for _, s := range each[1:] {
		all.Load, all.Wait, all.Stop = max(all.Load, s.Load), max(all.Wait, s.Wait), max(all.Stop, s.Stop)
		all.Restarted, all.Continued = all.Restarted+s.Restarted, all.Continued+s.Continued
	}
	return all, errors.Join(errs...)
}

// Stats returns the figures of the last run: sums over the replicas, but the longest wall clock, the first token of
// any, and the mean of other times.
func (r *Replicas) Stats() Stats {
	var all []Stats
	for _, e := range r.engines {
		all = append(all, e.Stats())
	}
	return share.SumStats(all)
}
