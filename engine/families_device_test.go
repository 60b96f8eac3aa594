package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// Each family's programs for TPUs and GPUs are as a Llama's: the state in place, nothing as large as a layer's cache
// written anew. On GPUs attention is in the kernel; for TPUs only the published shapes have payloads.
func TestFamiliesForTPU(t *testing.T) { checkFamilies(t, "v5e:1x1") }
func TestFamiliesForGPU(t *testing.T) { checkFamilies(t, "h200:1") }

func checkFamilies(t *testing.T, topology string) {
	testenv.Slow(t)
	for _, family := range []string{"deepseek-v3", "ernie", "gemma2", "gemma3", "gemma4", "gemma4-moe", "glm4",
		"glm4-moe", "gpt-oss", "granite", "granite-moe-shared", "granite4", "lfm2", "lfm2-moe", "ministral", "mixtral",
		"olmo2", "olmo3", "olmoe", "phi4-mini", "qwen3-moe", "qwen3-next", "qwen35", "qwen35-moe", "seed-oss",
		"smollm3", "stablelm", "starcoder2"} {
		t.Run(family, func(t *testing.T) {
			backend := testenv.Topology(t, topology)
			// A TPU's compiler moves smaller caches into VMEM while they are read.
			cfg := Config{Model: enlarged(t, family, 2048), Backend: backend, DType: dtypes.BFloat16, MaxSeqs: 64,
				KVMemory: 1 << 30}
			checkMoves(t, cfg, precompiled(t, cfg, "init", device.Run))
			for _, use := range backend.KernelUses() {
				if use.Kernel == "" && backend.Platform() == "cuda" {
					t.Errorf("attention has its plain form for %s: %s", use.For, use.Reason)
				}
			}
		})
	}
}

// So are they where layers take turns in a loop: with windows, states, latents, experts behind the first layer.
func TestTurnsForAccelerators(t *testing.T) {
	testenv.Slow(t)
	deeper := func(c map[string]any) {
		c["num_hidden_layers"], c["layer_types"] = 4, slices.Repeat([]string{"sliding_attention", "full_attention"}, 2)
	}
	for family, change := range map[string]func(map[string]any){"gemma3": nil, "gpt-oss": deeper, "qwen35": nil,
		"deepseek-v3": nil} {
		for _, topology := range []string{"v5e:1x1", "h200:1"} {
			t.Run(family+" "+topology, func(t *testing.T) {
				backend := testenv.Topology(t, topology)
				var changes []func(map[string]any)
				if change != nil {
					changes = append(changes, change)
				}
				cfg := Config{Model: enlarged(t, family, 2048, changes...), Backend: backend, DType: dtypes.BFloat16,
					MaxSeqs: 64, KVMemory: 1 << 30, Layers: LayersLoop}
				checkMoves(t, cfg, precompiled(t, cfg, "init", device.Run))
				for _, use := range backend.KernelUses() {
					if use.Kernel == "" && backend.Platform() == "cuda" {
						t.Errorf("attention has its plain form for %s: %s", use.For, use.Reason)
					}
				}
			})
		}
	}
}

// The largest blocks of the kernels fit into the shared memory of the GPU that has least, also in float32.
func TestLargestHeadsForGPU(t *testing.T) {
	testenv.Slow(t)
	for family, dtype := range map[string]dtypes.DType{"gemma4": dtypes.Float32, "deepseek-v3": dtypes.BFloat16} {
		t.Run(family+" "+dtype.String(), func(t *testing.T) {
			backend := testenv.Topology(t, "l4:1")
			precompiled(t, Config{Model: enlarged(t, family, 2048), Backend: backend, DType: dtype, MaxSeqs: 64,
				KVMemory: 1 << 30}, device.Run)
			uses := backend.KernelUses()
			if len(uses) == 0 || slices.ContainsFunc(uses, func(u xla.KernelUse) bool { return u.Kernel == "" }) {
				t.Errorf("attention is %+v", uses)
			}
		})
	}
}

// Weights in blocks and in int8 are read as they are: no matrix is written anew as floats, which would take 144 MiB.
// The arrays of a step's tokens may take config.PrefillBytes.
func TestWeightsForAccelerators(t *testing.T) {
	testenv.Slow(t)
	for _, family := range []string{"llama3", "qwen3-moe"} {
		for _, topology := range []string{"v5e:1x1", "h200:1"} {
			for _, weights := range []string{"int8", "q8_0", "q4_0"} {
				t.Run(family+" "+topology+" "+weights, func(t *testing.T) {
					cfg := Config{Model: enlarged(t, family, 36<<10), Backend: testenv.Topology(t, topology),
						DType: dtypes.BFloat16, MaxSeqs: 64, KVMemory: 256 << 20, Weights: weights}
					checkMovesWithin(t, cfg, precompiled(t, cfg, "init", device.Run), config.PrefillBytes)
				})
			}
		}
	}
}

// Quantized safetensors are read as they are too.
func TestQuantizedForAccelerators(t *testing.T) {
	testenv.Slow(t)
	for name, quantization := range map[string]map[string]any{
		"gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128},
		"fp8":  {"quant_method": "fp8", "weight_block_size": []int{128, 128}},
	} {
		for _, topology := range []string{"v5e:1x1", "h200:1"} {
			t.Run(name+" "+topology, func(t *testing.T) {
				model := enlarged(t, "llama3", 32<<10, func(c map[string]any) {
					c["quantization_config"] = quantization
				})
				if !model.Blocks("model.layers.0.mlp.up_proj.weight").Is() {
					t.Fatal("random weights are not quantized")
				}
				cfg := Config{Model: model, Backend: testenv.Topology(t, topology), DType: dtypes.BFloat16, MaxSeqs: 64,
					KVMemory: 256 << 20, Weights: WeightsAuto}
				checkMovesWithin(t, cfg, precompiled(t, cfg, "init", device.Run), config.PrefillBytes)
			})
		}
	}
}

// enlarged is a tiny checkpoint's model with random weights, heads as large as those that are published, and so many
// activations within a layer's MLP, or of all experts of a layer.
func enlarged(t *testing.T, family string, intermediate int, changes ...func(map[string]any)) *models.Checkpoint {
	t.Helper()
	text, err := os.ReadFile(testenv.Path("testdata", "models", family, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	enlarge(config, intermediate)
	for _, change := range changes {
		change(config)
	}
	if inner, ok := config["text_config"].(map[string]any); ok {
		enlarge(inner, intermediate)
	}
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := models.OpenConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// enlarge sets the sizes of a config.
func enlarge(config map[string]any, intermediate int) {
	const headDim = 128
	for _, name := range []string{"num_local_experts", "num_experts", "n_routed_experts"} {
		if experts, ok := config[name].(float64); ok && experts > 0 {
			intermediate /= int(experts)
		}
	}
	sizes := map[string]any{"hidden_size": 8 * headDim, "num_attention_heads": 8, "num_key_value_heads": 4,
		"head_dim": headDim, "vocab_size": 1024, "max_position_embeddings": 4096, "sliding_window": 512,
		"query_pre_attn_scalar": headDim, "original_max_position_embeddings": 1024, "mamba_n_heads": 32,
		"mamba_d_head": 64, "mamba_d_state": 128}
	for _, name := range []string{"intermediate_size", "moe_intermediate_size", "shared_intermediate_size",
		"shared_expert_intermediate_size"} {
		sizes[name] = intermediate
	}
	for name, size := range sizes {
		if old, ok := config[name]; ok && (old != nil || name == "head_dim") {
			config[name] = size
		}
	}
	if _, ok := config["kv_lora_rank"]; ok { // of latent attention
		for name, size := range map[string]int{"kv_lora_rank": 4 * headDim, "q_lora_rank": 2 * headDim,
			"qk_nope_head_dim": headDim, "qk_rope_head_dim": headDim / 2, "v_head_dim": headDim,
			"num_key_value_heads": 8} {
			config[name] = size
		}
	}
	if _, ok := config["per_layer_config"]; ok { // of Gemma 4
		delete(config, "per_layer_config")
		config["global_head_dim"], config["vocab_size_per_layer_input"] = 4*headDim, 1024
	}
	rope, _ := config["rope_parameters"].(map[string]any)
	part, ok := rope["partial_rotary_factor"].(float64)
	if !ok {
		part = 1
	}
	for _, name := range []string{"long_factor", "short_factor"} {
		if list, ok := rope[name].([]any); ok {
			divisors := int(headDim/2*part) - len(list)
			rope[name] = slices.Concat(list, slices.Repeat(list[len(list)-1:], divisors))
		}
	}
	if _, ok := rope["original_max_position_embeddings"]; ok {
		rope["original_max_position_embeddings"] = 1024
	}
}
