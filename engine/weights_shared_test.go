package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

func swap(t testing.TB, e *engine.Engine, to *models.Checkpoint) engine.Swapped {
	t.Helper()
	swapped, err := e.Swap(context.Background(), to, engine.Finish)
	if err != nil {
		t.Fatal(err)
	}
	return swapped
}

// Nothing that earlier weights computed serves requests after they were replaced: not pages of prompts and completions,
// on the device or on the host, nor pinned prefixes, nor scores. Back at the first version it is the same.
func TestNothingOfEarlierWeightsIsShared(t *testing.T) {
	versions := versionsOf(t, 2)
	cfg := contractConfig()
	cfg.HostKVMemory = 1 << 20
	e := engineOf(t, versions[0], cfg)
	prompt := contractRequests()[13].Tokens
	request := func() *engine.Request {
		r := sampled("a", prompt, 2, 20, 1)
		r.ScorePrompt, r.PromptTopLogprobs = true, 1
		return r
	}
	want := []map[string]*engine.Completion{collect(t, e, request()),
		collect(t, engineOf(t, versions[1], cfg), request())}
	if _, err := e.PinPrefix(t.Context(), prompt); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		version := (i + 1) % 2
		swap(t, e, versions[version])
		for range 2 { // the second time it shares its own
			sameBytes(t, want[version], collect(t, e, request()), true)
		}
		if err := e.UnpinPrefix(prompt); !errors.Is(err, engine.ErrNotPinned) {
			t.Errorf("a prefix of earlier weights is pinned: %v", err)
		}
	}
}

// Contexts keep their keys and values: what follows them is what follows in an engine whose programs were just given
// other weights. Requests with the same tokens that do not begin with the context share nothing with it.
func TestContextsKeepWhatEarlierWeightsComputed(t *testing.T) {
	versions := versionsOf(t, 2)
	cfg := contractConfig()
	cfg.Contexts, cfg.HostKVMemory, cfg.KVMemory = 8, 1<<20, pagesOf(contextPages)
	prompt := contractRequests()[13].Tokens
	ask := func(e *engine.Engine, replace func()) (all []map[string]*engine.Completion) {
		t.Helper()
		c := open(t, e, prompt[:40]...)
		if err := c.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		replace()
		begins := func() *engine.Request {
			r := sampled("a", prompt[40:], 2, 20, 1)
			r.Context = c
			return r
		}
		alone := sampled("a", prompt, 2, 20, 1)
		all = append(all, collect(t, e, begins()), collect(t, e, alone), collect(t, e, begins()))
		forked := fork(t, c)
		if err := errors.Join(forked.Append(prompt[40:80]...), forked.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		after := sampled("b", prompt[80:], 1, 20, 1)
		after.Context = forked
		return append(all, collect(t, e, after), collect(t, e, alone))
	}
	e := engineOf(t, versions[0], cfg)
	got := ask(e, func() { swap(t, e, versions[1]) })
	cfg.NoPrefixCache = true
	hand, err := engine.NewByHand(engineOf(t, versions[0], cfg), versions...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hand.Close)
	want := ask(hand.Engine, func() { hand.Take(versions[1]) })
	for i := range want {
		sameBytes(t, want[i], got[i], true)
	}
	sameBytes(t, collect(t, engineOf(t, versions[1], cfg), sampled("a", prompt, 2, 20, 1)), got[1], true)
}

// A checkpoint that shares tensors with the running one has only its other arrays loaded.
func TestPartOfTheWeights(t *testing.T) {
	versions := versionsOf(t, 2)
	cfg := contractConfig()
	e := engineOf(t, versions[0], cfg)
	whole := swap(t, e, versions[1])
	r := contractRequests()[10:12]
	want := collect(t, e, r...)
	part := swap(t, e, versions[0].Over(versions[1])) // all of one, over the other
	if part.Arrays != whole.Arrays || part.Bytes != whole.Bytes {
		t.Errorf("%+v and %+v", part, whole)
	}
	if none := swap(t, e, versions[0]); none.Arrays != 0 || none.Bytes != 0 {
		t.Errorf("the same tensors were loaded again: %+v", none)
	}
	swap(t, e, versions[1])
	sameBytes(t, want, collect(t, e, r...), true)
}

// crowded is a backend with little free memory.
type crowded struct {
	*xla.Backend
	free int64
}

func (c *crowded) FreeMemory(compute.DeviceNum) (int64, error) { return c.free, nil }

func TestWeightsThatDoNotFit(t *testing.T) {
	versions := versionsOf(t, 2)
	cfg := contractConfig()
	backend := &crowded{testenv.XLA(t), 1 << 30}
	cfg.Backend = backend
	e := engineOf(t, versions[0], cfg)
	r := contractRequests()[10]
	want := collect(t, e, r)
	backend.free = 1000
	_, err := e.Swap(t.Context(), versions[1], engine.Finish)
	if !errors.Is(err, engine.ErrNoMemoryForWeights) || !strings.Contains(err.Error(), "and 1000 are free") {
		t.Error(err)
	}
	other := models.Dummy(testenv.Model(t, "qwen3").Config, 1)
	if _, err = e.Swap(t.Context(), other, engine.Finish); err == nil ||
		!strings.Contains(err.Error(), "it is another model") {
		t.Error(err)
	}
	backend.free = 1 << 30
	if _, err = e.Swap(t.Context(), versions[1], "never"); err == nil || !strings.Contains(err.Error(), "never") {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = e.Swap(ended, versions[1], engine.Finish); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	sameBytes(t, want, collect(t, e, r), true)
}
