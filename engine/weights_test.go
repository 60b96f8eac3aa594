package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	kill     int    // the call after which die is called; 0 for none
	die      func() // ends the process

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
	s.done++
	if s.done == s.kill {
		s.die()
	}
	for ; len(s.calls) > 0 && s.calls[0] <= s.done; s.calls = s.calls[1:] {
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

// process runs what the processes before it left of a job: what was under way, with the weights that it had, and then
// the rest, while others come. It returns false if it is killed. got has the completions that it emitted, told what the
// versions of those that started are.
func (s *swapping) process(t *testing.T, requests []*engine.Request, versions []*models.Checkpoint, told *startedRuns,
	got map[string]*engine.Completion) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.die = cancel
	calls := s.calls
	s.calls = nil
	var again []*engine.Request
	for _, r := range missing(requests, got) {
		if runs := told.runs[fmt.Sprintf("%s/%d", r.ID, r.FirstGeneration)]; runs != nil {
			r.Weights = runs
			again = append(again, r)
		}
	}
	run := func(all iter.Seq2[*engine.Completion, error]) bool {
		for c, err := range all {
			if errors.Is(err, context.Canceled) {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
			got[fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)] = c
		}
		return true
	}
	if !run(s.engine.Replay(ctx, slices.Values(again), opener(versions))) {
		return false
	}
	s.mu.Lock()
	s.done, s.calls = 0, calls
	s.mu.Unlock()
	var rest []*engine.Request
	for _, r := range missing(requests, got) {
		rest = append(rest, told.of(r))
	}
	return run(s.engine.Run(ctx, slices.Values(rest)))
}

// Whatever the calls at which the weights are replaced and processes are killed, a completion is what the versions that
// it names generate, run by hand; with finish and restart it has one. What was under way at a kill keeps its versions.
// Each row of a job has a version, and no program is compiled.
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
	processes := [2]*engine.Engine{engineOf(t, versions[0], cfg), engineOf(t, versions[0], cfg)} // in turns
	slow := contractConfig()
	slow.Debug, slow.NoPrefixCache = false, true
	reference, err := engine.NewByHand(engineOf(t, versions[0], slow), versions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reference.Close)
	known := map[string]*engine.Completion{}
	for _, e := range processes {
		collect(t, e, contractRequests()...) // compiles what is compiled later
	}
	collect(t, reference.Engine, contractRequests()[0])
	preempted, kills, kept, compiled := 0, 0, 0, testenv.XLA(t).Compiles()
	seen := map[engine.Policy]map[int]int{engine.Finish: {}, engine.Restart: {}, engine.Continue: {}}
	schedule := func(rt *rapid.T) {
		policy := rapid.SampledFrom([]engine.Policy{engine.Finish, engine.Restart, engine.Continue}).Draw(rt, "policy")
		pool := versions[:rapid.SampledFrom([]int{2, 5}).Draw(rt, "versions")]
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
		told, got := &startedRuns{runs: map[string][]engine.WeightsRun{}}, map[string]*engine.Completion{}
		noted := map[string][]engine.WeightsRun{} // of what was under way at a kill
		for i, died := 0, true; died; i++ {
			calls := rapid.SliceOfN(rapid.IntRange(1, 14), 1, 4).Draw(rt, "calls")
			slices.Sort(calls)
			s := &swapping{engine: processes[i%2], versions: slices.Concat(pool[1:], pool[:1]), calls: calls,
				policy: policy}
			if i < 3 {
				s.kill = rapid.IntRange(0, 20).Draw(rt, "kill")
			}
			now = s
			died = !s.process(t, requests, versions, told, got)
			now = nil
			s.asked.Wait()
			preempted += s.engine.Stats().Preemptions
			if s.err != nil {
				rt.Fatal(s.err)
			}
			if died {
				kills++
				for key, runs := range told.runs {
					if got[key] == nil {
						noted[key] = slices.Clone(runs)
					}
				}
			}
		}
		kept += len(noted)
		if left := missing(requests, got); len(left) > 0 {
			rt.Fatalf("%s: %d completions are missing", policy, len(left))
		}
		for key, c := range got {
			runs := c.Weights
			if len(runs) == 0 || runs[0].First != 0 || policy != engine.Continue && len(runs) > 1 {
				rt.Fatalf("%s: %s has the weights %v", policy, key, runs)
			}
			if had := noted[key]; had != nil && !slices.Equal(had, runs) {
				rt.Fatalf("%s: %s had the weights %v at a kill, and has %v", policy, key, had, runs)
			}
			seen[policy][len(runs)]++
			which := fmt.Sprint(key, runs)
			if known[which] == nil {
				plain := *c.Request
				plain.Weights, plain.Started = nil, nil
				if known[which], err = reference.Complete(&plain, c.Generation, runs); err != nil {
					rt.Fatal(err)
				}
			}
			sameBytes(t, map[string]*engine.Completion{key: known[which]}, map[string]*engine.Completion{key: c}, true)
		}
		if t.Failed() {
			rt.Fatalf("%s of %d versions", policy, len(pool))
		}
	}
	rapid.Check(t, schedule)
	if !testing.Short() {
		rapid.Check(t, schedule) // 200 schedules in all
	}
	if n := testenv.XLA(t).Compiles(); n != compiled {
		t.Errorf("%d programs were compiled", n-compiled)
	}
	t.Logf("completions by policy and number of versions: %v, of them different: %d; swapped out %d times; %d kills "+
		"with %d completions under way", seen, len(known), preempted, kills, kept)
	mixed := seen[engine.Continue][2] > 0 || testing.Short() // few schedules may have none
	if !mixed || seen[engine.Finish][1] == 0 || seen[engine.Restart][1] == 0 || kills == 0 || kept == 0 {
		t.Errorf("too little happened: %v", seen)
	}
}
