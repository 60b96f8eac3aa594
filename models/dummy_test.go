package models

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/quire/quire/models/arch"
)

func TestDummy(t *testing.T) {
	c, err := OpenConfig(filepath.Join(tinyModels, "llama-bias"))
	if err != nil {
		t.Fatal(err)
	}
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	real := openTest(t, filepath.Join(tinyModels, "llama-bias"))
	if !slices.Equal(c.Names(), real.Names()) || c.NumParameters() != real.NumParameters() || c.StoredBytes() != 0 {
		t.Errorf("tensors are %v", c.Names())
	}
	read := func(c *Checkpoint, name string) []float32 {
		t.Helper()
		flat, err := c.Read(name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		return flat.([]float32)
	}
	for _, x := range read(c, arch.NameFinalNorm) {
		if x != 1 {
			t.Fatalf("a norm weight is %v", x)
		}
	}
	for _, x := range read(c, "model.layers.0.mlp.down_proj.bias") {
		if x != 0 {
			t.Fatalf("a bias is %v", x)
		}
	}
	x := read(c, arch.NameEmbedding)
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(x))
	if std := math.Sqrt(squares / n); math.Abs(std-dummyStd) > 0.02*dummyStd ||
		math.Abs(sum/n) > 4*dummyStd/math.Sqrt(n) {
		t.Errorf("mean %g, standard deviation %g", sum/n, std)
	}
	if slices.Equal(x[:100], read(c, arch.NameHead)[:100]) {
		t.Error("two tensors have the same weights")
	}
	if slices.Equal(x, read(Dummy(c.Config, 1), arch.NameEmbedding)) ||
		!slices.Equal(x, read(Dummy(c.Config, 0), arch.NameEmbedding)) {
		t.Error("weights do not depend on the seed alone")
	}
	if Dummy(c.Config, 1).FingerPrint() == Dummy(c.Config, 2).FingerPrint() {
		t.Error("fingerprints do not depend on the seed")
	}
	narrow, err := c.Read(arch.NameEmbedding, dtypes.BFloat16)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]bfloat16.BFloat16, len(x))
	ToBFloat16(want, x)
	if !slices.Equal(narrow.([]bfloat16.BFloat16), want) {
		t.Error("bfloat16 weights are not the rounded float32 ones")
	}
}

// TestSplitReads: the way a read is split between goroutines does not show in its result.
func TestSplitReads(t *testing.T) {
	cfg, err := ParseConfig(base(map[string]any{"vocab_size": 5003, "hidden_size": 40}), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Dummy(cfg, 3)
	flat, err := c.Read(arch.NameEmbedding, dtypes.Float32)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, 5003*40)
	c.tensors[arch.NameEmbedding].decode(want, 0)
	if !slices.Equal(flat.([]float32), want) {
		t.Error("a split read differs")
	}
}

// Experts that are MXFP4 by their config are random blocks, whose numbers are the ones that reading returns.
func TestDummyMXFP4(t *testing.T) {
	c, err := OpenConfig(filepath.Join("testdata", "gpt-oss-mxfp4"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for spec := range c.Config.Tensors() {
		format := c.Blocks(spec.Name)
		if !format.Is() {
			continue
		}
		blocks++
		rows, err := c.ReadBlocks(spec.Name, Span{From: 1, N: 2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		flat, err := c.Read(spec.Name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		width := spec.Shape[1]
		got, want := rows.Floats(), flat.([]float32)[width:3*width]
		if !slices.Equal(got, want) || !slices.ContainsFunc(want, func(x float32) bool { return x != want[0] }) {
			t.Fatalf("%s: the blocks are %v, the numbers %v", spec.Name, got[:8], want[:8])
		}
	}
	if layers := len(c.Config.Layers); blocks != layers*c.Config.Layers[0].Experts.Count*3 {
		t.Errorf("%d matrices of %d layers are blocks", blocks, layers)
	}
}
