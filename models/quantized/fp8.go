package quantized

import (
	"fmt"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// fp8 is the format of DeepSeek-V3's and Qwen3's FP8 checkpoints: weight F8_E4M3 [out, in] and weight_scale_inv, one
// number for each block of 128 x 128, the last ones truncated. It is also AutoFP8's format: weight_scale is one
// number for all.
type fp8 struct {
	block []int // rows and columns of a block; nil: one number for all
	set   bool  // set if the config has the key
	acts  string
	skips skips
}

const scaleInverse = "weight_scale_inv"

var fp8Suffixes = []string{scaleInverse, weightScale, inputScale, "activation_scale", "k_scale", "v_scale"}

func parseFP8(c *config) (reader, error) {
	q := fp8{block: []int{128, 128}, acts: c.str("activation_scheme", "dynamic"), skips: parseSkips(c)}
	if _, q.set = c.fields["weight_block_size"]; q.set {
		q.block = nil
		c.decode("weight_block_size", &q.block)
	}
	if q.block != nil && (len(q.block) != 2 || q.block[0] < 1 || q.block[1] < 1) {
		return nil, fmt.Errorf("weight_block_size is %v, not two numbers from 1 on", q.block)
	}
	if fmt := c.str("fmt", "e4m3"); fmt != "e4m3" {
		return nil, arch.Unsupported("e4m3 is", "fmt %q", fmt)
	}
	if experts := c.str("expert_dtype", "fp8"); experts != "fp8" {
		return nil, arch.Unsupported("fp8 is", "expert_dtype %q", experts)
	}
	return q, nil
}

func (q fp8) text() string {
	if q.block == nil {
		return "a scale for each matrix"
	}
	return fmt.Sprintf("scales of %d x %d", q.block[0], q.block[1])
}

func (q fp8) asks() []string { return []string{"activations to float8 (" + q.acts + ")"} }

func (q fp8) matrix(_ Module, parts map[string]Tensor) (*Matrix, error) {
	w, ok := parts[weight]
	s, name := parts[scaleInverse], scaleInverse
	if _, there := parts[scaleInverse]; !there {
		s, name = parts[weightScale], weightScale
	}
	if !ok || s.DType == "" {
		return nil, unscaled(w, name)
	}
	single := len(s.Shape) == 0 || len(s.Shape) == 1 && s.Shape[0] == 1
	rows, columns := 0, 0 // rows and columns that share a scale; 0: all
	if q.block != nil && !(single && !q.set) {
		rows, columns = q.block[0], q.block[1]
	}
	return e4m3Matrix(w, name, s, rows, columns)
}

// unscaled returns the error for an 8-bit weight without scales.
func unscaled(w Tensor, scale string) error {
	if w.DType != "" && !w.isFloat() {
		return fmt.Errorf("its numbers are %s, but there is no %s", w.DType, scale)
	}
	return nil
}

// e4m3Matrix returns a matrix of 8-bit floats with one scale for each so many rows and columns; 0 means all.
func e4m3Matrix(w Tensor, name string, s Tensor, rows, columns int) (*Matrix, error) {
	if w.DType != "F8_E4M3" || len(w.Shape) != 2 {
		return nil, arch.Unsupported("F8_E4M3 of two dimensions is", "a quantized weight of dtype %s and shape %v",
			w.DType, w.Shape)
	}
	m := &Matrix{Out: w.Shape[0], In: w.Shape[1], Stored: "F8_E4M3", bits: 8, e4m3: true}
	m.quants = bytesOf(w.Data, m.In, 0)
	if s.DType == "U8" && name == scaleInverse {
		s.DType = "F8_E8M0"
	}
	var err error
	m.scales, err = newGrid(name, s, m.Out, m.In, or(rows, m.Out), or(columns, m.In))
	return m, err
}

func or(n, all int) int {
	if n == 0 {
		return max(all, 1)
	}
	return n
}

// fbgemm is FBGEMM's format: weight F8_E4M3 with a scale for each row.
type fbgemm struct{ skips skips }

func parseFBGEMM(c *config) (reader, error) { return fbgemm{parseSkips(c)}, nil }

func (fbgemm) text() string   { return "a scale for each output" }
func (fbgemm) asks() []string { return []string{"activations to float8 (dynamic, by token)"} }

func (fbgemm) matrix(_ Module, parts map[string]Tensor) (*Matrix, error) {
	w, ok := parts[weight]
	s, scaled := parts[weightScale]
	if !ok || !scaled {
		return nil, unscaled(w, weightScale)
	}
	return e4m3Matrix(w, weightScale, s, 1, 0)
}

func (q fp8) planned(m Module) *planned {
	if q.skips.has(m.Name) {
		return nil
	}
	p := &planned{bits: 8, e4m3: true, number: blocks.F32}
	if q.block != nil {
		p.columns = q.block[1]
	}
	return p
}

func (q fbgemm) planned(m Module) *planned {
	if q.skips.has(m.Name) {
		return nil
	}
	return &planned{bits: 8, e4m3: true, number: blocks.F32}
}
