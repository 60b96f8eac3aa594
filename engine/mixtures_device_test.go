package engine

import (
	"maps"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// Programs of devices that share out experts, three to one group and two to the other, are as those without: the state
// in place, nothing written anew or exchanged but sums and scores, attention in the kernels.
func TestExpertGroupsForAccelerators(t *testing.T) {
	testenv.Slow(t)
	for _, name := range []string{"v6e:2x2", "h100:4"} {
		t.Run(name, func(t *testing.T) {
			group, err := testenv.Topology(t, name).Group(0, 1, 2, 3)
			if err != nil {
				t.Fatal(err)
			}
			checkPrograms(t, Config{Model: enlarged(t, "mixtral", 2560), Backend: group, DType: dtypes.BFloat16,
				MaxSeqs: 64, KVMemory: 256 << 20, ExpertGroups: 2}, "init", device.Run)
		})
	}
}

// gpt-oss has heads of 64, sinks, and a window of 128 in every second layer: attention is in the kernel on a TPU. Its
// rows of 2,880 numbers are not whole registers: no matrix is turned around for that, and its experts in MXFP4 stay as
// they are.
func TestGptOssForTPU(t *testing.T) {
	testenv.Slow(t)
	model := enlarged(t, "gpt-oss", 2880, func(c map[string]any) {
		for key, value := range map[string]any{"head_dim": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
			"sliding_window": 128, "hidden_size": 2880, "intermediate_size": 2880, "num_local_experts": 32,
			"num_experts_per_tok": 4, "num_hidden_layers": 2, "vocab_size": 201088,
			"layer_types":         []string{"sliding_attention", "full_attention"},
			"quantization_config": map[string]any{"quant_method": "mxfp4"}} {
			c[key] = value
		}
	})
	cfg := Config{Model: model, Backend: testenv.Topology(t, "v6e:1x1"), DType: dtypes.BFloat16, MaxSeqs: 64,
		PageSize: 64, KVMemory: 128 << 20, Weights: WeightsAuto, MaxModelLen: 1024}
	done := precompiled(t, cfg, "init", device.Run)
	checkKernels(t, cfg, done)
	checkMovesWithin(t, cfg, done, config.PrefillBytes)
}

// The kernel also stores keys and values of layers with windows, soft caps and heads of 256, with both default page
// sizes.
func TestWindowsForTPU(t *testing.T) {
	testenv.Slow(t)
	for name, c := range map[string]struct {
		family         string
		page           int
		heads, kvHeads int
		headDim        int
		sizes          map[string]any
	}{
		"Gemma 2 27B": {"gemma2", 64, 32, 16, 128, map[string]any{"sliding_window": 4096, "query_pre_attn_scalar": 144,
			"attn_logit_softcapping": 50}},
		"Gemma 3 4B": {"gemma3", 128, 8, 4, 256, map[string]any{"sliding_window": 1024,
			"query_pre_attn_scalar": 256}},
		"Ministral 8B": {"ministral", 128, 32, 8, 128, map[string]any{"sliding_window": 32768}},
	} {
		t.Run(name, func(t *testing.T) {
			model := enlarged(t, c.family, 2048, func(config map[string]any) {
				maps.Copy(config, c.sizes)
				config["num_attention_heads"], config["num_key_value_heads"] = c.heads, c.kvHeads
				config["head_dim"], config["num_hidden_layers"] = c.headDim, 2
				config["layer_types"] = []string{"sliding_attention", "full_attention"}
			})
			cfg := Config{Model: model, Backend: testenv.Topology(t, "v6e:1x1"), DType: dtypes.BFloat16, MaxSeqs: 64,
				PageSize: c.page, KVMemory: 256 << 20, MaxModelLen: 4096}
			done := precompiled(t, cfg, "init", device.Run)
			if done.layouts[0].Packed == 0 {
				t.Error("keys and values are not stored by a kernel")
			}
			checkKernels(t, cfg, done)
			checkMoves(t, cfg, done)
		})
	}
}

// Qwen3-30B-A3B at its true sizes, shared by the four chips of a v6e host, reads its 128 experts as they lie: nothing
// as large as a layer's cache of 64 MiB is written anew. A device's matrix of all experts takes 96 MiB, the rows of a
// prompt step's tokens and experts 33.
func TestQwen30BForTPU(t *testing.T) {
	testenv.Slow(t)
	model, err := models.OpenConfig(testenv.Path("configs", "models", "qwen3-30b-a3b.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	group, err := testenv.Topology(t, "v6e:2x2").Group(0, 1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	checkPrograms(t, Config{Model: model, Backend: group, DType: dtypes.BFloat16, MaxSeqs: 64, PageSize: 64,
		MaxModelLen: 8192, KVMemory: 3 << 30, Layers: LayersLoop}, "init", device.Run)
}
