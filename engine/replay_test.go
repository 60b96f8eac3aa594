package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/models"
)

// startedRuns keeps what requests tell of the versions that generate their completions.
type startedRuns struct {
	mu   sync.Mutex
	runs map[string][]engine.WeightsRun
}

func (b *startedRuns) of(r *engine.Request) *engine.Request {
	r.Started = func(generation, first int, version string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		key := fmt.Sprintf("%s/%d", r.ID, generation)
		b.runs[key] = engine.WithRun(b.runs[key], first, version)
	}
	return r
}

// opener opens versions by their fingerprints.
func opener(versions []*models.Checkpoint) engine.OpenVersion {
	return func(_ context.Context, version string) (*models.Checkpoint, error) {
		i := slices.IndexFunc(versions, func(c *models.Checkpoint) bool { return c.FingerPrint() == version })
		if i < 0 {
			return nil, fmt.Errorf("there is no version %s", version)
		}
		return versions[i], nil
	}
}

// Requests are told the versions of their completions before these generate, and completions that are generated again
// with these versions have the same bytes, in any order, with a pool that is too small for all.
func TestWeightsReplayed(t *testing.T) {
	versions := versionsOf(t, 5)
	var now *swapping // of the run under way
	cfg := contractConfig()
	cfg.KVMemory = smallPool
	again := engineOf(t, versions[0], cfg)
	cfg.Observe = func(c engine.Call) {
		if now != nil {
			now.observe(c)
		}
	}
	e := engineOf(t, versions[0], cfg)
	collect(t, e, contractRequests()...) // compiles what is compiled later
	several := 0
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]engine.Policy{engine.Continue, engine.Continue, engine.Finish,
			engine.Restart}).Draw(rt, "policy")
		calls := rapid.SliceOfN(rapid.IntRange(1, 14), 1, 4).Draw(rt, "calls")
		slices.Sort(calls)
		s := &swapping{engine: e, versions: slices.Clone(versions[1:]), calls: calls, policy: policy}
		now = s
		share := 3
		if testing.Short() {
			share = 9
		}
		which := rapid.IntRange(0, share-1).Draw(rt, "rows")
		told := &startedRuns{runs: map[string][]engine.WeightsRun{}}
		var requests []*engine.Request
		for i, r := range contractRequests() {
			if i%share == which {
				requests = append(requests, told.of(r))
			}
		}
		got := collect(t, e, requests...)
		now = nil
		s.asked.Wait()
		if s.err != nil {
			rt.Fatal(s.err)
		}
		var replayed []*engine.Request
		for _, key := range slices.Sorted(maps.Keys(got)) {
			c := got[key]
			if !slices.Equal(told.runs[key], c.Weights) {
				rt.Fatalf("%s: %s was told %v, and has %v", policy, key, told.runs[key], c.Weights)
			}
			if len(c.Weights) > 1 {
				several++
			}
			one := *c.Request
			one.FirstGeneration, one.N, one.Weights, one.Started = c.Generation, 1, c.Weights, nil
			replayed = append(replayed, &one)
		}
		replayed = rapid.Permutation(replayed).Draw(rt, "order")
		have := map[string]*engine.Completion{}
		for c, err := range again.Replay(t.Context(), slices.Values(replayed), opener(versions)) {
			if err != nil {
				rt.Fatal(err)
			}
			key := fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)
			if have[key] = c; !slices.Equal(c.Weights, c.Request.Weights) {
				rt.Fatalf("%s: %s has the versions %v, want %v", policy, key, c.Weights, c.Request.Weights)
			}
		}
		if sameBytes(t, got, have, true); t.Failed() {
			rt.Fatalf("%s, replaced after calls %v: %+v", policy, calls, s.all)
		}
	})
	if several == 0 {
		t.Error("no completion had several versions")
	}
}

// A version that cannot be opened ends the replay, and an engine that cannot stop completions at any token refuses
// those of several versions.
func TestReplayThatCannotBe(t *testing.T) {
	versions := versionsOf(t, 2)
	cfg := contractConfig()
	cfg.SwapWeights = true
	e := engineOf(t, versions[0], cfg)
	request := func(runs ...engine.WeightsRun) *engine.Request {
		r := sampled("a", contractRequests()[3].Tokens, 1, 10, 1)
		r.Weights = runs
		return r
	}
	first := engine.WeightsRun{Version: versions[0].FingerPrint()}
	replay := func(e *engine.Engine, r *engine.Request) (err error) {
		for c, failed := range e.Replay(t.Context(), slices.Values([]*engine.Request{r}), opener(versions[:1])) {
			if err = failed; failed == nil {
				err = c.Err
			}
		}
		return err
	}
	if err := replay(e, request(first, engine.WeightsRun{First: 4, Version: "none"})); err == nil ||
		err.Error() != "there is no version none" {
		t.Error(err)
	}
	if err := replay(e, request(first)); err != nil {
		t.Error(err)
	}
	cfg.Speculate = 2
	drafting := engineOf(t, versions[0], cfg)
	if err := replay(drafting, request(first)); err != nil {
		t.Error(err)
	}
	second := engine.WeightsRun{First: 4, Version: versions[1].FingerPrint()}
	if err := replay(drafting, request(first, second)); !errors.Is(err, engine.ErrSeveralVersions) {
		t.Error(err)
	}
}
