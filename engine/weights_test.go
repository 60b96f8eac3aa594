package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// versionsOf makes checkpoints of one model that differ in all weights.
func versionsOf(t testing.TB, n int) (all []*models.Checkpoint) {
	t.Helper()
	for seed := range n {
		all = append(all, models.Dummy(testenv.Model(t, contractFamily).Config, uint64(seed)))
	}
	return all
}

// engineOf is an engine with a checkpoint.
func engineOf(t testing.TB, model *models.Checkpoint, cfg engine.Config) *engine.Engine {
	t.Helper()
	cfg.Model = model
	withDefaults(t, &cfg)
	e, err := engine.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// swapping has an engine take versions at numbers of calls of its run, one after the other.
type swapping struct {
	engine   *engine.Engine
	versions []*models.Checkpoint
	calls    []int // a version is asked for after each of these, the next one of versions in turn
	policy   engine.Policy

	mu    sync.Mutex
	done  int
	asked sync.WaitGroup
	all   []engine.Swapped
	err   error
}

// observe is a config's Observe.
func (s *swapping) observe(engine.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.done++; len(s.calls) > 0 && s.calls[0] <= s.done; s.calls = s.calls[1:] {
		next := s.versions[0]
		s.versions = append(s.versions[1:], next)
		s.asked.Go(func() {
			swapped, err := s.engine.Swap(context.Background(), next, s.policy)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.all = append(s.all, swapped); err != nil {
				s.err = err
			}
		})
	}
}

// Whatever the calls at which the weights are replaced, a completion is what the versions that it names generate, run
// by hand; with finish and restart it has one. Each row of a job has a version, and no program is compiled.
func TestWeightsReplacedByHand(t *testing.T) {
	versions := versionsOf(t, 5)
	var now *swapping // of the run under way
	cfg := contractConfig()
	cfg.KVMemory = smallPool // rows are swapped out
	cfg.Observe = func(c engine.Call) {
		if now != nil {
			now.observe(c)
		}
	}
	e := engineOf(t, versions[0], cfg)
	slow := contractConfig()
	slow.Debug, slow.NoPrefixCache = false, true
	reference, err := engine.NewByHand(engineOf(t, versions[0], slow), versions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reference.Close)
	known := map[string]*engine.Completion{}
	collect(t, e, contractRequests()...) // compiles what is compiled later
	collect(t, reference.Engine, contractRequests()[0])
	preempted, compiled := 0, testenv.XLA(t).Compiles()
	seen := map[engine.Policy]map[int]int{engine.Finish: {}, engine.Restart: {}, engine.Continue: {}}
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]engine.Policy{engine.Finish, engine.Restart, engine.Continue}).Draw(rt, "policy")
		pool := versions[:rapid.SampledFrom([]int{2, 5}).Draw(rt, "versions")]
		calls := rapid.SliceOfN(rapid.IntRange(1, 14), 1, 4).Draw(rt, "calls")
		slices.Sort(calls)
		s := &swapping{engine: e, versions: slices.Concat(pool[1:], pool[:1]), calls: calls, policy: policy}
		now = s
		var requests []*engine.Request
		share := 4 // of the requests
		if testing.Short() {
			share = 9
		}
		which := rapid.IntRange(0, share-1).Draw(rt, "rows")
		for i, r := range contractRequests() {
			if i%share == which {
				requests = append(requests, r)
			}
		}
		got := collect(t, e, requests...)
		now = nil
		s.asked.Wait()
		preempted += e.Stats().Preemptions
		if s.err != nil {
			rt.Fatal(s.err)
		}
		for key, c := range got {
			runs := c.Weights
			if len(runs) == 0 || runs[0].First != 0 || policy != engine.Continue && len(runs) > 1 {
				rt.Fatalf("%s: %s has the weights %v", policy, key, runs)
			}
			seen[policy][len(runs)]++
			which := fmt.Sprint(key, runs)
			if known[which] == nil {
				if known[which], err = reference.Complete(c.Request, c.Generation, runs); err != nil {
					rt.Fatal(err)
				}
			}
			sameBytes(t, map[string]*engine.Completion{key: known[which]}, map[string]*engine.Completion{key: c}, true)
		}
		if t.Failed() {
			rt.Fatalf("%s, replaced after calls %v: %+v", policy, calls, s.all)
		}
	})
	if n := testenv.XLA(t).Compiles(); n != compiled {
		t.Errorf("%d programs were compiled", n-compiled)
	}
	t.Logf("completions by policy and number of versions: %v, of them different: %d; swapped out %d times", seen,
		len(known), preempted)
	if seen[engine.Continue][2] == 0 || seen[engine.Finish][1] == 0 || seen[engine.Restart][1] == 0 {
		t.Errorf("too little happened: %v", seen)
	}
}
