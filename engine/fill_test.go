package engine_test

import (
	"fmt"
	"testing"

	"github.com/quire/quire/engine"
)

// The last requests get slots as soon as there is one for each of them. Slots are filled several at a time only where
// as many requests wait: here one waits and one slot becomes free early.
func TestLastRequestsWaitForNoOthers(t *testing.T) {
	const slots = 32
	e := newEngine(t, contractFamily, engine.Config{MaxSeqs: slots, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160,
		MaxRounds: 8})
	requests := []*engine.Request{greedy("short", []int32{1, 2, 3}, 4)}
	for i := range slots {
		requests = append(requests, greedy(fmt.Sprint(i), []int32{1, 2, int32(i)}, 40))
	}
	collectInOrder(t, e, requests...)
	if n := e.Stats().DecodeSteps; n < 40 || n > 60 {
		t.Errorf("%d decode steps, want about 44: the last request waited for the others", n)
	}
}
