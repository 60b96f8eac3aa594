package models

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/gguf"
)

// deltaGGUF is a model of one layer, a gated delta net with 2 key heads and 6 value heads of 128, whose rows are whole
// units of all formats, and of a layer that predicts more than one token.
func deltaGGUF() ggufFile {
	g := ggufFile{
		values: map[string]any{"general.architecture": "qwen35",
			"qwen35.attention.layer_norm_rms_epsilon": float32(1e-6)},
		tensors: map[string][]int{"token_embd": {16, 256}, "output_norm": {256}, "blk.0.attn_norm": {256},
			"blk.0.post_attention_norm": {256}, "blk.0.ssm_a": {6}, "blk.0.ssm_dt.bias": {6}, "blk.0.ssm_norm": {128},
			"blk.0.ssm_conv1d": {1280, 4}, "blk.0.attn_qkv": {1280, 256}, "blk.0.attn_gate": {768, 256},
			"blk.0.ssm_alpha": {6, 256}, "blk.0.ssm_beta": {6, 256}, "blk.0.ssm_out": {256, 768},
			"blk.0.ffn_gate": {512, 256}, "blk.0.ffn_up": {512, 256}, "blk.0.ffn_down": {256, 512},
			"blk.1.attn_q": {512, 256}, "blk.1.nextn.eh_proj": {256, 512}},
		types: map[string]gguf.Type{},
	}
	for key, n := range map[string]uint32{"block_count": 2, "nextn_predict_layers": 1, "context_length": 64,
		"embedding_length": 256, "feed_forward_length": 512, "attention.head_count": 2, "attention.head_count_kv": 1,
		"ssm.conv_kernel": 4, "ssm.state_size": 128, "ssm.group_count": 2, "ssm.time_step_rank": 6,
		"ssm.inner_size": 768, "full_attention_interval": 4} {
		g.values["qwen35."+key] = n
	}
	for name := range maps.Clone(g.tensors) {
		if name != "blk.0.ssm_a" && name != "blk.0.ssm_dt.bias" {
			g.tensors[name+".weight"] = g.tensors[name]
			delete(g.tensors, name)
		}
	}
	return g
}

// Matrices of delta nets whose value heads a GGUF file has in another order stay in its blocks, with rows in theirs.
func TestDeltaNetInBlocks(t *testing.T) {
	for typ, format := range map[gguf.Type]blocks.Format{gguf.Q8_0: blocks.Q8_0, gguf.Q4_K: blocks.Q4_K,
		gguf.Q6_K: blocks.Q6_K} {
		g := deltaGGUF()
		for name, dims := range g.tensors {
			if len(dims) == 2 && dims[1] != 4 {
				g.types[name] = typ
			}
		}
		path := g.write(t)
		c := openTest(t, path)
		if warnings, err := c.Validate(); err != nil || len(warnings) > 0 || c.Config.NumLayers != 1 ||
			c.DType() != dtypes.BFloat16 {
			t.Fatalf("%d layers in %s, warnings %v, error %v", c.Config.NumLayers, c.DType(), warnings, err)
		}
		file, err := gguf.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		stored := func(name string, row, width int) []float32 {
			values, in := make([]float32, width), file.Tensor("blk.0."+name+".weight")
			size := len(in.Data) / in.Dims[0]
			if err := gguf.Dequantize(in.Type, values, in.Data[row*size:][:size]); err != nil {
				t.Fatal(err)
			}
			return values
		}
		seen := 0
		for want := range c.Config.Tensors() {
			first, in, each := 0, "", 1
			switch want.Part {
			case arch.DeltaV:
				first, in, each = 512, "attn_qkv", 128
			case arch.DeltaGate:
				in, each = "attn_gate", 128
			case arch.DeltaLearn:
				in = "ssm_beta"
			case arch.DeltaStep:
				in = "ssm_alpha"
			case arch.DeltaOut, arch.DeltaQ, arch.DeltaK:
			default:
				continue
			}
			if seen++; c.Blocks(want.Name) != format {
				t.Errorf("%s is in blocks of %s, stored as %s", want.Name, c.Blocks(want.Name), format)
			}
			if in == "" {
				continue
			}
			flat, err := c.Read(want.Name, dtypes.Float32)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := c.ReadBlocks(want.Name, Span{From: 3 * each, N: each}, []Span{{N: 256}})
			if err != nil {
				t.Fatal(err)
			}
			for head := range 6 { // three of the first key head, three of the second
				at := []int{0, 2, 4, 1, 3, 5}[head]
				row := stored(in, first+at*each+each-1, 256)
				if !slices.Equal(flat.([]float32)[(head*each+each-1)*256:][:256], row) {
					t.Errorf("%s: head %d is not the one at %d", want.Name, head, at)
				}
				if head == 3 && !slices.Equal(kept.Floats()[(each-1)*256:], row) {
					t.Errorf("%s: head %d has other blocks", want.Name, head)
				}
			}
		}
		if seen != 7 {
			t.Errorf("%d matrices", seen)
		}
	}
}

func TestDeltaNetOfGGUFRefusals(t *testing.T) {
	for want, spoil := range map[string]func(g ggufFile){
		"ssm.inner_size is 767 for 6 heads": func(g ggufFile) { g.values["qwen35.ssm.inner_size"] = uint32(767) },
		"nextn_predict_layers is 2 of 2 layers": func(g ggufFile) {
			g.values["qwen35.nextn_predict_layers"] = uint32(2)
		},
		"6 value heads, no multiple of its 4 key heads": func(g ggufFile) {
			g.values["qwen35.ssm.group_count"] = uint32(4)
		},
		"0 key heads": func(g ggufFile) { delete(g.values, "qwen35.ssm.group_count") },
		"0 taps":      func(g ggufFile) { delete(g.values, "qwen35.ssm.conv_kernel") },
		"reordering": func(g ggufFile) {
			g.values["qwen35.ssm.time_step_rank"], g.values["qwen35.ssm.inner_size"] = uint32(32), uint32(4096)
			g.tensors["blk.0.attn_qkv.weight"] = []int{512 + 4096, 256}
			g.tensors["blk.0.ssm_a"], g.types["blk.0.ssm_a"] = []int{32}, gguf.Q8_0
		},
	} {
		g := deltaGGUF()
		spoil(g)
		_, err := Open(g.write(t))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error should say %q: %v", want, err)
		}
		var u *UnsupportedError
		if errors.As(err, &u) != (want == "reordering") {
			t.Errorf("an unsupported feature or not: %v", err)
		}
	}
}

// Qwen3-Next's first GGUF files have all inputs of a delta net in one matrix, by key heads; later ones have two.
func TestDeltaNetInOneMatrix(t *testing.T) {
	g := deltaGGUF()
	for key, v := range maps.Clone(g.values) {
		if rest, ok := strings.CutPrefix(key, "qwen35."); ok {
			g.values["qwen3next."+rest] = v
		}
	}
	g.values["general.architecture"], g.values["qwen3next.expert_count"] = "qwen3next", uint32(3)
	g.values["qwen3next.expert_used_count"] = uint32(2)
	g.tensors["blk.0.ssm_ba.weight"], g.tensors["blk.0.ssm_in.weight"] = []int{12, 256}, []int{2048, 256}
	g.tensors["blk.0.ffn_gate_inp.weight"] = []int{3, 256}
	for _, part := range []string{"gate", "up", "down"} {
		name := "blk.0.ffn_" + part
		g.tensors[name+"_exps.weight"] = append([]int{3}, g.tensors[name+".weight"]...)
		delete(g.tensors, name+".weight")
	}
	for _, name := range []string{"attn_qkv", "attn_gate", "ssm_alpha", "ssm_beta"} {
		delete(g.tensors, "blk.0."+name+".weight")
	}
	g.types["blk.0.ssm_in.weight"] = gguf.Q8_0
	c := openTest(t, g.write(t))
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	in := c.tensors["model.layers.0.linear_attn.q.weight"]
	values := make([]float32, 256)
	for name, row := range map[string]int{"q": 0, "k": 128, "v": 256, "z": 640} { // of 1024 for each key head
		name = "model.layers.0.linear_attn." + name + ".weight"
		if c.Blocks(name) != blocks.Q8_0 {
			t.Errorf("%s is in blocks of %s", name, c.Blocks(name))
		}
		first := c.Shape(name)[0]/2 + 7 // the second key head's
		flat, err := c.ReadRows(name, dtypes.Float32, Span{From: first, N: 1})
		if err != nil {
			t.Fatal(err)
		}
		from := (1024 + row + 7) * 256 / 32 * 34
		if err := gguf.Dequantize(gguf.Q8_0, values, in.data[from:from+256/32*34]); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(flat.([]float32), values) {
			t.Errorf("%s has other rows", name)
		}
	}
}
