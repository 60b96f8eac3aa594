// Package share has samplers that do the same, each on devices of its own, take requests from one queue.
package share

import (
	"context"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/schedule"
)

// Sampler yields completions of requests.
type Sampler func(ctx context.Context, requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error]

// Run yields what samplers give for requests. The sampler that has the fewest completions to generate gets the next
// request. If one fails, the run ends.
func Run(ctx context.Context, requests iter.Seq[*admit.Request], samplers []Sampler) iter.Seq2[*admit.Completion,
	error] {
	return func(yield func(*admit.Completion, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		q := newQueue(ctx, len(samplers))
		var running sync.WaitGroup
		running.Go(func() { q.fill(ctx, requests) })
		type result struct {
			completion *admit.Completion
			err        error
		}
		out := make(chan result)
		var working sync.WaitGroup
		for i, run := range samplers {
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

func (q *queue) fill(ctx context.Context, requests iter.Seq[*admit.Request]) {
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
