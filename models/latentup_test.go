package models

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/gguf"
)

// latentGGUF is a model of one layer of DeepSeek V3's kind: 2 heads with latents of 96, keys of 32 and 32, values of
// 64, and 3 experts 64 wide. Its matrices are in Q8_0.
func latentGGUF() ggufFile {
	g := ggufFile{values: map[string]any{"general.architecture": "deepseek2",
		"deepseek2.attention.layer_norm_rms_epsilon": float32(1e-6), "deepseek2.expert_weights_norm": true,
		"deepseek2.expert_weights_scale": float32(2.5)},
		tensors: map[string][]int{"token_embd": {16, 64}, "output_norm": {64}, "blk.0.attn_norm": {64},
			"blk.0.ffn_norm": {64}, "blk.0.attn_q": {128, 64}, "blk.0.attn_kv_a_mqa": {128, 64},
			"blk.0.attn_kv_a_norm": {96}, "blk.0.attn_k_b": {2, 96, 32}, "blk.0.attn_v_b": {2, 64, 96},
			"blk.0.attn_output": {64, 128}, "blk.0.ffn_gate_inp": {3, 64}, "blk.0.ffn_gate_exps": {3, 64, 64},
			"blk.0.ffn_up_exps": {3, 64, 64}, "blk.0.ffn_down_exps": {3, 64, 64}, "blk.0.ffn_gate_shexp": {128, 64},
			"blk.0.ffn_up_shexp": {128, 64}, "blk.0.ffn_down_shexp": {64, 128}},
		types: map[string]gguf.Type{}}
	for key, n := range map[string]uint32{"block_count": 1, "context_length": 64, "embedding_length": 64,
		"feed_forward_length": 64, "attention.head_count": 2, "attention.head_count_kv": 1,
		"attention.key_length": 128, "attention.value_length": 96, "attention.key_length_mla": 64,
		"attention.value_length_mla": 64, "attention.kv_lora_rank": 96, "rope.dimension_count": 32,
		"expert_count": 3, "expert_used_count": 2, "expert_feed_forward_length": 64, "expert_shared_count": 2,
		"expert_gating_func": 2, "leading_dense_block_count": 0} {
		g.values["deepseek2."+key] = n
	}
	for name, dims := range maps.Clone(g.tensors) {
		g.tensors[name+".weight"] = dims
		delete(g.tensors, name)
		if len(dims) > 1 {
			g.types[name+".weight"] = gguf.Q8_0
		}
	}
	g.tensors["blk.0.exp_probs_b.bias"] = []int{3}
	return g
}

// Halves of kv_b_proj become one matrix, from blocks too, and experts stay in theirs. A file may have it in one.
func TestLatentUpOfHalves(t *testing.T) {
	for _, spoil := range []func(g ggufFile){func(ggufFile) {},
		func(g ggufFile) { g.types["blk.0.attn_k_b.weight"] = gguf.F16 },
		func(g ggufFile) { g.types["blk.0.attn_v_b.weight"] = gguf.BF16 }} {
		g := latentGGUF()
		spoil(g)
		path := g.write(t)
		c := openTest(t, path)
		if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
			t.Fatalf("warnings %v, error %v", warnings, err)
		}
		file, err := gguf.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		stored := func(name string) []float32 {
			in := file.Tensor("blk.0." + name + ".weight")
			values := make([]float32, in.Elements())
			if err := gguf.Dequantize(in.Type, values, in.Data); err != nil {
				t.Fatal(err)
			}
			return values
		}
		k, v := stored("attn_k_b"), stored("attn_v_b")
		var want []float32
		for head := range 2 {
			for row := range 32 {
				for i := range 96 {
					want = append(want, k[(head*96+i)*32+row])
				}
			}
			want = append(want, v[head*64*96:][:64*96]...)
		}
		const name = "model.layers.0.self_attn.kv_b_proj.weight"
		got, err := c.Read(name, dtypes.Float32)
		if err != nil || !slices.Equal(got.([]float32), want) {
			t.Errorf("kv_b_proj is another matrix (%v)", err)
		}
		rows, err := c.ReadRows(name, dtypes.Float32, Span{From: 96 + 7, N: 40})
		if err != nil || !slices.Equal(rows.([]float32), want[(96+7)*96:][:40*96]) {
			t.Errorf("rows of kv_b_proj are others (%v)", err)
		}
		if c.Blocks(name).Is() {
			t.Errorf("kv_b_proj is in blocks of %s", c.Blocks(name))
		}
		for _, part := range []string{"gate", "up", "down"} {
			if name := "model.layers.0.mlp.experts.1." + part + "_proj.weight"; c.Blocks(name) != blocks.Q8_0 {
				t.Errorf("%s is in blocks of %s", name, c.Blocks(name))
			}
		}
		var size int64
		for i := range file.Tensors() {
			size += int64(len(file.Tensors()[i].Data))
		}
		if c.StoredBytes() != size {
			t.Errorf("weights are %d bytes, the file has %d", c.StoredBytes(), size)
		}
	}
	g := latentGGUF()
	g.tensors["blk.0.attn_kv_b.weight"] = []int{192, 96}
	c := openTest(t, g.write(t))
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 ||
		c.Encoding("model.layers.0.self_attn.kv_b_proj.weight") != "F32" {
		t.Errorf("with both forms: warnings %v, error %v", warnings, err)
	}
}

func TestLatentGGUFRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil       func(g ggufFile, set func(key string, v any))
		want        string
		unsupported bool
	}{
		"half of another size": {func(g ggufFile, _ func(string, any)) {
			g.tensors["blk.0.attn_k_b.weight"] = []int{2, 32, 96}
		}, "blk.0.attn_k_b.weight has shape [2 32 96], but the config implies [2 96 32]", false},
		"other shares": {func(_ ggufFile, set func(string, any)) { set("expert_gating_func", uint32(4)) },
			"expert_gating_func 4", true},
		"norm of V2": {func(_ ggufFile, set func(string, any)) { set("expert_gating_func", uint32(1)) },
			"expert_weights_norm in a DeepseekV2ForCausalLM", true},
		"choice of V2": {func(_ ggufFile, set func(string, any)) {
			set("expert_gating_func", uint32(1))
			set("expert_weights_norm", false)
		}, "blk.0.exp_probs_b", true},
		"dense layers": {func(_ ggufFile, set func(string, any)) { set("leading_dense_block_count", uint32(1)) },
			"leading_dense_block_count is 1, but layer 0 has experts", false},
		"keys too short": {func(_ ggufFile, set func(string, any)) { set("attention.key_length_mla", uint32(32)) },
			"keys of 0 and 32", false},
		"unknown key": {func(_ ggufFile, set func(string, any)) { set("attention.temperature_scale", float32(2)) },
			`GGUF key "deepseek2.attention.temperature_scale"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := latentGGUF()
			c.spoil(g, func(key string, v any) { g.values["deepseek2."+key] = v })
			_, err := Open(g.write(t))
			if err == nil {
				t.Fatal("the file was accepted")
			}
			var u *UnsupportedError
			if errors.As(err, &u) != c.unsupported || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error should say %q (unsupported feature: %v): %v", c.want, c.unsupported, err)
			}
		})
	}
}
