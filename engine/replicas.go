package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute"

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
	return func(yield func(*Completion, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		q := newSharedQueue(ctx, len(r.engines))
		var running sync.WaitGroup
		running.Go(func() { q.fill(ctx, requests) })
		type drawn struct {
			completion *Completion
			err        error
		}
		out := make(chan drawn)
		var engines sync.WaitGroup
		for i, e := range r.engines {
			engines.Go(func() {
				for c, err := range run(e, ctx, q.requestsOf(ctx, i)) {
					switch {
					case err != nil:
					case c.Refused:
						q.add(i, -completions(c.Request))
					default:
						q.add(i, -1)
					}
					out <- drawn{c, err}
				}
			})
		}
		running.Go(func() {
			engines.Wait()
			cancel() // if none is left to take requests
			close(out)
		})
		stopped := false
		for d := range out {
			if stopped {
				continue // the others only report that they were stopped
			}
			if !yield(d.completion, d.err) || d.err != nil {
				stopped = true
				cancel()
			}
		}
		running.Wait()
	}
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

// sharedQueue hands out requests to several engines.
type sharedQueue struct {
	next chan *Request

	mu    sync.Mutex
	turn  *sync.Cond
	to    []int // completions that each has yet to generate
	ended bool
}

func newSharedQueue(ctx context.Context, engines int) *sharedQueue {
	q := &sharedQueue{next: make(chan *Request), to: make([]int, engines)}
	q.turn = sync.NewCond(&q.mu)
	context.AfterFunc(ctx, q.end)
	return q
}

// end lets all go that wait for their turn.
func (q *sharedQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.turn.Broadcast()
}

func (q *sharedQueue) fill(ctx context.Context, requests iter.Seq[*Request]) {
	defer close(q.next)
	for r := range requests {
		select {
		case q.next <- r:
		case <-ctx.Done():
			return
		}
	}
}

// requestsOf yields the requests that an engine gets.
func (q *sharedQueue) requestsOf(ctx context.Context, engine int) iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for q.await(engine) {
			select {
			case r, ok := <-q.next:
				if !ok {
					return
				}
				q.add(engine, completions(r))
				if !yield(r) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// await waits until no other engine has less to do.
func (q *sharedQueue) await(engine int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended && q.to[engine] > slices.Min(q.to) {
		q.turn.Wait()
	}
	return !q.ended
}

// completions is how many a request counts for.
func completions(r *Request) int { return max(1, r.N) }

// add gives an engine more completions to generate, or fewer.
func (q *sharedQueue) add(engine, completions int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.to[engine] += completions
	q.turn.Broadcast()
}

// Stats returns the figures of the last run: sums over the replicas, but the longest wall clock, the first token of
// any, and the mean of other times.
func (r *Replicas) Stats() Stats {
	var all []Stats
	for _, e := range r.engines {
		all = append(all, e.Stats())
	}
	return sumStats(all)
}

func sumStats(all []Stats) Stats {
	var sum Stats
	to := reflect.ValueOf(&sum).Elem()
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		for k, s := range all {
			x, field := reflect.ValueOf(s).Field(i), to.Field(i)
			switch {
			case x.CanInt():
				field.SetInt(field.Int() + x.Int())
			case name == "FirstTokenSeconds":
				if first := x.Float(); first > 0 && (k == 0 || field.Float() == 0 || first < field.Float()) {
					field.SetFloat(first)
				}
			case name == "WallSeconds":
				field.SetFloat(max(field.Float(), x.Float()))
			case name == "StartSeconds": // one after the other
				field.SetFloat(field.Float() + x.Float())
			case strings.HasSuffix(name, "Seconds"):
				field.SetFloat(field.Float() + x.Float()/float64(len(all)))
			}
		}
	}
	// the time that replicas which end first wait for the last is included
	sum.HostSeconds = max(0, sum.WallSeconds-sum.DeviceSeconds)
	return sum
}
