package plan

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/fakeplugin"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// limited is the processor as an accelerator with so many bytes of memory.
func limited(t *testing.T, cache string, memory int64) *xla.Backend {
	t.Helper()
	real, err := setup.FindPlugin("cpu")
	if err != nil {
		t.Skip(`the CPU plugin is not installed ("sample setup" fetches it)`)
	}
	b, err := xla.New(xla.Options{CacheDir: cache,
		Plugin: fakeplugin.New(t, "real="+real, "platform=fake", fmt.Sprintf("memory=%d", memory))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// smallPool is an engine with pages for a part of its sequences.
func smallPool(t *testing.T) engine.Config {
	return engine.Config{Model: testenv.Model(t, "smollm2-like"), DType: dtypes.Float32, MaxSeqs: 8, PageSize: 16,
		PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, KVMemory: 22 * 16 * 2 * 2 * 3 * 8 * 4}
}

// planned plans the engine on a device.
func planned(t *testing.T, c engine.Config, b *xla.Backend) *Report {
	t.Helper()
	p, err := New(c, []compute.Backend{b}, 1, Options{Trials: 6,
		Note: func(format string, args ...any) { t.Logf(format, args...) }})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// swaps runs a job twice, each time on an engine of its own, and returns how many sequences it moved.
func swaps(t *testing.T, c engine.Config) (moved int, err error) {
	t.Helper()
	var requests []*engine.Request
	for i := range 16 {
		requests = append(requests, &engine.Request{ID: fmt.Sprint(i), Tokens: slices.Repeat([]int32{int32(i)}, 20),
			N: 1, MaxTokens: 100, Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true})
	}
	for range 2 {
		e, err := engine.New(t.Context(), c)
		if err != nil {
			return moved, err
		}
		defer e.Close()
		ended := 0
		for done, err := range e.Run(t.Context(), slices.Values(requests)) {
			if err != nil {
				return moved, err
			}
			if done.Err != nil {
				return moved, done.Err
			}
			ended++
		}
		if ended != len(requests) {
			t.Errorf("%d of %d requests ended", ended, len(requests))
		}
		moved += e.Stats().Preemptions
		e.Close()
	}
	return moved, nil
}

// On a device of exactly the bytes of the plan a job swaps, ends, and is run again. With less memory than the blocks on
// their way take, it fails: the plan counts nothing that is not needed.
func TestPlannedMemoryHolds(t *testing.T) {
	testenv.Slow(t)
	c, cache := smallPool(t), t.TempDir()
	r := planned(t, c, limited(t, cache, 1<<30))
	sum := r.Weights + r.KV + r.Tables + r.Temporary + r.Code + r.Staging + r.LaterFeatures + r.Rest
	if sum != r.Total || r.Staging == 0 || r.Rest < 0 {
		t.Errorf("the parts are %d bytes: %+v", sum, r)
	}
	c.Backend = limited(t, cache, r.Total-r.LaterFeatures)
	moved, err := swaps(t, c)
	if err != nil {
		t.Errorf("on a device of the planned %d bytes: %v", r.Total, err)
	}
	if moved == 0 {
		t.Error("no sequence was moved: the test does not reach what it is for")
	}
	c.Backend = limited(t, cache, r.Total-r.LaterFeatures-r.Staging)
	var oom *xla.OutOfMemoryError
	if _, err := swaps(t, c); !errors.As(err, &oom) {
		t.Errorf("without room for blocks on their way: %v", err)
	}
}

// So does the memory that the search finds, and the engine's own default.
func TestFoundMemoryHolds(t *testing.T) {
	testenv.Slow(t)
	c, cache := smallPool(t), t.TempDir()
	device := planned(t, c, limited(t, cache, 1<<30)).Total
	c.KVMemory = 0
	r := planned(t, c, limited(t, cache, device))
	if r.Total > device || r.Pages < r.Plan.PagesPerSeq {
		t.Errorf("on a device of %d bytes %d are planned, with %d pages", device, r.Total, r.Pages)
	}
	c.Backend = limited(t, cache, r.Total)
	c.KVMemory = r.KV
	if _, err := swaps(t, c); err != nil {
		t.Errorf("on a device of the planned %d bytes: %v", r.Total, err)
	}
	const large = 1 << 30
	c.Backend, c.KVMemory, c.MaxSeqs = limited(t, cache, large), 0, 0
	moved, err := swaps(t, c)
	if err != nil {
		t.Errorf("by default on a device of %d bytes: %v", large, err)
	}
	t.Logf("by default %d sequences were moved", moved)
}
