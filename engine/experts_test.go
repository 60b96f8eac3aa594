package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/internal/testenv"
)

// expertsGolden is what transformers' routers choose: see scripts/oracle/experts_goldens.py.
type expertsGolden struct {
	Layers, Chosen int
	Cases          []struct {
		Prompt, Tokens []int32
		Experts        []uint16
	}
}

// fastRouters are the mixtures of the fast tests: a layer without experts between others, groups of experts behind a
// dense layer.
var fastRouters = []string{"deepseek-v3"}

// The experts of tokens are those that transformers' routers choose.
func TestExpertsEqualTransformers(t *testing.T) {
	var goldens map[string]expertsGolden
	testenv.ReadGolden(t, "experts", &goldens)
	for name, golden := range goldens {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(fastRouters, name) {
				testenv.Slow(t)
			}
			expertsEqual(t, name, golden, func(*engine.Config) {})
		})
	}
	t.Run("without kernels", func(t *testing.T) {
		testenv.Slow(t)
		expertsEqual(t, "qwen3-moe", goldens["qwen3-moe"], func(c *engine.Config) {
			c.Backend = testenv.XLAWithoutKernels(t)
		})
	})
	t.Run("layers in a loop", func(t *testing.T) {
		testenv.Slow(t)
		expertsEqual(t, "mixtral", goldens["mixtral"], func(c *engine.Config) { c.Layers = engine.LayersLoop })
	})
	t.Run("two groups of experts", func(t *testing.T) {
		testenv.Slow(t)
		expertsEqual(t, "mixtral", goldens["mixtral"], func(c *engine.Config) {
			c.Backend, c.ExpertGroups = testenv.Group(t, xla.KernelsAuto, 0, 1), 2
		})
	})
}

func expertsEqual(t *testing.T, family string, golden expertsGolden, change func(*engine.Config)) {
	t.Helper()
	cfg := engine.Config{MaxSeqs: 8, PageSize: 8, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8,
		Features: engine.FeaturesOfColumns("experts")}
	change(&cfg)
	var requests []*engine.Request
	for i, c := range golden.Cases {
		requests = append(requests, greedy(fmt.Sprint(i), c.Prompt, len(c.Tokens)))
	}
	got := collect(t, newEngine(t, family, cfg), requests...)
	each := golden.Layers * golden.Chosen
	for i, want := range golden.Cases {
		c := got[fmt.Sprintf("%d/0", i)]
		if !slices.Equal(c.Tokens, want.Tokens) || len(c.Experts) != len(want.Experts) {
			t.Fatalf("case %d: %d experts of tokens %v, want %d of %v", i, len(c.Experts), c.Tokens, len(want.Experts),
				want.Tokens)
		}
		for k := 0; k < len(want.Experts); k += each {
			if !slices.Equal(c.Experts[k:k+each], want.Experts[k:k+each]) {
				t.Errorf("case %d, token %d: experts %v, want %v", i, k/each, c.Experts[k:k+each],
					want.Experts[k:k+each])
			}
		}
	}
}

// The experts of a completion depend on its request alone: on no other row, on no order or clone, and neither on drafts
// nor on a pool whose pages run out. They change no token.
func TestSameExpertsWhateverElseRuns(t *testing.T) {
	const family = "qwen3-moe"
	with := func(change func(*engine.Config)) *engine.Engine {
		cfg := contractConfig()
		cfg.Features = engine.FeaturesOfColumns("experts")
		change(&cfg)
		return sharedEngine(t, family, cfg)
	}
	requests := func() []*engine.Request { return append(contractRequests(), repeatingRequests()...) }
	e := with(func(*engine.Config) {})
	want := collect(t, e, requests()...)
	const each = 2 * 3
	for key, c := range want {
		if len(c.Experts) != each*len(c.Tokens) {
			t.Fatalf("%s: %d experts of %d tokens", key, len(c.Experts), len(c.Tokens))
		}
	}
	sameBytesInOtherCompany(t, e, want, requests)
	drafts := with(func(c *engine.Config) { c.Speculate = engine.SpeculateAuto })
	sameBytes(t, want, collect(t, drafts, requests()...), true)
	checkDrafts(t, drafts)
	if testing.Short() {
		return
	}
	few := with(func(c *engine.Config) { c.KVMemory = smallPool })
	sameBytes(t, want, collect(t, few, requests()...), true)
	if few.Stats().Preemptions == 0 {
		t.Error("no sequence was moved: the test does not reach what it is for")
	}
	scored := requests()
	for _, r := range scored {
		r.ScorePrompt = true // the program takes the hidden states of all tokens
	}
	for key, c := range collect(t, e, scored...) {
		if w := want[key]; !slices.Equal(c.Tokens, w.Tokens) || !slices.Equal(c.Experts, w.Experts) {
			t.Errorf("%s: other experts with scores of the prompt", key)
		}
	}
	for key, c := range collect(t, sharedEngine(t, family, contractConfig()), requests()...) {
		if w := want[key]; !slices.Equal(c.Tokens, w.Tokens) || !slices.Equal(bits(c.Logprobs), bits(w.Logprobs)) ||
			c.Experts != nil {
			t.Errorf("%s: other tokens without experts", key)
		}
	}
}

// A model without experts has no such column.
func TestExpertsRefused(t *testing.T) {
	_, err := config.Settle(engine.Config{Model: testenv.Model(t, "llama3"), Backend: testenv.XLA(t), KVMemory: 8 << 20,
		Features: engine.FeaturesOfColumns("experts")})
	if err == nil || !strings.Contains(err.Error(), "LlamaForCausalLM has no experts") {
		t.Error(err)
	}
}
