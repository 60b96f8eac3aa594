package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models/decoder"
)

func looped(c *engine.Config) { c.Layers = engine.LayersLoop }

// Layers in a loop draw what layers one after the other draw, bit for bit: with biases, norms of queries and keys,
// windows.
func TestLayerLoopDrawsTheSame(t *testing.T) {
	for _, family := range []string{contractFamily, "llama-bias", "qwen3", "mistral", "olmo2", "mixtral", "phi3",
		"granite", "granite4-dense", "glm4", "stablelm", "starcoder2", "olmoe", "granite-moe-shared"} {
		t.Run(family, func(t *testing.T) {
			if family != contractFamily {
				testenv.Slow(t)
			}
			cfg := engine.Config{MaxSeqs: 8, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8,
				StopStates: 256, Debug: true}
			want := collect(t, sharedEngine(t, family, cfg), contractRequests()...)
			looped(&cfg)
			e := newEngine(t, family, cfg)
			sameBytes(t, want, collect(t, e, contractRequests()...), true)
			if p := e.Plan(); p.Layers != engine.LayersLoop {
				t.Errorf("the plan says %q", p.Layers)
			}
		})
	}
}

// What becomes of pages is the same too: moved to the host and back, cleared, copied for clones and contexts, saved by
// one form for the other.
func TestPagesOfTheLayerLoop(t *testing.T) {
	testenv.Slow(t)
	want := wantOfContract(t)
	small := func(c *engine.Config) { // 16 pages
		looped(c)
		c.KVMemory, c.HostKVMemory, c.Admission, c.Contexts, c.ZeroPages = 16*16*2*2*3*8*4, 64<<20, engine.Overcommit,
			4, true
	}
	e := contractEngine(t, small)
	sameBytes(t, collect(t, contractEngine(t, nil), longRequests(12)...), collectInOrder(t, e, longRequests(12)...),
		true)
	if e.Stats().Preemptions == 0 {
		t.Error("no sequence was moved: the test does not reach what it is for")
	}
	r := contractRequests()[13]
	var file bytes.Buffer
	sameBytes(t, want, collect(t, e, contractRequests()...), true)
	if n, err := e.SavePrefix(context.Background(), r.Tokens, &file); err != nil || n != 96 {
		t.Fatalf("saved %d tokens: %v", n, err)
	}
	c, err := e.NewContext()
	if err == nil {
		err = c.Append(r.Tokens[:60]...)
	}
	if err != nil {
		t.Fatal(err)
	}
	rest := *r
	rest.Tokens = r.Tokens[60:]
	completions, err := c.Generate(t.Context(), &rest)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*engine.Completion{}
	for _, d := range completions {
		got[fmt.Sprintf("%s/%d", d.Request.ID, d.Generation)] = d
	}
	sameBytes(t, want, got, false)

	unrolled := contractEngine(t, func(c *engine.Config) { c.HostKVMemory = 64 << 20 })
	if _, err := unrolled.LoadPrefix(bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	sameBytes(t, want, collect(t, unrolled, r), false)
	if hit := unrolled.Stats().HitTokens; hit < 96 {
		t.Errorf("%d tokens were taken over from the snapshot", hit)
	}
}

// Devices together run the loop too, with 8-bit matrices and their scales.
func TestLayerLoopOfDevicesTogether(t *testing.T) {
	testenv.Slow(t)
	eights := func(c *engine.Config) { c.Backend, c.Weights = testenv.Group(t, xla.KernelsAuto, 0, 1), "int8" }
	want := collect(t, contractEngine(t, eights), contractRequests()...)
	sameBytes(t, want, collect(t, contractEngine(t, func(c *engine.Config) { eights(c); looped(c) }),
		contractRequests()...), true)
	// Norms of queries and keys over the heads of all devices, some of which have the same KV head.
	cfg := engine.Config{MaxSeqs: 8, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, StopStates: 256}
	alone := collect(t, sharedEngine(t, "olmo2", cfg), contractRequests()...)
	cfg.Backend = testenv.Group(t, xla.KernelsAuto, firstDevices(4)...)
	looped(&cfg)
	sameTokens(t, alone, collect(t, newEngine(t, "olmo2", cfg), contractRequests()...))
}

func TestLayersThatAreNoLoop(t *testing.T) {
	for _, family := range []string{"smollm3", "qwen2-sliding", "gemma2", "gemma3", "gemma4", "gemma4-large",
		"gemma4-moe", "granite4", "deepseek-v3"} {
		_, err := engine.Config{Model: testenv.Model(t, family), Backend: testenv.XLA(t),
			Layers: engine.LayersLoop}.Plan()
		if !errors.Is(err, decoder.ErrLayersDiffer) || !strings.Contains(err.Error(), "use layers unrolled") {
			t.Errorf("%s: %v", family, err)
		}
	}
	for _, c := range []engine.Config{{Layers: engine.LayersLoop, KV: "basic"}, {Layers: "folded"}} {
		c.Model, c.Backend = testenv.Model(t, contractFamily), testenv.XLA(t)
		if _, err := c.Plan(); err == nil || !strings.Contains(err.Error(), "layers is") {
			t.Errorf("%s, %s: %v", c.Layers, c.KV, err)
		}
	}
}
