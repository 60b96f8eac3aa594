package models

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/gguf"
)

// wideGGUF is a model whose rows are whole units of all formats.
func wideGGUF() ggufFile {
	file := tinyGGUF()
	for key, value := range map[string]uint32{"embedding_length": 256, "feed_forward_length": 512} {
		file.values["llama."+key] = value
	}
	for name, dims := range map[string][]int{"token_embd": {16, 256}, "output_norm": {256}, "blk.0.attn_norm": {256},
		"blk.0.attn_q": {256, 256}, "blk.0.attn_k": {128, 256}, "blk.0.attn_v": {128, 256},
		"blk.0.attn_output": {256, 256}, "blk.0.ffn_norm": {256}, "blk.0.ffn_gate": {512, 256},
		"blk.0.ffn_up": {512, 256}, "blk.0.ffn_down": {256, 512}} {
		file.tensors[name+".weight"] = dims
	}
	return file
}

// Blocks as a file has them are the numbers that Read gives, whole and cut.
func TestReadBlocks(t *testing.T) {
	file := wideGGUF()
	for _, typ := range []gguf.Type{gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0, gguf.Q4_K, gguf.Q5_K,
		gguf.Q6_K, gguf.IQ4_NL, gguf.IQ4_XS, gguf.MXFP4} {
		file.types = map[string]gguf.Type{}
		for name, dims := range file.tensors {
			if len(dims) == 2 {
				file.types[name] = typ
			}
		}
		c := openTest(t, file.write(t))
		seen := 0
		for spec := range c.Config.Tensors() {
			format := c.Blocks(spec.Name)
			if !format.Is() {
				continue
			}
			seen++
			flat, err := c.Read(spec.Name, dtypes.Float32)
			if err != nil {
				t.Fatal(err)
			}
			want, rows, width := flat.([]float32), spec.Shape[0], spec.Shape[1]
			whole, err := c.ReadBlocks(spec.Name, Span{N: rows}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if whole.In != width || !slices.Equal(whole.Floats(), want) {
				t.Fatalf("%s in %s is not what is read as float32", spec.Name, format)
			}
			u := format.Unit()
			part, err := c.ReadBlocks(spec.Name, Span{From: 1, N: rows - 1}, []Span{{From: width - u, N: u}})
			if err != nil {
				t.Fatal(err)
			}
			got := part.Floats()
			for row := 1; row < rows; row++ {
				if !slices.Equal(got[(row-1)*u:row*u], want[row*width+width-u:][:u]) {
					t.Fatalf("%s: the last columns of row %d are others", spec.Name, row)
				}
			}
			if _, err := c.ReadBlocks(spec.Name, Span{N: 1}, []Span{{From: 1, N: u}}); err == nil {
				t.Error("columns that cut a unit were read")
			}
		}
		if seen != 8 {
			t.Errorf("%d tensors are in blocks of %s", seen, typ)
		}
	}
}

// A checkpoint is computed in its own dtype by default: in bfloat16 if it is quantized.
func TestOwnDType(t *testing.T) {
	file := wideGGUF()
	of := func(typ gguf.Type) string {
		for name, dims := range file.tensors {
			if len(dims) == 2 {
				file.types[name] = typ
			}
		}
		return file.write(t)
	}
	file.types = map[string]gguf.Type{}
	for path, want := range map[string]dtypes.DType{of(gguf.F32): dtypes.Float32, of(gguf.F16): dtypes.Float16,
		of(gguf.BF16): dtypes.BFloat16, of(gguf.Q4_K): dtypes.BFloat16, of(gguf.Q3_K): dtypes.BFloat16,
		filepath.Join("..", "testdata", "models", "llama3-bf16"): dtypes.BFloat16,
		filepath.Join("..", "testdata", "models", "llama3"):      dtypes.Float32} {
		if got := openTest(t, path).DType(); got != want {
			t.Errorf("%s is computed in %s, want %s", path, got, want)
		}
	}
	gemma := openTest(t, filepath.Join("testdata", "gemma3.gguf"))
	if gemma.Config.DType = dtypes.Float16; gemma.DType() != dtypes.BFloat16 {
		t.Errorf("Gemma's activations are %s, which they exceed", gemma.DType())
	}
}

// An expert is its part of the tensor of all experts, as floats and in blocks.
func TestExpertsInBlocks(t *testing.T) {
	file := wideGGUF()
	mixture(file)
	file.tensors["blk.0.ffn_gate_inp.weight"] = []int{3, 256}
	file.types = map[string]gguf.Type{"blk.0.ffn_gate_exps.weight": gguf.Q4_K, "blk.0.ffn_up_exps.weight": gguf.Q3_K,
		"blk.0.ffn_down_exps.weight": gguf.Q8_0}
	path := file.write(t)
	c := openTest(t, path)
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	class, e := c.Config.Architecture, c.Config.Layers[0].Experts
	if class != "MixtralForCausalLM" || e.Count != 3 || e.Chosen != 2 || e.Size != 512 || !e.Renormalize {
		t.Fatalf("it is a %s of %+v", class, e)
	}
	raw, err := gguf.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	seen := 0
	for spec := range c.Config.Tensors() {
		if spec.Experts == 0 {
			continue
		}
		seen++
		all := raw.Tensor(spec.GGUF)
		want := make([]float32, all.Elements())
		if err := gguf.Dequantize(all.Type, want, all.Data); err != nil {
			t.Fatal(err)
		}
		n := len(want) / spec.Experts
		want = want[spec.Expert*n:][:n]
		got, err := c.Read(spec.Name, dtypes.Float32)
		if err != nil || !slices.Equal(got.([]float32), want) {
			t.Errorf("%s are not expert %d's (%v)", spec.Name, spec.Expert, err)
		}
		if !c.Blocks(spec.Name).Is() {
			continue
		}
		rows, err := c.ReadBlocks(spec.Name, Span{N: spec.Shape[0]}, nil)
		if err != nil || !slices.Equal(rows.Floats(), want) {
			t.Errorf("blocks of %s are not expert %d's (%v)", spec.Name, spec.Expert, err)
		}
	}
	if seen != 9 {
		t.Errorf("there are %d tensors of experts", seen)
	}
}

// Gates and ups of all experts in one tensor stay in its blocks: of an expert all gates, then all ups.
func TestFusedExpertsInBlocks(t *testing.T) {
	file := wideGGUF()
	mixture(file)
	file.tensors["blk.0.ffn_gate_inp.weight"] = []int{3, 256}
	delete(file.tensors, "blk.0.ffn_gate_exps.weight")
	delete(file.tensors, "blk.0.ffn_up_exps.weight")
	const fused = "blk.0.ffn_gate_up_exps.weight"
	file.tensors[fused] = []int{3, 2 * 512, 256}
	file.types = map[string]gguf.Type{fused: gguf.Q8_0, "blk.0.ffn_down_exps.weight": gguf.Q8_0}
	path := file.write(t)
	c := openTest(t, path)
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	raw, err := gguf.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	in := raw.Tensor(fused)
	all := make([]float32, in.Elements())
	if err := gguf.Dequantize(in.Type, all, in.Data); err != nil {
		t.Fatal(err)
	}
	for half, part := range []string{"w1", "w3"} {
		name := "model.layers.0.block_sparse_moe.experts.2." + part + ".weight"
		rows, err := c.ReadBlocks(name, Span{N: 512}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := all[(4+half)*512*256:][:512*256]; !slices.Equal(rows.Floats(), want) {
			t.Errorf("blocks of %s are others", name)
		}
	}
}
