package engine_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/internal/testenv"
)

// hiddenGolden has transformers' hidden states: see scripts/oracle/hidden_goldens.py.
type hiddenGolden struct {
	Layers         int
	Prompt, Tokens []int32
	At             []int
	States         []float32
}

// fastHidden are the families of the fast tests: multipliers, embeddings for each layer.
var fastHidden = []string{"gemma4"}

// Hidden states are transformers' within rounding.
func TestHiddenStatesEqualTransformers(t *testing.T) {
	var goldens map[string]hiddenGolden
	testenv.ReadGolden(t, "hidden", &goldens)
	for name, golden := range goldens {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(fastHidden, name) {
				testenv.Slow(t)
			}
			hiddenEqual(t, name, golden, func(*engine.Config) {})
		})
	}
	t.Run("layers in a loop", func(t *testing.T) {
		testenv.Slow(t)
		hiddenEqual(t, "llama32-tied", goldens["llama32-tied"], func(c *engine.Config) {
			c.Layers = engine.LayersLoop
		})
	})
	t.Run("without kernels", func(t *testing.T) {
		testenv.Slow(t)
		hiddenEqual(t, "qwen3", goldens["qwen3"], func(c *engine.Config) {
			c.Backend = testenv.XLAWithoutKernels(t)
		})
	})
}

func hiddenEqual(t *testing.T, family string, golden hiddenGolden, change func(*engine.Config)) {
	t.Helper()
	cfg := engine.Config{MaxSeqs: 8, PageSize: 8, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8,
		Features: engine.FeaturesOfColumns("hidden"), Hidden: engine.HiddenStates{All: true}}
	for i := range golden.Layers {
		cfg.Hidden.Layers = append(cfg.Hidden.Layers, i)
	}
	change(&cfg)
	c := collect(t, newEngine(t, family, cfg), greedy("a", golden.Prompt, len(golden.Tokens)))["a/0"]
	if !slices.Equal(c.Tokens, golden.Tokens) {
		t.Fatalf("tokens %v, want %v", c.Tokens, golden.Tokens)
	}
	got := floatsOf(c.Hidden)
	each := len(golden.States) / len(golden.At)
	if len(got) != each*len(c.Tokens) {
		t.Fatalf("%d numbers of %d tokens, want %d each", len(got), len(c.Tokens), each)
	}
	size := each / golden.Layers
	for i, token := range golden.At {
		for layer := range golden.Layers {
			want := golden.States[i*each+layer*size:][:size]
			if far, scale := farthest(got[token*each+layer*size:][:size], want); far > 2e-5*max(1, scale) {
				t.Errorf("token %d, hidden state %d: %g away from transformers' of up to %g", token, layer, far, scale)
			}
		}
	}
}

// farthest returns the largest difference, and the largest number of want.
func farthest(got, want []float32) (far, scale float64) {
	for i, w := range want {
		far, scale = max(far, math.Abs(float64(got[i]-w))), max(scale, math.Abs(float64(w)))
	}
	return far, scale
}

func floatsOf(raw []byte) (list []float32) {
	for ; len(raw) > 0; raw = raw[4:] {
		list = append(list, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return list
}

// The hidden states of a completion depend on its request alone, and change no token. Those of the last token, of one
// layer and in other types are the same ones, rounded.
func TestSameHiddenWhateverElseRuns(t *testing.T) {
	with := func(hidden engine.HiddenStates, change func(*engine.Config)) *engine.Engine {
		cfg := contractConfig()
		cfg.Features, cfg.Hidden = engine.FeaturesOfColumns("hidden"), hidden
		change(&cfg)
		return sharedEngine(t, contractFamily, cfg)
	}
	requests := func() []*engine.Request { return append(contractRequests(), repeatingRequests()...) }
	same := func(*engine.Config) {}
	all := engine.HiddenStates{All: true, Layers: []int{1, -1}}
	e := with(all, same)
	want := collect(t, e, requests()...)
	const size = 72
	for key, c := range want {
		if len(c.Hidden) != 4*2*size*len(c.Tokens) {
			t.Fatalf("%s: %d bytes of %d tokens", key, len(c.Hidden), len(c.Tokens))
		}
	}
	sameBytesInOtherCompany(t, e, want, requests)
	for key, c := range collect(t, contractEngine(t, nil), requests()...) {
		if w := want[key]; !slices.Equal(c.Tokens, w.Tokens) || !slices.Equal(bits(c.Logprobs), bits(w.Logprobs)) ||
			c.Hidden != nil {
			t.Errorf("%s: other tokens without hidden states", key)
		}
	}
	last := with(engine.HiddenStates{DType: dtypes.BFloat16}, same)
	for key, c := range collect(t, last, requests()...) {
		states := floatsOf(want[key].Hidden)
		var rounded []byte
		for _, x := range states[len(states)-size:] {
			rounded = binary.LittleEndian.AppendUint16(rounded, uint16(bfloat16.FromFloat32(x)))
		}
		if !slices.Equal(c.Hidden, rounded) {
			t.Errorf("%s: other hidden states of the last token in bf16", key)
		}
	}
	if testing.Short() {
		return
	}
	half := with(engine.HiddenStates{DType: dtypes.Float16, All: true, Layers: all.Layers}, same)
	for key, c := range collect(t, half, requests()...) {
		var rounded []byte
		for _, x := range floatsOf(want[key].Hidden) {
			rounded = binary.LittleEndian.AppendUint16(rounded, halfOf(x))
		}
		if !slices.Equal(c.Hidden, rounded) {
			t.Errorf("%s: other hidden states in f16", key)
		}
	}
	drafts := with(all, func(c *engine.Config) { c.Speculate = engine.SpeculateAuto })
	sameBytes(t, want, collect(t, drafts, requests()...), true)
	checkDrafts(t, drafts)
	few := with(all, func(c *engine.Config) { c.KVMemory = smallPool })
	sameBytes(t, want, collect(t, few, requests()...), true)
	if few.Stats().Preemptions == 0 {
		t.Error("no sequence was moved: the test does not reach what it is for")
	}
	scored := requests()
	for _, r := range scored {
		r.ScorePrompt = true // the program takes the hidden states of all tokens
	}
	for key, c := range collect(t, e, scored...) {
		if w := want[key]; !slices.Equal(c.Tokens, w.Tokens) || !slices.Equal(c.Hidden, w.Hidden) {
			t.Errorf("%s: other hidden states with scores of the prompt", key)
		}
	}
}

// halfOf rounds a number to float16. FromFloat32 alone makes zeros of those that are subnormal.
func halfOf(x float32) uint16 {
	if size := math.Abs(float64(x)); size < 0x1p-14 {
		return uint16(math.Float32bits(x)>>16&0x8000) | uint16(math.RoundToEven(size*0x1p24))
	}
	return uint16(float16.FromFloat32(x))
}

// Layers that a model lacks, and more than the memory holds, are refused.
func TestHiddenRefused(t *testing.T) {
	for want, change := range map[string]func(*engine.Config){
		"`hidden-layers` has 4, and LlamaForCausalLM has hidden states from 0, its embeddings, to 3": func(
			c *engine.Config) {
			c.Hidden.Layers = []int{4}
		},
		"`hidden-layers` has -5, and":                func(c *engine.Config) { c.Hidden.Layers = []int{-5} },
		"`hidden-layers` has hidden state 3 twice":   func(c *engine.Config) { c.Hidden.Layers = []int{3, -1} },
		"the hidden states of 64 sequences take":     func(c *engine.Config) { c.MaxRounds = 1 << 24 },
		"give fewer `hidden-layers`, `hidden-tokens": func(c *engine.Config) { c.MaxRounds = 1 << 24 },
	} {
		cfg := engine.Config{Model: testenv.Model(t, "llama3"), Backend: testenv.XLA(t), KVMemory: 8 << 20,
			Features: engine.FeaturesOfColumns("hidden")}
		change(&cfg)
		if _, err := config.Settle(cfg); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
