// Package share has samplers that do the same, each on devices of its own, take requests from one queue.
package share

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

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/schedule"
)

// Sampler is an engine, or an encoder.
type Sampler interface {
	Plan() config.Plan
	Executables() map[string]compute.Executable
	Run(ctx context.Context, requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error]
	Calls() int64
	Stats() schedule.Stats
	Close()
}

// Group is samplers with the same model and sizes, each on devices of its own, at least one.
type Group[S Sampler] []S

// New opens a sampler on each of the backends.
func New[S Sampler](backends []compute.Backend, open func(number int, on compute.Backend) (S, error)) (Group[S],
	error) {
	if len(backends) == 0 {
		return nil, errors.New("share: replicas need at least one backend")
	}
	var g Group[S]
	for i, backend := range backends {
		s, err := open(i, backend)
		if err != nil {
			g.Close()
			return nil, fmt.Errorf("replica %d of %d: %w", i+1, len(backends), err)
		}
		g = append(g, s)
	}
	return g, nil
}

// Plan returns what each of the samplers settled on.
func (g Group[S]) Plan() config.Plan {
	p := g[0].Plan()
	p.Replicas = len(g)
	return p
}

// Executables returns the programs of the first sampler; the others' differ by their devices only.
func (g Group[S]) Executables() map[string]compute.Executable { return g[0].Executables() }

// Calls is how many calls of the devices have ended in this run.
func (g Group[S]) Calls() (n int64) {
	for _, s := range g {
		n += s.Calls()
	}
	return n
}

// Stats returns the figures of the last run, as [SumStats] adds them up.
func (g Group[S]) Stats() schedule.Stats {
	var all []schedule.Stats
	for _, s := range g {
		all = append(all, s.Stats())
	}
	return SumStats(all)
}

// Close frees the samplers.
func (g Group[S]) Close() {
	for _, s := range g {
		s.Close()
	}
}

// Run yields the completions of requests, in any order. A completion does not depend on which of the samplers makes it.
func (g Group[S]) Run(ctx context.Context, requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error] {
	return g.RunBy(ctx, requests, func(s S) Run { return s.Run })
}

// Run yields completions of requests.
type Run func(ctx context.Context, requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error]

// RunBy yields what a method of the samplers gives for requests. The sampler that has the fewest completions to
// generate gets the next request. If one fails, the run ends.
func (g Group[S]) RunBy(ctx context.Context, requests iter.Seq[*admit.Request],
	method func(S) Run) iter.Seq2[*admit.Completion, error] {
	return func(yield func(*admit.Completion, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		q := newQueue(ctx, len(g))
		var running sync.WaitGroup
		running.Go(func() { q.fill(ctx, requests) })
		type result struct {
			completion *admit.Completion
			err        error
		}
		out := make(chan result)
		var working sync.WaitGroup
		for i, s := range g {
			run := method(s)
			working.Go(func() {
				for c, err := range run(ctx, q.requestsOf(ctx, i)) {
					switch {
					case err != nil:
					case c.Refused:
						q.add(i, -completions(c.Request))
					default:
						q.add(i, -1)
					}
					out <- result{c, err}
				}
			})
		}
		running.Go(func() {
			working.Wait()
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

// queue hands out requests to several samplers.
type queue struct {
	next chan *admit.Request

	mu    sync.Mutex
	turn  *sync.Cond
	to    []int // completions that each has yet to generate
	ended bool
}

func newQueue(ctx context.Context, samplers int) *queue {
	q := &queue{next: make(chan *admit.Request), to: make([]int, samplers)}
	q.turn = sync.NewCond(&q.mu)
	context.AfterFunc(ctx, q.end)
	return q
}

// end lets all go that wait for their turn.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.turn.Broadcast()
}

// fill hands out the requests. After the last one no sampler waits for its turn: one may begin to generate only when it
// knows that no more come.
func (q *queue) fill(ctx context.Context, requests iter.Seq[*admit.Request]) {
	defer q.end()
	defer close(q.next)
	for r := range requests {
		select {
		case q.next <- r:
		case <-ctx.Done():
			return
		}
	}
}

// requestsOf yields the requests that a sampler gets.
func (q *queue) requestsOf(ctx context.Context, sampler int) iter.Seq[*admit.Request] {
	return func(yield func(*admit.Request) bool) {
		for q.await(sampler) {
			select {
			case r, ok := <-q.next:
				if !ok {
					return
				}
				q.add(sampler, completions(r))
				if !yield(r) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// await waits until no other sampler has less to do.
func (q *queue) await(sampler int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended && q.to[sampler] > slices.Min(q.to) {
		q.turn.Wait()
	}
	return !q.ended
}

// completions is how many a request counts for.
func completions(r *admit.Request) int { return max(1, r.N) }

// add gives a sampler more completions to generate, or fewer.
func (q *queue) add(sampler, completions int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.to[sampler] += completions
	q.turn.Broadcast()
}

// SumStats returns the figures of the last run of all samplers: sums, but the longest wall clock, the first token of
// any, and the mean of other times.
func SumStats(all []schedule.Stats) schedule.Stats {
	var sum schedule.Stats
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
