package models

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/quantized"
)

// dummyStd is the standard deviation of dummy weights, the usual initializer_range.
const dummyStd = 0.02

// Random is the encoding of the tensors of dummy weights: see [Checkpoint.Encoding].
const Random = "random"

// Dummy returns a checkpoint of random weights for cfg, to benchmark a model without its files. Norms multiply by 1,
// biases are 0, all others are uniform with mean 0 and standard deviation 0.02, a function of (seed, tensor name,
// index) only. Matrices that are quantized by the config have its form, from the same seed. Nothing is held in
// memory: each Read generates its tensor.
func Dummy(cfg Config, seed uint64) *Checkpoint {
	c := &Checkpoint{Config: cfg, Ref: fmt.Sprintf("dummy %s, seed %d", cfg.Architecture, seed),
		Sentence: defaultSentence(&cfg), tensors: map[string]*tensor{}}
	scheme, err := quantized.Parse(cfg.Quantization)
	if err != nil { // ParseConfig has rejected it already
		scheme = nil
	}
	c.scheme = scheme
	for spec := range cfg.Tensors() {
		if t := dummyPacked(scheme, &cfg, spec, seed); t != nil {
			c.tensors[spec.Name] = t
			continue
		}
		t := &tensor{shape: spec.Shape, file: "dummy weights", stored: Random, unit: 1, blockLen: 1, group: 1}
		switch {
		case spec.Part.IsNorm():
			t.decode = func(dst []float32, _ int) { fill(dst, float32(1-cfg.Norm.Offset)) }
		case strings.HasSuffix(spec.Name, ".bias"):
			t.decode = func(dst []float32, _ int) { fill(dst, 0) }
		case cfg.ExpertBlocks == "mxfp4" && spec.Fused != nil:
			randomMXFP4(t, keyOf(spec.Name, seed))
		default:
			key := keyOf(spec.Name, seed)
			t.decode = func(dst []float32, first int) { uniform(dst, key, uint64(first)) }
		}
		c.tensors[spec.Name] = t
	}
	text, _ := json.Marshal(cfg) // cannot fail: numbers, strings and slices of them
	c.identity = []identityPart{{header: fmt.Appendf(text, " seed %d", seed)}}
	return c.finish()
}

func keyOf(name string, seed uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return mix(seed ^ h.Sum64())
}

// dummyPacked returns a tensor that is quantized by the config; nil for others.
func dummyPacked(scheme *quantized.Scheme, cfg *Config, spec arch.Tensor, seed uint64) *tensor {
	if scheme == nil || len(spec.Shape) != 2 || spec.Part == arch.Embedding || spec.Part == arch.Head ||
		spec.Part.IsRouter() {
		return nil
	}
	number := map[dtypes.DType]blocks.Scale{dtypes.BFloat16: blocks.BF16, dtypes.Float32: blocks.F32}[cfg.DType]
	if number == 0 {
		number = blocks.F16
	}
	key, in := keyOf(spec.Name, seed), uint64(spec.Shape[1])
	m := scheme.Random(strings.TrimSuffix(spec.Name, ".weight"), spec.Shape[0], spec.Shape[1], number,
		func(to []uint8, row, n int) {
			for i := range to {
				to[i] = uint8(mix(key+uint64(row)*in+uint64(i)) >> 40)
			}
		})
	if m == nil {
		return nil
	}
	return packedTensor(&packed{matrix: m}, "dummy weights")
}

// randomMXFP4 makes t a matrix of blocks whose numbers have about the standard deviation of others.
func randomMXFP4(t *tensor, key uint64) {
	const exponent = 120 // 2^-7, times numbers of 2.9 in the mean of squares
	t.stored, t.format, t.unit, t.blockLen = mxfp4, blocks.MXFP4, 32, 32
	quant := func(i int) uint8 { return uint8(mix(key+uint64(i))>>40) & 15 }
	t.decode = func(dst []float32, first int) {
		for i := range dst {
			dst[i] = 0x1p-7 * fp4[quant(first+i)]
		}
	}
	t.unpack = func(to *blocks.Rows, first int) {
		for i := range to.Quants {
			to.Quants[i] = quant(first + i)
		}
		for i := range to.Scales {
			to.Scales[i] = exponent
		}
	}
}

func openDummy(path string) (*Checkpoint, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, configFile)
	}
	dir := filepath.Dir(path)
	cfg, err := readConfigFile(path, filepath.Join(dir, generationFile))
	if err != nil {
		return nil, err
	}
	settings := &Checkpoint{Config: cfg}
	if err := addSentence(settings, dir); err != nil {
		return nil, err
	}
	c := Dummy(settings.Config, 0)
	c.Sentence = settings.Sentence
	if err := addFolderText(c, dir); err != nil {
		return nil, err
	}
	return c, nil
}

func fill(dst []float32, x float32) {
	for i := range dst {
		dst[i] = x
	}
}

// uniform fills dst from the interval around 0 whose standard deviation is dummyStd.
func uniform(dst []float32, key, first uint64) {
	const width = 2 * dummyStd * 1.7320508075688772 // the interval is 2 sqrt(3) standard deviations wide
	for i := range dst {
		bits := mix(key+first+uint64(i)) >> 40
		dst[i] = (float32(bits)*0x1p-24 - 0.5) * width
	}
}

// mix is the finalizer of SplitMix64: adjacent inputs give unrelated outputs.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
