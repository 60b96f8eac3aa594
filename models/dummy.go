package models

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
)

// dummyStd is the standard deviation of dummy weights, the usual initializer_range.
const dummyStd = 0.02

// Dummy returns a checkpoint of random weights for cfg, to benchmark a model without its files. Norms multiply by 1,
// biases are 0, all others uniform with mean 0 and standard deviation 0.02, a function of (seed, tensor name, index)
// alone. Nothing is held in memory: each Read generates its tensor.
func Dummy(cfg Config, seed uint64) *Checkpoint {
	c := &Checkpoint{Config: cfg, Ref: fmt.Sprintf("dummy %s, seed %d", cfg.Architecture, seed),
		tensors: map[string]*tensor{}}
	for spec := range cfg.Tensors() {
		t := &tensor{shape: spec.Shape, file: "dummy weights", stored: "random", unit: 1, blockLen: 1, group: 1}
		switch {
		case spec.Part.IsNorm():
			t.decode = func(dst []float32, _ int) { fill(dst, float32(1-cfg.Norm.Offset)) }
		case strings.HasSuffix(spec.Name, ".bias"):
			t.decode = func(dst []float32, _ int) { fill(dst, 0) }
		default:
			h := fnv.New64a()
			h.Write([]byte(spec.Name))
			key := mix(seed ^ h.Sum64())
			t.decode = func(dst []float32, first int) { uniform(dst, key, uint64(first)) }
		}
		c.tensors[spec.Name] = t
	}
	text, _ := json.Marshal(cfg) // a struct of numbers, strings and slices of them
	c.identity = []identityPart{{header: fmt.Appendf(text, " seed %d", seed)}}
	return c.finish()
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
	c := Dummy(cfg, 0)
	if err := c.addFolderText(dir); err != nil {
		return nil, err
	}
	return c, nil
}

func fill(dst []float32, x float32) {
	for i := range dst {
		dst[i] = x
	}
}

// uniform draws from the interval around 0 whose standard deviation is dummyStd.
func uniform(dst []float32, key, first uint64) {
	const width = 2 * dummyStd * 1.7320508075688772 // the interval has 2 sqrt(3) standard deviations
	for i := range dst {
		bits := mix(key+first+uint64(i)) >> 40
		dst[i] = (float32(bits)*0x1p-24 - 0.5) * width
	}
}

// mix is the finalizer of SplitMix64: neighbouring inputs give unrelated outputs.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
