// Package weights replaces the weights of an engine: it loads a checkpoint of the same model beside a run, and takes it
// between two calls. No program is compiled.
package weights

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
	"github.com/quire/quire/models"
)

// Policy is what happens to the sequences that have started when the weights are replaced.
type Policy string

const (
	// Finish lets them end with the weights that they have, and starts no others until then.
	Finish Policy = "finish"
	// Restart drops them, and generates their completions again from the start.
	Restart Policy = "restart"
	// Continue lets them keep their tokens, keys and values, and generate the rest with the new weights.
	Continue Policy = "continue"
)

// Policies are all policies.
var Policies = []Policy{Finish, Restart, Continue}

// Swapped is what it took to replace the weights.
type Swapped struct {
	Version, Before string        // of the weights now, and of the weights that they replaced
	Bytes           int64         // of the arrays that were loaded
	Arrays          int           // how many were loaded: those with tensors that differ
	Load            time.Duration // how long loading took, beside the run
	Wait            time.Duration // from then until the weights were replaced
	Stop            time.Duration // how long no call could run meanwhile
	// Sequences that had started: how many start again, and how many continue with the new weights.
	Restarted, Continued int
}

// Replacer replaces the weights of an engine.
type Replacer struct {
	core     *core.Core
	prefixes *prefixes.Prefixes
	contexts *contexts.Contexts // nil without any
	lock     *turns.Lock
	mu       sync.Mutex // one set of weights is loaded and taken at a time; acquired before lock
	replaced int        // how often; guarded by the lock
}

// New makes the part of an engine that replaces its weights.
func New(c *core.Core, p *prefixes.Prefixes, contexts *contexts.Contexts, lock *turns.Lock) *Replacer {
	return &Replacer{core: c, prefixes: p, contexts: contexts, lock: lock}
}

// Pending is weights that are on the device and that no program takes yet. One of its methods must be called.
type Pending struct {
	replacer *Replacer
	weights  *core.Weights
	swapped  Swapped
	loaded   time.Time
}

// Load checks a checkpoint and loads it beside a run. The checkpoint must stay open until other weights have replaced
// it, except for layers that the next one shares nothing with: see [models.Checkpoint.Layers].
func (r *Replacer) Load(ctx context.Context, from *models.Checkpoint) (*Pending, error) {
	if r.core.Several() {
		return nil, fmt.Errorf("%w: replacing the weights needs one process", core.ErrSeveralHosts)
	}
	r.mu.Lock()
	start := r.core.Now()
	weights, err := r.core.LoadWeights(ctx, from)
	if err != nil {
		r.mu.Unlock()
		return nil, err
	}
	now := r.core.Now()
	return &Pending{replacer: r, weights: weights, loaded: now, swapped: Swapped{Version: weights.Version,
		Before: r.core.Version(), Bytes: weights.Bytes, Arrays: weights.Arrays, Load: now.Sub(start)}}, nil
}

// Drop gives the weights up.
func (p *Pending) Drop() {
	p.weights.Close()
	p.replacer.mu.Unlock()
}

// Swap has the engine take the weights: between two calls of the run that is under way, as the policy says, or now. If
// ctx ends before, the engine keeps the weights that it has.
func (p *Pending) Swap(ctx context.Context, policy Policy) (Swapped, error) {
	r := p.replacer
	defer r.mu.Unlock()
	if !slices.Contains(Policies, policy) {
		p.weights.Close()
		return Swapped{}, setting.Errorf("`on-swap` is %q: finish, restart or continue is needed", string(policy))
	}
	var before *core.Weights
	r.lock.Exclusive(func(between *schedule.Between) (later bool) {
		if ctx.Err() != nil {
			return false
		}
		if between != nil && policy == Finish && between.InFlight() > 0 {
			between.Pause()
			return true
		}
		before = p.take(between, policy)
		return false
	})
	if before == nil {
		p.weights.Close()
		return Swapped{}, ctx.Err()
	}
	before.Close() // no call can run while the lock is held, and freeing memory takes long
	return p.swapped, nil
}

// take replaces the weights, for the holder of the lock, and returns those before.
func (p *Pending) take(between *schedule.Between, policy Policy) (before *core.Weights) {
	r, start := p.replacer, p.replacer.core.Now()
	before = r.core.SwapWeights(p.weights)
	r.replaced++
	r.prefixes.ReplaceWeights(r.replaced)
	if r.contexts != nil { // first: the names of requests that begin with contexts depend on what these have
		r.contexts.ReplaceWeights(r.prefixes.Seed, between)
	}
	if between != nil {
		p.swapped.Restarted, p.swapped.Continued = between.ReplaceWeights(p.swapped.Version, r.prefixes.Seed,
			policy == Restart)
	}
	now := r.core.Now()
	p.swapped.Wait, p.swapped.Stop = start.Sub(p.loaded), now.Sub(start)
	return before
}
