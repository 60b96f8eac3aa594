package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/internal/testenv"
)

// What a context held is gone with the device state: it says so, and others can be opened.
func TestContextsAreLostWithTheState(t *testing.T) {
	e, err := New(context.Background(), Config{Model: testenv.Model(t, "smollm2-like"), Backend: testenv.XLA(t),
		MaxSeqs: 64, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, KVMemory: 64 << 20, Contexts: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	begin := func() *contexts.Context {
		c, err := e.Contexts().Open()
		if err == nil {
			err = errors.Join(c.Append(1, 2, 3), c.Reserve(3), c.Flush(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	lost := begin()
	_ = e.contexts.End(true) // as after a run that failed
	if err := lost.Flush(t.Context()); !errors.Is(err, contexts.ErrContextLost) {
		t.Error(err)
	}
	if free := e.Contexts().FreePages(); free != e.plan.Pages {
		t.Errorf("%d pages of %d are free", free, e.plan.Pages)
	}
	kept := begin()
	for c, err := range e.Run(t.Context(), slices.Values([]*Request{{N: 1, MaxTokens: 1, Context: lost}})) {
		if err != nil || !errors.Is(c.Err, contexts.ErrContextLost) {
			t.Error(err, c)
		}
	}
	if err := errors.Join(lost.Close(), kept.Close()); err != nil || e.Contexts().FreePages() != e.plan.Pages {
		t.Errorf("%v, %d pages of %d are free", err, e.Contexts().FreePages(), e.plan.Pages)
	}
	kept = begin()
	e.Close()
	if err := errors.Join(kept.Append(1), kept.Close()); !errors.Is(err, contexts.ErrClosed) {
		t.Error(err)
	}
}
