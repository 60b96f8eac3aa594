package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// What a TPU would run, layouts, operands and kernels, draws on the CPU what the plain form of attention draws, within
// the rounding of bfloat16.
func TestTPUProgramsOnTheCPU(t *testing.T) {
	testenv.Slow(t)
	for _, c := range []struct {
		name    string
		config  engine.Config
		devices int
		pages   int
		// Logprobs differ by that at most, and in the mean by a sixth of it. 30 layers in bfloat16 are within 0.3 of
		// float32: see TestHalfPrecision. 8-bit floats have a scale in the plain form alone, so both round differently.
		tolerance float64
		longer    int // prompts are so many times as long
	}{
		{"head_dim 128", engine.Config{Model: dummyHeads128(), PageSize: 16}, 1, 24, 0.02, 1},
		{"head_dim 128 on two devices", engine.Config{Model: dummyHeads128(), PageSize: 16}, 2, 24, 0.02, 1},
		{"keys stored by the kernel", engine.Config{Model: longHeads128(), PageSize: 64}, 1, 24, 0.02, 4},
		{"keys stored by the kernel on two devices", engine.Config{Model: longHeads128(), PageSize: 64}, 2, 24, 0.02,
			4},
		{"8-bit floats", engine.Config{Model: longHeads128(), PageSize: 64, KVDType: dtypes.F8E4M3FN}, 1, 24, 0.15, 4},
		{"SmolLM2", engine.Config{Model: testenv.SmolLM2(t), PageSize: 32, Layers: engine.LayersLoop}, 1, 8,
			0.3, 1},
		{"SmolLM2 with 8-bit floats", engine.Config{Model: testenv.SmolLM2(t), PageSize: 64,
			Layers: engine.LayersLoop, KVDType: dtypes.F8E4M3FN}, 1, 8, 0.8, 1},
		{"sinks, and a window of 128", engine.Config{Model: dummySinks(t), PageSize: 16}, 1, 48, 0.02, 4},
		{"head_dim 256, and a window of 512", engine.Config{Model: dummyGemma3(t), PageSize: 64}, 1, 48, 0.02, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			draws := map[string]map[string]*engine.Completion{}
			for _, kernels := range []string{xla.KernelsAuto, xla.KernelsOff} {
				cfg := c.config
				backend := testenv.TPUOnCPU(t, kernels, c.devices)
				if c.devices > 1 {
					group, err := backend.Group(firstDevices(c.devices)...)
					if err != nil {
						t.Fatal(err)
					}
					backend = group
				}
				cfg.Backend, cfg.DType, cfg.MaxSeqs, cfg.PrefillTokens, cfg.MaxModelLen = backend, dtypes.BFloat16, 2,
					32, 64*c.longer
				model := cfg.Model.Config
				// With the plain form 8-bit keys and values have scales, and there may be fewer pages.
				layout := attention.PagedLayout(c.pages, cfg.PageSize, model.NumKVHeads/c.devices, model.HeadDim,
					cmp.Or(cfg.KVDType, cfg.DType))
				layout.Packed = 4 / layout.Shape().DType.Size()
				cfg.KVMemory = int64(c.pages*model.NumLayers) * layout.PageBytes()
				e, err := engine.New(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				draws[kernels] = collect(t, e, tpuRequests(c.longer)...)
				t.Logf("kernels %s: %d pages, %+v", kernels, e.Plan().Pages, backend.KernelUses())
				if used := backend.KernelUses(); kernels == xla.KernelsAuto && !inKernel(used) {
					t.Errorf("attention is not in the kernel: %+v", used)
				}
			}
			compareDraws(t, draws[xla.KernelsAuto], draws[xla.KernelsOff], c.tolerance)
		})
	}
}

// Under the kernels' form for CPUs no bit of a completion depends on what else runs, on where prompts are cut, or on
// the page size. Prompts take several steps and blocks of context.
func TestBytesOfTPUProgramsOnTheCPU(t *testing.T) {
	testenv.Slow(t)
	model := longHeads128()
	var requests []*engine.Request
	for i, length := range []int{290, 41, 1, 270, 100} {
		prompt := make([]int32, length)
		for j := range prompt {
			prompt[j] = int32(17 + (i%3*131+j*j*29+j*7)%900) // the first and the fourth share 270 tokens
		}
		requests = append(requests, greedy(fmt.Sprint(i), prompt, 12))
	}
	var want map[string]*engine.Completion
	for _, pageSize := range []int{64, 128} {
		cfg := engine.Config{Model: model, PageSize: pageSize, Backend: testenv.TPUOnCPU(t, xla.KernelsAuto, 1),
			DType: dtypes.BFloat16, MaxSeqs: 2, PrefillTokens: 32, MaxModelLen: 512,
			KVMemory: 1536 * 2 * 2 * 2 * 128 * 2}
		e, err := engine.New(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		together := collect(t, e, requests...)
		if want == nil {
			want = together
		}
		compareBytes(t, fmt.Sprintf("pages of %d tokens", pageSize), together, want)
		for i := range requests {
			alone := collect(t, e, requests[len(requests)-1-i])
			for key, c := range alone {
				compareBytes(t, fmt.Sprintf("alone, pages of %d tokens", pageSize),
					map[string]*engine.Completion{key: c}, map[string]*engine.Completion{key: want[key]})
			}
		}
		if used := cfg.Backend.(*xla.Backend).KernelUses(); !inKernel(used) {
			t.Errorf("attention is not in the kernel: %+v", used)
		}
	}
}

// compareBytes finds the same tokens and logprobs in both, to the bit.
func compareBytes(t *testing.T, what string, got, want map[string]*engine.Completion) {
	t.Helper()
	for key, w := range want {
		g := got[key]
		if g == nil || g.Err != nil || w.Err != nil {
			t.Fatalf("%s, %s: got %+v, want %+v", what, key, g, w)
		}
		if !slices.Equal(g.Tokens, w.Tokens) || !slices.Equal(g.Logprobs, w.Logprobs) {
			t.Errorf("%s, request %s:\n%v %v\nwant\n%v %v", what, key, g.Tokens, g.Logprobs, w.Tokens, w.Logprobs)
		}
	}
}

// inKernel tells whether all attention is in kernels.
func inKernel(used []xla.KernelUse) bool {
	for _, u := range used {
		if u.Kernel == "" {
			return false
		}
	}
	return len(used) > 0
}

// tpuRequests have prompts of one token to more than a step's, with a page or two, in fewer slots than there are; or
// some times longer ones.
func tpuRequests(longer int) (requests []*engine.Request) {
	for i, length := range []int{1, 15, 33, 40, 31, 2} {
		prompt := make([]int32, length*longer)
		for j := range prompt {
			prompt[j] = int32(17 + (i*131+j*j*29+j*7)%900)
		}
		requests = append(requests, greedy(fmt.Sprint(i), prompt, 16))
	}
	requests[2].N = 3
	return requests
}

// compareDraws finds the same tokens and logprobs in both. Where a token differs, both have to be about as likely, and
// what comes behind it is not compared.
func compareDraws(t *testing.T, got, want map[string]*engine.Completion, tolerance float64) {
	t.Helper()
	compared, drawn, worst, sum := 0, 0, 0.0, 0.0
	for key, w := range want {
		g := got[key]
		if g == nil || g.Err != nil || w.Err != nil || len(g.Tokens) != len(w.Tokens) {
			t.Fatalf("%s: got %+v, want %+v", key, g, w)
		}
		drawn += len(w.Tokens)
		for i := range w.Tokens {
			compared++
			d := math.Abs(float64(g.Logprobs[i] - w.Logprobs[i]))
			worst, sum = max(worst, d), sum+d
			if !(d <= tolerance) {
				t.Errorf("%s, token %d: %d with logprob %g, want %d with %g", key, i, g.Tokens[i], g.Logprobs[i],
					w.Tokens[i], w.Logprobs[i])
			}
			if g.Tokens[i] != w.Tokens[i] {
				break
			}
		}
	}
	mean := sum / float64(compared)
	t.Logf("%d of %d tokens compared; logprobs differ by up to %.2g, %.2g in the mean", compared, drawn, worst, mean)
	if mean > tolerance/6 {
		t.Errorf("logprobs differ by %g in the mean, want at most %g", mean, tolerance/6)
	}
	if compared < drawn/2 {
		t.Errorf("only %d of %d tokens could be compared", compared, drawn)
	}
}

// dummyHeads128 is a small model of random weights with heads of 128.
func dummyHeads128() *models.Checkpoint {
	c := models.Config{Architecture: "LlamaForCausalLM", ModelType: "llama", HiddenSize: 256, IntermediateSize: 512,
		NumHeads: 8, NumKVHeads: 2, HeadDim: 128, NumLayers: 2, VocabSize: 1024, MaxPositions: 128, RMSNormEps: 1e-5,
		Ropes: []models.Rope{{Theta: 1e4}}, EOS: []int32{2}, DType: dtypes.BFloat16}
	c.SetLayers(c.LlamaLayer())
	return models.Dummy(c, 0)
}

// longHeads128 is dummyHeads128 with room for sequences of several blocks of context.
func longHeads128() *models.Checkpoint {
	c := *dummyHeads128()
	c.Config.MaxPositions = 512
	return &c
}

// dummySinks is a small gpt-oss of random weights.
func dummySinks(t *testing.T) *models.Checkpoint {
	t.Helper()
	return dummyOf(t, `{"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss",
		"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 8, "num_key_value_heads": 1,
		"head_dim": 64, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
		"sliding_window": 128, "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 1024,
		"max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "eos_token_id": 2, "attention_bias": true,
		"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 128},
		"rope_theta": 150000, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}`)
}

// dummyGemma3 is a small Gemma 3 of random weights, with the heads of the 1B.
func dummyGemma3(t *testing.T) *models.Checkpoint {
	t.Helper()
	return dummyOf(t, `{"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_size": 256,
		"intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
		"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512,
		"query_pre_attn_scalar": 256, "vocab_size": 1024, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
		"rope_theta": 1000000, "rope_local_base_freq": 10000, "eos_token_id": 2, "hidden_activation":
		"gelu_pytorch_tanh", "tie_word_embeddings": true, "torch_dtype": "bfloat16"}`)
}

// dummyOf is a model of a config.json, with random weights.
func dummyOf(t *testing.T, config string) *models.Checkpoint {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := models.OpenConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
