package decoder

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// random returns numbers of a wide range of sizes.
func random(r *rand.Rand, dims ...int) *tensors.Tensor {
	n := 1
	for _, d := range dims {
		n *= d
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp(r.NormFloat64()))
	}
	return tensors.FromFlatDataAndDimensions(x, dims...)
}

// rowsOf is one graph that is run for the leading rows of its arguments.
type rowsOf struct {
	t    *testing.T
	exec *Exec
}

// newRowsOf compiles f with its float inputs rounded to a dtype and its results made float32. The last input is the
// number of rows.
func newRowsOf(t *testing.T, b *xla.Backend, dtype dtypes.DType, f func(in []*Node) []*Node) rowsOf {
	t.Helper()
	exec, err := NewExec(b, func(in []*Node) []*Node {
		for i, x := range in[:len(in)-1] {
			in[i] = ConvertDType(x, dtype)
		}
		out := f(in)
		for i, x := range out {
			out[i] = ConvertDType(x, dtypes.Float32)
		}
		return out
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return rowsOf{t, exec}
}

// run returns the first `rows` rows of all results.
func (r rowsOf) run(rows int, args ...*tensors.Tensor) [][]float32 {
	r.t.Helper()
	var inputs []any
	for _, a := range args { // a tensor belongs to the first backend that it is given to
		c, err := a.LocalClone()
		if err != nil {
			r.t.Fatal(err)
		}
		inputs = append(inputs, c)
	}
	out, err := r.exec.Exec(append(inputs, int32(rows))...)
	if err != nil {
		r.t.Fatal(err)
	}
	var all [][]float32
	for _, o := range out {
		flat := tensors.MustCopyFlatData[float32](o)
		all = append(all, flat[:len(flat)/o.Shape().Dimensions[0]*rows])
	}
	return all
}

// same compares results bit by bit.
func same(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	for i := range want {
		for j := range want[i] {
			if math.Float32bits(got[i][j]) != math.Float32bits(want[i][j]) {
				t.Fatalf("%s: number %d of result %d is %g, was %g", what, j, i, got[i][j], want[i][j])
			}
		}
	}
}

// near compares results of two forms, which may round a number of this dtype, and one before it, differently.
func near(t *testing.T, what string, dtype dtypes.DType, got, want [][]float32) {
	t.Helper()
	unit := map[dtypes.DType]float64{dtypes.Float32: 0x1p-23, dtypes.BFloat16: 0x1p-7, dtypes.Float16: 0x1p-10}[dtype]
	for i := range want {
		scale := 0.0
		for _, x := range want[i] {
			scale = max(scale, math.Abs(float64(x)))
		}
		for j := range want[i] {
			g, w := float64(got[i][j]), float64(want[i][j])
			// A rotation adds two products, so the error is that of the larger one.
			if !(math.Abs(g-w) <= unit*(2*math.Abs(w)+0.1*scale)) {
				t.Fatalf("%s: number %d of result %d is %g, want %g", what, j, i, g, w)
			}
		}
	}
}

var floats = []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16}

// takeRow is one row of x as an array of one row.
func takeRow(x *tensors.Tensor, row int) *tensors.Tensor {
	dims := append([]int{1}, x.Shape().Dimensions[1:]...)
	flat := tensors.MustCopyFlatData[float32](x)
	size := len(flat) / x.Shape().Dimensions[0]
	return tensors.FromFlatDataAndDimensions(flat[row*size:(row+1)*size], dims...)
}

// checkRows compares the kernel with the plain form, and a row of it with itself among fewer rows, at a different
// place and alone. varying reports which arguments have rows.
func checkRows(t *testing.T, what string, dtype dtypes.DType, rows, varying int, f func(in []*Node) []*Node,
	args ...*tensors.Tensor) {
	t.Helper()
	kernel, plain := newRowsOf(t, testenv.XLA(t), dtype, f), newRowsOf(t, testenv.XLAWithoutKernels(t), dtype, f)
	all := kernel.run(rows, args...)
	near(t, what, dtype, all, plain.run(rows, args...))
	for _, n := range []int{1, rows / 2} {
		part := kernel.run(n, args...)
		for i := range part {
			same(t, fmt.Sprintf("%s, %d rows", what, n), part[i:i+1], [][]float32{all[i][:len(part[i])]})
		}
	}
	row := rows - 1
	alone := slices.Clone(args)
	for i := range varying {
		alone[i] = takeRow(args[i], row)
	}
	for i, x := range kernel.run(1, alone...) {
		same(t, what+", alone", [][]float32{x}, [][]float32{all[i][row*len(x):]})
	}
}

func TestRMSNormKernel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i, dims := range [][]int{{300, 576}, {7, 3, 20}, {5, 8}, {3, 2, 64}, {9, 1}} {
		for j, dtype := range floats {
			if i > 1 && j != i-2 {
				continue // Each is a program to compile.
			}
			f := func(in []*Node) []*Node { return []*Node{rmsNorm(in[0], in[1], 1e-5, in[2])} }
			if i == 1 && dtype != dtypes.Float32 { // a product in float32
				f = func(in []*Node) []*Node {
					return []*Node{rmsNorm(in[0], ConvertDType(in[1], dtypes.Float32), 1e-5, in[2])}
				}
			}
			checkRows(t, fmt.Sprintf("%s %v", dtype, dims), dtype, dims[0], 1, f, random(r, dims...),
				random(r, dims[len(dims)-1]))
		}
	}
}

func TestLayerNormKernel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i, dims := range [][]int{{300, 576}, {7, 3, 20}, {3, 64}} {
		dtype, wide := floats[i], func(x *Node) *Node { return ConvertDType(x, dtypes.Float32) }
		f := func(in []*Node) []*Node { return []*Node{layerNorm(in[0], wide(in[1]), wide(in[2]), 1e-5, in[3])} }
		width := dims[len(dims)-1]
		checkRows(t, fmt.Sprintf("%s %v", dtype, dims), dtype, dims[0], 1, f, random(r, dims...), random(r, width),
			random(r, width))
	}
}

func TestSplitHeadsKernel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		rows int
		cfg  models.Config
	}{
		{200, models.Config{NumHeads: 9, NumKVHeads: 3, HeadDim: 64}},
		{6, models.Config{NumHeads: 2, NumKVHeads: 2, HeadDim: 8}},
		{4, models.Config{NumHeads: 4, NumKVHeads: 1, HeadDim: 40}},
	} {
		c.cfg.RMSNormEps = 1e-6
		for _, dtype := range floats {
			for i, with := range []struct{ rotate, norm, wide, part bool }{{rotate: true, norm: true}, {rotate: true},
				{rotate: true, norm: true, wide: true, part: true}, {rotate: true, part: true}, {norm: true}, {}} {
				if i > 0 && dtype != dtypes.BFloat16 || i > 1 && c.rows != 6 {
					continue
				}
				half := c.cfg.HeadDim / 2
				if with.part {
					half = max(1, half/2)
				}
				f := func(in []*Node) []*Node {
					var turn *rotation
					var qNorm, kNorm *Node
					if with.rotate {
						turn = &rotation{ConvertDType(in[1], dtypes.Float32), ConvertDType(in[2], dtypes.Float32)}
					}
					if with.norm {
						qNorm, kNorm = in[3], in[4]
					}
					if with.wide {
						qNorm, kNorm = ConvertDType(qNorm, dtypes.Float32), ConvertDType(kNorm, dtypes.Float32)
					}
					q, k, v := splitHeads(c.cfg, in[0], qNorm, kNorm, turn, in[5])
					return []*Node{q, k, v}
				}
				width := (c.cfg.NumHeads + 2*c.cfg.NumKVHeads) * c.cfg.HeadDim
				checkRows(t, fmt.Sprintf("%s, heads of %d, %+v", dtype, c.cfg.HeadDim, with), dtype, c.rows, 3, f,
					random(r, c.rows, width), random(r, c.rows, half), random(r, c.rows, half),
					random(r, c.cfg.HeadDim), random(r, c.cfg.HeadDim))
			}
		}
	}
}
