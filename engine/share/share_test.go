package share_test

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/share"
)

// Replicas that end before the last one wait for the rest of the time.
func TestSumOfStats(t *testing.T) {
	sum := share.SumStats([]schedule.Stats{{WallSeconds: 10, DeviceSeconds: 9, HostSeconds: 1},
		{WallSeconds: 4, DeviceSeconds: 3, HostSeconds: 1}})
	if sum.WallSeconds != 10 || sum.DeviceSeconds != 6 || sum.HostSeconds != 4 {
		t.Errorf("%+v", sum)
	}
}

// all is a sampler that begins to generate when it has all its requests.
type all struct{ share.Sampler }

func (all) Run(_ context.Context, requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion, error] {
	return func(yield func(*admit.Completion, error) bool) {
		for _, r := range slices.Collect(requests) {
			if !yield(&admit.Completion{Request: r}, nil) {
				return
			}
		}
	}
}

// The sampler that has most to do learns, too, that no more requests come.
func TestLastRequest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range 4 {
		requests := make([]*admit.Request, n)
		for i := range requests {
			requests[i] = &admit.Request{N: 1 + i}
		}
		got := 0
		for _, err := range (share.Group[all]{{}, {}}).Run(ctx, slices.Values(requests)) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if got != n || ctx.Err() != nil {
			t.Fatalf("%d completions of %d requests, %v", got, n, ctx.Err())
		}
	}
}
