package engine_test

import (
	"slices"
	"testing"
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
