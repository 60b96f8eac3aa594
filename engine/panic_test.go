package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
)

// A caller that panics while it takes completions, and recovers, finds an engine that has come to rest.
func TestPanicInTheLoopOverRun(t *testing.T) {
	e := contractEngine(t, nil)
	requests := contractRequests()
	want := collect(t, e, requests...)
	func() {
		defer func() { _ = recover() }()
		for range e.Run(t.Context(), slices.Values(requests)) {
			panic("the caller's")
		}
		t.Error("nothing was drawn")
	}()
	sameBytes(t, want, collect(t, e, requests...), true)
}

// Who gives requests may wait for completions: a run that ends early says so before it waits for the next request.
func TestRunEndsWhileRequestsWait(t *testing.T) {
	e := contractEngine(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	requests := func(yield func(*engine.Request) bool) {
		if yield(contractRequests()[0]) {
			cancel()
			<-ended
		}
	}
	var got error
	for _, err := range e.Run(ctx, requests) {
		if err != nil {
			got = err
			close(ended)
		}
	}
	if !errors.Is(got, context.Canceled) {
		t.Errorf("the run ended with %v", got)
	}
}
