package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// newEngine makes an engine for a tiny checkpoint on the serving backend.
func newEngine(t testing.TB, family string, cfg engine.Config) *engine.Engine {
	t.Helper()
	cfg.Model = testenv.Model(t, family)
	withDefaults(t, &cfg)
	e, err := engine.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// withDefaults fills in what tests leave out.
func withDefaults(t testing.TB, cfg *engine.Config) {
	t.Helper()
	if cfg.Backend == nil {
		cfg.Backend = testenv.XLA(t)
	}
	if cfg.KVMemory == 0 {
		cfg.KVMemory = 8 << 20
	}
	if cfg.DType == dtypes.InvalidDType { // also of checkpoints in bfloat16, whose goldens are in float32
		cfg.DType = dtypes.Float32
	}
}

// collect runs requests and returns the completions by "id/generation".
func collect(t testing.TB, e *engine.Engine, requests ...*engine.Request) map[string]*engine.Completion {
	t.Helper()
	got := map[string]*engine.Completion{}
	for c, err := range e.Run(context.Background(), slices.Values(requests)) {
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)
		if got[key] != nil {
			t.Fatalf("%s came twice", key)
		}
		got[key] = c
	}
	return got
}

// collectInOrder is collect for tests that count what the engine did: nothing depends on how fast requests come.
func collectInOrder(t testing.TB, e *engine.Engine, requests ...*engine.Request) map[string]*engine.Completion {
	t.Helper()
	e.TakeInOrder(true)
	defer e.TakeInOrder(false)
	return collect(t, e, requests...)
}

func greedy(id string, prompt []int32, tokens int) *engine.Request {
	return &engine.Request{ID: id, Tokens: prompt, N: 1, MaxTokens: tokens, IgnoreEOS: true,
		Sampling: sampling.Settings{TopP: 1}}
}

func sampled(id string, prompt []int32, n, tokens int, seed uint64) *engine.Request {
	return &engine.Request{ID: id, Tokens: prompt, N: n, MaxTokens: tokens, IgnoreEOS: true,
		Sampling: sampling.Settings{Temperature: 1, TopP: 1, Seed: seed}}
}

// features are the families of which each has something of its own in its programs: several heads a KV head, biases,
// windows of all layers and of some, norms of queries and keys, layers without rotation, soft caps, norms of all
// heads, two rotary embeddings, a rotation of a part of heads, multipliers, LayerNorms and no gate, experts, short
// convolutions, delta nets and gates of heads, sinks, a shared expert, one with a share, keys and values of other
// layers and embeddings for each layer, keys that are values and experts beside a feed-forward, Mamba-2, latent
// attention with and without latents of queries, experts beside states. The others differ by numbers, and
// models/decoder compares their logits.
var features = []string{"smollm2-like", "llama-bias", "mistral", "qwen2-sliding", "qwen3", "smollm3", "gemma2",
	"olmo2", "gemma3", "glm4", "granite", "starcoder2", "qwen3-moe", "lfm2", "qwen35", "gpt-oss",
	"granite-moe-shared", "qwen3-next", "gemma4", "gemma4-moe", "granite4", "deepseek-v2-lite",
	"deepseek-v3", "lfm2-moe"}

// kinds are the features of the fast tests: one checkpoint of each kind of layer. Logits of all are compared in
// models/decoder.
var kinds = []string{contractFamily, "qwen35", "gpt-oss", "granite4", "gemma4", "deepseek-v3"}

// Greedy tokens are transformers', for every family, with prompts around the page size and longer than a prefill step;
// without kernels for those with something of their own.
func TestGreedyEqualsTransformers(t *testing.T) {
	for _, family := range testenv.Families(t) {
		t.Run(family, func(t *testing.T) {
			if !slices.Contains(kinds, family) {
				testenv.Slow(t)
			}
			greedyEqualsTransformers(t, family, testenv.XLA(t))
		})
		if slices.Contains(features, family) {
			t.Run(family+" without kernels", func(t *testing.T) {
				testenv.Slow(t)
				greedyEqualsTransformers(t, family, testenv.XLAWithoutKernels(t))
			})
		}
	}
}

func greedyEqualsTransformers(t *testing.T, family string, backend compute.Backend,
	changes ...func(*engine.Config)) {
	t.Helper()
	var golden testenv.Golden
	testenv.ReadGolden(t, family, &golden)
	cfg := engine.Config{Backend: backend, MaxSeqs: 8, PageSize: 8, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8}
	for _, change := range changes {
		change(&cfg)
	}
	e := sharedEngine(t, family, cfg)
	var requests []*engine.Request
	for i, c := range golden.Cases {
		requests = append(requests, greedy(fmt.Sprint(i), c.Prompt, len(c.Tokens)))
	}
	got := collect(t, e, requests...)
	for i, c := range golden.Cases {
		d := got[fmt.Sprintf("%d/0", i)]
		if d == nil || d.Err != nil {
			t.Errorf("prompt %d: %+v", i, d)
		} else if !slices.Equal(d.Tokens, c.Tokens) {
			t.Errorf("prompt of %d tokens: got %v, want %v", len(c.Prompt), d.Tokens, c.Tokens)
		}
	}
}
