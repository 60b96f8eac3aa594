package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

func replicas(t *testing.T, groups ...[]int) *engine.Replicas {
	t.Helper()
	var backends []compute.Backend
	for _, devices := range groups {
		backends = append(backends, testenv.Group(t, xla.KernelsAuto, devices...))
	}
	cfg := engine.Config{Model: testenv.Model(t, contractFamily), MaxSeqs: 8, PageSize: 16, PrefillTokens: 64,
		MaxModelLen: 160, MaxRounds: 8, Debug: true, KVMemory: 8 << 20, StopStates: 256}
	r, err := engine.NewReplicas(t.Context(), cfg, backends)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func collectReplicas(t *testing.T, r *engine.Replicas, requests ...*engine.Request) map[string]*engine.Completion {
	t.Helper()
	got := map[string]*engine.Completion{}
	for c, err := range r.Run(context.Background(), slices.Values(requests)) {
		if err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)] = c
	}
	return got
}

// Replicas with one queue draw, together, what one engine draws, byte for byte; all of them take part.
func TestReplicasDrawTheSame(t *testing.T) {
	want := wantOfContract(t)
	r := replicas(t, []int{0}, []int{5})
	for range 2 {
		sameBytes(t, want, collectReplicas(t, r, contractRequests()...), true)
		sum := 0
		for i, e := range r.Engines() {
			s := e.Stats()
			if s.GeneratedTokens == 0 {
				t.Errorf("replica %d drew nothing", i)
			}
			sum += s.GeneratedTokens
		}
		if s := r.Stats(); s.GeneratedTokens != sum || s.Pages != 2*r.Plan().Pages || s.WallSeconds <= 0 ||
			s.FirstTokenSeconds <= 0 {
			t.Errorf("%d tokens in all, %d added up: %+v", s.GeneratedTokens, sum, s)
		}
	}
	if p := r.Plan(); p.Replicas != 2 || p.Devices != 1 {
		t.Errorf("%d replicas of %d devices", p.Replicas, p.Devices)
	}
}

// So do replicas of several devices each.
func TestReplicasOfDevicesTogether(t *testing.T) {
	testenv.Slow(t)
	want := collect(t, together(t, nil), contractRequests()...)
	sameBytes(t, want, collectReplicas(t, replicas(t, []int{0, 1}, []int{2, 3}), contractRequests()...), true)
}

// A consumer that has enough ends the run of all; a cancelled run ends with its error, once.
func TestReplicasStop(t *testing.T) {
	r := replicas(t, []int{0}, []int{5})
	for range r.Run(context.Background(), slices.Values(contractRequests())) {
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	failures := 0
	for c, err := range r.Run(ctx, slices.Values(contractRequests())) {
		if c != nil {
			cancel()
		}
		if err != nil {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("a cancelled run has %d errors", failures)
	}
	cancel()
	if got := collectReplicas(t, r, contractRequests()...); len(got) == 0 {
		t.Error("the replicas draw nothing any more")
	}
}

// A request that is refused counts for none, however many completions it asked for.
func TestReplicasRefuse(t *testing.T) {
	r := replicas(t, []int{0}, []int{5})
	refused := sampled("refused", nil, 4, 3, 1)
	drawn := make(chan struct{}, 9)
	requests := func(yield func(*engine.Request) bool) {
		// Nothing comes behind what is drawn already: a replica that is thought to have some left would wait for the
		// other for ever.
		if yield(refused) && yield(sampled("a", []int32{1, 2, 3}, 4, 3, 1)) &&
			yield(sampled("b", []int32{4, 5, 6}, 4, 3, 1)) {
			for range cap(drawn) {
				<-drawn
			}
		}
	}
	var got []*engine.Completion
	done := make(chan error, 1)
	go func() {
		for c, err := range r.Run(context.Background(), requests) {
			if err != nil {
				done <- err
				return
			}
			got = append(got, c)
			drawn <- struct{}{}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil || len(got) != 9 ||
			!slices.ContainsFunc(got, func(c *engine.Completion) bool {
				return errors.Is(c.Err, engine.ErrEmptyPrompt)
			}) {
			t.Errorf("%d completions, %v", len(got), err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the replicas wait for each other")
	}
}
