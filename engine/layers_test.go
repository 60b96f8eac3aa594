package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

func looped(c *engine.Config) { c.Layers = engine.LayersLoop }

// inTurns are families whose layers differ: the layers of their tiny checkpoints that a model has one behind the other,
// which are all of it where there are none, and how many of them a program has as a loop.
var inTurns = []struct {
	family string
	layers []int
	bodies int
}{
	{"smollm3", nil, 2}, {"qwen2-sliding", nil, 2}, {"gemma3", nil, 3}, {"olmo3", nil, 2}, {"gemma4-large", nil, 2},
	{"gemma4-moe", []int{1, 2, 1, 2, 1}, 3}, {"gemma2", []int{0, 1, 0, 1, 0}, 3}, {"gpt-oss", []int{0, 1, 0, 1}, 2},
	{"ministral", []int{1, 0, 1, 0, 1}, 3}, {"qwen3-moe", []int{1, 0, 0, 0}, 2}, {"glm4-moe", nil, 2},
	{"deepseek-v2", nil, 2}, {"deepseek-v2-lite", nil, 2}, {"deepseek-v3", nil, 2}, {"qwen35", nil, 2},
	{"lfm2", nil, 3}, {"granite4", nil, 3}, {"granite4-moe", []int{0, 1, 0, 1}, 2}, {"qwen35-moe", nil, 2},
	{"qwen3-next", []int{0, 1, 2, 2, 3, 2, 2, 3}, 5}, {"lfm2-moe", []int{0, 2, 3, 2, 3}, 3},
}

// modelOfLayers is a tiny checkpoint, or one of random weights that has its layers in another order.
func modelOfLayers(t *testing.T, family string, layers []int) *models.Checkpoint {
	t.Helper()
	ckpt := testenv.Model(t, family)
	if layers == nil {
		return ckpt
	}
	cfg := ckpt.Config
	cfg.NumLayers, cfg.Layers = len(layers), nil
	for i, from := range layers {
		layer := ckpt.Config.Layers[from]
		layer.KVFrom = i
		cfg.Layers = append(cfg.Layers, layer)
	}
	return models.Dummy(cfg, 1)
}

// Layers in a loop draw what layers one after the other draw, bit for bit: with biases, norms of queries and keys,
// windows; and where several take turns, with windows, heads of other sizes, states, latents, or experts in some. Of
// Gemma 4, whose layers are scaled, the tokens are the same: XLA joins the scale with a sum of the next layer, and
// rounds once, but not across the end of a turn.
func TestLayerLoopDrawsTheSame(t *testing.T) {
	for _, family := range []string{contractFamily, "llama-bias", "qwen3", "mistral", "olmo2", "mixtral", "phi3",
		"granite", "granite4-dense", "glm4", "stablelm", "starcoder2", "olmoe", "granite-moe-shared"} {
		t.Run(family, func(t *testing.T) {
			testenv.Slow(t)
			loopDrawsTheSame(t, testenv.Model(t, family), 1)
		})
	}
	for _, c := range inTurns {
		t.Run(c.family+" in turns", func(t *testing.T) {
			if c.family != "qwen35" {
				testenv.Slow(t)
			}
			loopDrawsTheSame(t, modelOfLayers(t, c.family, c.layers), c.bodies)
		})
	}
}

func loopDrawsTheSame(t *testing.T, model *models.Checkpoint, bodies int) {
	t.Helper()
	if l, err := decoder.LoopOf(model.Config); err != nil || l.Bodies(model.Config.NumLayers) != bodies {
		t.Fatalf("the loop is %+v, %v: a program has %d layers, want %d", l, err, l.Bodies(model.Config.NumLayers),
			bodies)
	}
	drawn := func(layers string) map[string]*engine.Completion {
		cfg := engine.Config{Model: model, MaxSeqs: 8, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8,
			StopStates: 256, Debug: true, Layers: layers}
		withDefaults(t, &cfg)
		e, err := engine.New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		if p := e.Plan(); p.Layers != layers {
			t.Errorf("the plan says %q", p.Layers)
		}
		return collect(t, e, contractRequests()...)
	}
	want, got := drawn(engine.LayersUnrolled), drawn(engine.LayersLoop)
	if model.Config.Layers[0].Scaled {
		sameTokens(t, want, got)
	} else {
		sameBytes(t, want, got, true)
	}
}

// Where layers take turns, pages move, are shared and cleared as without: those of all turns, with keys and values or
// states.
func TestPagesOfLayersInTurns(t *testing.T) {
	testenv.Slow(t)
	for _, family := range []string{"qwen35", "lfm2", "granite4", "gemma3", "deepseek-v3"} {
		t.Run(family, func(t *testing.T) {
			requests := func() []*engine.Request {
				return slices.Concat(contractRequests(), sharingRequests(), longRequests(8))
			}
			want := collect(t, stateEngine(t, family, 0, func(c *engine.Config) { c.NoPrefixCache = true }),
				requests()...)
			few := func(c *engine.Config) {
				looped(c)
				c.PageSize, c.PrefillTokens, c.Admission, c.ZeroPages = 8, 16, engine.Overcommit, true
			}
			e := stateEngine(t, family, 44, few)
			sameBytes(t, want, collectInOrder(t, e, requests()...), true)
			if s := e.Stats(); s.Preemptions == 0 || s.HitTokens == 0 {
				t.Errorf("%d sequences were moved, %d tokens taken over: the test does not reach what it is for",
					s.Preemptions, s.HitTokens)
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
	c, err := e.Contexts().Open()
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
	for _, family := range []string{"gemma2", "gemma4", "gpt-oss", "lfm2-moe"} {
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

// On GPUs a loop of layers copies weights: see docs/gpu.md.
func TestWarningsOfLayers(t *testing.T) {
	for _, platform := range []string{"cpu", "tpu", "cuda"} {
		for _, layers := range []string{engine.LayersUnrolled, engine.LayersLoop} {
			want := platform == "cuda" && layers == engine.LayersLoop
			if got := (engine.Plan{Layers: layers}).Warnings(backend.For(platform)); (len(got) > 0) != want {
				t.Errorf("%s, layers %s: %q", platform, layers, got)
			}
		}
	}
}
