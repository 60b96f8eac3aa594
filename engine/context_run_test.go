package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/pagetable"
)

// besideRuns works at random on a tree of contexts: a part of the test, in a goroutine of its own.
type besideRuns struct {
	*testing.T
	e    *engine.Engine
	rng  *rand.Rand
	name string
	tree []*contexts.Context
	done int // operations

	did    map[string]int
	drawn  map[string]*engine.Completion // by key
	asked  []*engine.Request             // for these, with the whole prompt
	scored map[string]scored
}

// scored is what tokens came to behind others.
type scored struct {
	tokens, next []int32
	logprobs     []float32
}

func (w *besideRuns) work(operations int) {
	ctx := context.Background()
	for range operations {
		w.done++
		what := []string{"extend", "fork", "cut", "draw", "score", "save", "close", "reserve", "pass"}[w.rng.IntN(9)]
		if len(w.tree) == 0 {
			what = "open"
		}
		var c *contexts.Context
		if len(w.tree) > 0 {
			c = w.tree[w.rng.IntN(len(w.tree))]
		}
		var err error
		switch what {
		case "open":
			if c, err = w.e.Contexts().Open(); err == nil {
				w.tree = append(w.tree, c)
				err = errors.Join(c.Append(sharing(uint64(w.rng.IntN(3)), 10+w.rng.IntN(50))...), c.Flush(ctx))
			}
		case "extend":
			if c.Len() < 80 {
				err = errors.Join(c.Append(sharing(uint64(w.rng.IntN(3)), w.rng.IntN(20))...), c.Flush(ctx))
			}
		case "fork":
			if len(w.tree) < 2 {
				var f *contexts.Context
				if f, err = c.Fork(ctx); err == nil {
					w.tree = append(w.tree, f)
				}
			}
		case "cut":
			err = errors.Join(c.TruncateCommitted(w.rng.IntN(c.Len())), c.Append(7, 8, 9), c.Flush(ctx))
		case "draw":
			r := sampled(fmt.Sprintf("%s-%d", w.name, w.done), nil, 1+w.rng.IntN(2), 4, uint64(w.done))
			var all []*engine.Completion
			if all, err = c.Generate(ctx, r); err == nil {
				whole := *r
				whole.Tokens = c.Tokens()
				w.asked = append(w.asked, &whole)
				for _, d := range all {
					w.drawn[key(d)] = d
				}
			}
		case "score":
			next := sharing(uint64(w.done), 1+w.rng.IntN(9))
			var logprobs []float32
			if logprobs, err = c.Score(ctx, next); err == nil {
				w.scored[fmt.Sprintf("%s-%d", w.name, w.done)] = scored{c.Tokens(), next, logprobs}
			}
		case "save":
			if err = c.Save(w.name); err == nil {
				tokens := c.Tokens()
				if err = c.Close(); err == nil {
					w.tree = slices.DeleteFunc(w.tree, func(o *contexts.Context) bool { return o == c })
					c, err = w.e.Contexts().OpenSnapshot(w.name)
				}
				if err == nil {
					if w.tree = append(w.tree, c); !slices.Equal(c.Tokens(), tokens) {
						w.Error("a snapshot came back with other tokens")
					}
				}
				err = errors.Join(err, w.e.Contexts().DeleteSnapshot(w.name))
			}
		case "reserve":
			err = c.Reserve(1)
		case "pass":
			tokens := sharing(uint64(w.done), 1+w.rng.IntN(20))
			_, err = c.Forward(ctx, contexts.Pass{Tokens: tokens, Sees: func(int, int) bool { return false }})
			if err == nil {
				err = c.TruncateCommitted(len(tokens))
			}
		case "close":
			err = c.Close()
			w.tree = slices.DeleteFunc(w.tree, func(o *contexts.Context) bool { return o == c })
		}
		switch {
		case err == nil:
			w.did[what]++
		case errors.Is(err, pagetable.ErrOutOfPages{}) || errors.Is(err, contexts.ErrOutOfContexts):
			w.did["refused"]++
		default:
			w.Errorf("%s: %v", what, err)
			return
		}
	}
}

func (w *besideRuns) end() {
	for _, c := range w.tree {
		if err := c.Close(); err != nil {
			w.Error(err)
		}
	}
}

// Trees of contexts are worked on while requests run, by several goroutines and by the one that takes the completions:
// what they draw and score is what it is apart, so are the run's completions, and no page is lost. Between two of the
// runs one is cancelled.
func TestContextsBesideRuns(t *testing.T) {
	operations := 60
	if testing.Short() {
		operations = 20
	}
	for name, admission := range map[string]engine.Admission{"overcommit": engine.Overcommit,
		"reserve": engine.Reserve} {
		t.Run(name, func(t *testing.T) {
			if admission == engine.Reserve {
				testenv.Slow(t)
			}
			e := contextEngine(t, func(c *engine.Config) { c.Admission, c.KVMemory = admission, pagesOf(48) })
			want := wantOfLong(t)
			var workers []*besideRuns
			var working sync.WaitGroup
			for i := range 4 {
				w := &besideRuns{T: t, e: e, rng: rand.New(rand.NewPCG(uint64(i), 77)), name: fmt.Sprint("w", i),
					did: map[string]int{}, drawn: map[string]*engine.Completion{}, scored: map[string]scored{}}
				if workers = append(workers, w); i > 0 {
					working.Go(func() { w.work(operations); w.end() })
				}
			}
			taker := workers[0]
			for n := 0; n < 2 || n < 10 && taker.did["draw"] == 0; n++ {
				got := map[string]*engine.Completion{}
				ctx, cancel := context.WithCancel(t.Context())
				for c, err := range e.Run(ctx, slices.Values(longRequests(16))) {
					if err != nil && !(n == 1 && errors.Is(err, context.Canceled)) {
						t.Fatal(err)
					}
					if c != nil {
						got[key(c)] = c
						taker.work(1)
					}
					if n == 1 {
						cancel()
					}
				}
				cancel()
				sameBytes(t, want, got, n != 1)
			}
			taker.end()
			working.Wait()
			if e.Contexts().FreePages() != e.Plan().Pages {
				t.Errorf("%d pages of %d are free", e.Contexts().FreePages(), e.Plan().Pages)
			}
			plain := contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true })
			did := map[string]int{}
			for _, w := range workers {
				sameBytes(t, collect(t, plain, w.asked...), w.drawn, true)
				for what, n := range w.did {
					did[what] += n
				}
				for name, s := range w.scored {
					c := open(t, e, s.tokens...)
					logprobs, err := c.Score(t.Context(), s.next)
					if err != nil || !slices.Equal(bits(logprobs), bits(s.logprobs)) {
						t.Errorf("%s: scores %v beside a run, and %v apart: %v", name, s.logprobs, logprobs, err)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			t.Log(did)
		})
	}
}
