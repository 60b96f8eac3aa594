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
	share.Group[*Engine]
}

// NewReplicas makes an engine on each of the backends. cfg.Backend is not read. If cfg gives no KV memory, all take
// what the first one found.
func NewReplicas(ctx context.Context, cfg Config, backends []compute.Backend) (*Replicas, error) {
	if cfg.Hosts != nil && len(backends) > 1 {
		return nil, fmt.Errorf("%w: it is one replica", ErrSeveralHosts)
	}
	engines, err := share.New(backends, func(number int, on compute.Backend) (*Engine, error) {
		cfg.Backend, cfg.Replica = on, number
		e, err := New(ctx, cfg)
		if err == nil {
			cfg.KVMemory = e.plan.KVBytes
		}
		return e, err
	})
	if err != nil {
		return nil, err
	}
	return &Replicas{engines}, nil
}

// Engines returns the replicas.
func (r *Replicas) Engines() []*Engine { return slices.Clone(r.Group) }

// Replay is as [Engine.Replay]. Replicas may have different versions afterwards.
func (r *Replicas) Replay(ctx context.Context, requests iter.Seq[*Request], open OpenVersion) iter.Seq2[*Completion,
	error] {
	return r.RunBy(ctx, requests, func(e *Engine) share.Run {
		return func(ctx context.Context, requests iter.Seq[*Request]) iter.Seq2[*Completion, error] {
			return e.Replay(ctx, requests, open)
		}
	})
}

// Swap is as [Engine.Swap], for all replicas: all load the checkpoint before any takes it. The times are the longest of
// any.
func (r *Replicas) Swap(ctx context.Context, from *models.Checkpoint, policy Policy) (all Swapped, err error) {
	pending := make([]*weights.Pending, len(r.Group))
	for i, e := range r.Group {
		if pending[i], err = e.weights.Load(ctx, from); err != nil {
			for _, p := range pending[:i] {
				p.Drop()
			}
			return Swapped{}, fmt.Errorf("replica %d of %d: %w", i+1, len(r.Group), err)
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
