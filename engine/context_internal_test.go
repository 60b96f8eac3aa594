package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/engine/contexts"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
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

// The keys and values of a context are those that a contiguous cache has of the same tokens, bit for bit, whatever was
// forked and cut on the way.
func TestMaterialize(t *testing.T) {
	model := testenv.Model(t, "smollm2-like")
	model.Config.MaxPositions = 1024
	cfg := Config{Model: model, Backend: testenv.XLA(t), DType: dtypes.Float32, MaxSeqs: 8,
		PageSize: 16, PrefillTokens: 64, MaxModelLen: 1024, MaxRounds: 8, KVMemory: 8 << 20}
	basic := cfg
	basic.KV = "basic"
	cfg.Contexts = 8
	engines := map[string]*Engine{}
	for _, of := range []Config{basic, cfg} {
		e, err := New(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		engines[of.KV] = e
	}
	tokens := make([]int32, 1000) // four blocks of pages
	for i := range tokens {
		tokens[i] = int32(i*37) % 256
	}
	plain, e := engines["basic"], engines[""]
	for c, err := range plain.Run(t.Context(), slices.Values([]*Request{{Tokens: tokens, N: 1, MaxTokens: 1,
		Sampling: sampling.Settings{TopP: 1}}})) {
		if err := errors.Join(err, c.Err); err != nil {
			t.Fatal(err)
		}
	}
	parent, err := e.Contexts().Open()
	if err == nil {
		err = parent.Append(tokens[:50]...)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close() // a context that nothing refers to would give up its pages
	c, err := parent.Fork(t.Context())
	if err == nil {
		err = errors.Join(c.Append(9, 9, 9, 9, 9), c.Flush(t.Context()), c.TruncateCommitted(8),
			c.Append(tokens[47:]...), c.Flush(t.Context()), c.Append(1)) // the last one waits
	}
	if err != nil {
		t.Fatal(err)
	}
	// Of the shared pages the third was cut, run again, and is equal again.
	if got, want := c.Counts(), (contexts.PageCounts{Committed: 62, Working: 1, WorkingTokens: 8, Waiting: 1,
		Shared: 3}); got != want {
		t.Errorf("the context has %+v, want %+v", got, want)
	}
	for layer, layout := range plain.core.Settled.Sizes.Layouts {
		wantKeys, wantValues, err := attention.Dense(layout, plain.cache(t, layer), len(tokens))
		if err != nil {
			t.Fatal(err)
		}
		keys, values, err := c.Materialize(layer)
		if err != nil || !slices.Equal(keys, wantKeys) || !slices.Equal(values, wantValues) {
			t.Errorf("layer %d: %v, keys %v\nand values %v\nwant %v\nand %v", layer, err, keys, values, wantKeys,
				wantValues)
		}
		if slices.Equal(keys, values) || slices.Equal(keys[:len(keys)/2], keys[len(keys)/2:]) {
			t.Errorf("layer %d has keys %v and values %v", layer, keys, values)
		}
	}
	for _, layer := range []int{-1, e.core.Settled.Model.NumLayers} {
		if _, _, err := c.Materialize(layer); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("layer %d: %v", layer, err)
		}
	}
}

// cache copies a layer's cache to the host.
func (e *Engine) cache(t *testing.T, layer int) []float32 {
	t.Helper()
	state, _ := e.core.State()
	for i, l := range e.core.Program(device.Init).State {
		if l.InTables() {
			continue
		}
		if layer > 0 {
			layer--
			continue
		}
		flat := make([]float32, l.Shape.Size())
		if err := state[i].ToFlatData(flat); err != nil {
			t.Fatal(err)
		}
		return flat
	}
	t.Fatalf("there are too few caches")
	return nil
}
