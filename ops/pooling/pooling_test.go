package pooling_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models/sentence"
	"github.com/quire/quire/ops/pooling"
)

// Rows are pooled over their own tokens, in order, by the kernel and by ordinary operations; rows that are not there
// are zeros.
func TestRows(t *testing.T) {
	const tokens, width = 48, 37
	x := make([]float32, tokens*width)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)*1.7)) - 0.2
	}
	firsts, lens := []int32{0, 5, 6, 30, 0, 0}, []int32{5, 1, 20, 3, 9, 0}
	want := func(p sentence.Pooling, row, i int) float32 {
		at := func(token int32) float32 { return x[int(token)*width+i] }
		first, n := firsts[row], lens[row]
		switch p {
		case sentence.CLS:
			return at(first)
		case sentence.Last:
			return at(first + n - 1)
		}
		sum, top := float32(0), float32(math.Inf(-1))
		for k := range n {
			sum, top = sum+at(first+k), max(top, at(first+k))
		}
		if p == sentence.Max {
			return top
		}
		return sum / float32(n)
	}
	for name, backend := range map[string]compute.Backend{"kernel": testenv.XLA(t),
		"plain": testenv.XLAWithoutKernels(t)} {
		for _, p := range sentence.Poolings {
			out, err := ExecOnce(backend, func(in []*Node) *Node {
				return pooling.Rows(in[0], in[1], in[2], in[3], p)
			}, tensors.FromFlatDataAndDimensions(x, tokens, width), tensors.FromFlatDataAndDimensions(firsts, 6),
				tensors.FromFlatDataAndDimensions(lens, 6), tensors.FromScalar(int32(4)))
			if err != nil {
				t.Fatal(err)
			}
			got := tensors.MustCopyFlatData[float32](out)
			for row := range firsts {
				for i := range width {
					expected := float32(0)
					if row < 4 {
						expected = want(p, row, i)
					}
					x, room := got[row*width+i], float32(0)
					if name == "plain" { // XLA multiplies by the reciprocal
						room = 1e-6
					}
					if !(max(x-expected, expected-x) <= room) {
						t.Fatalf("%s, %s: number %d of row %d is %g, want %g", name, p, i, row, x, expected)
					}
				}
			}
		}
	}
}

// Hidden states of 16 bits are summed in float32.
func TestHalves(t *testing.T) {
	x := slices.Repeat([]float32{1}, 600)
	for _, dtype := range []dtypes.DType{dtypes.BFloat16, dtypes.Float16} {
		out, err := ExecOnce(testenv.XLA(t), func(in []*Node) *Node {
			return pooling.Rows(ConvertDType(in[0], dtype), in[1], in[2], in[3], sentence.Mean)
		}, tensors.FromFlatDataAndDimensions(x, 600, 1), tensors.FromFlatDataAndDimensions([]int32{0}, 1),
			tensors.FromFlatDataAndDimensions([]int32{600}, 1), tensors.FromScalar(int32(1)))
		if err != nil {
			t.Fatal(err)
		}
		if got := tensors.MustCopyFlatData[float32](out)[0]; got != 1 {
			t.Errorf("%s: the mean of ones is %g", dtype, got)
		}
	}
}
