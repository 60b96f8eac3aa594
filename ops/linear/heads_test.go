package linear_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

// heads are the matrices of heads, of one shape.
type heads []layer

func newHeads(dtype dtypes.DType, n, out, in, rows int) (all heads) {
	for i := range n {
		all = append(all, layer{dtype: dtype, weights: dtype, out: out, in: in, rows: rows}.filled(uint64(i)))
	}
	return all
}

// compile returns the products of rows [len, heads, in], of which as many are wanted as are given.
func (h heads) compile(t *testing.T, backend, packer compute.Backend) func(x []float32) []float32 {
	t.Helper()
	l := h[0]
	f := linear.NewFormat(packer, l.matrix())
	var matrices []float32
	for _, l := range h {
		data := flat(make([]float32, f.Shape().Size()), l.weights)
		if err := pack(l, f, packer, data); err != nil {
			t.Fatal(err)
		}
		matrices = append(matrices, widened(data)...)
	}
	g := NewGraph(backend, "heads")
	t.Cleanup(g.Finalize)
	x := Parameter(g, "x", shapes.Make(l.dtype, l.rows, len(h), l.in))
	data := Parameter(g, "matrices", shapes.Make(l.weights, append([]int{len(h)}, f.Shape().Dimensions...)...))
	rows := Parameter(g, "rows", shapes.Make(dtypes.Int32))
	y := linear.ApplyHeads(x, linear.Weight{Format: f, Data: data}, rows)
	if err := g.Compile(ConvertDType(y, dtypes.Float32)); err != nil {
		t.Fatal(err)
	}
	weights := upload(t, backend, flat(matrices, l.weights), data.Shape())
	return func(some []float32) []float32 {
		t.Helper()
		padded := append(slices.Clone(some), make([]float32, l.rows*len(h)*l.in-len(some))...)
		n := len(some) / len(h) / l.in
		args := []compute.Buffer{upload(t, backend, flat(padded, l.dtype), x.Shape()), weights,
			upload(t, backend, []int32{int32(n)}, rows.Shape())}
		out, err := g.Executable().Execute(args, make([]bool, len(args)), 0)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]float32, l.rows*len(h)*l.out)
		if err := out[0].ToFlatData(all); err != nil {
			t.Fatal(err)
		}
		return all[:n*len(h)*l.out]
	}
}

// Each head's products are those with its matrix, in all forms, and the kernel gives rows the same bits alone.
func TestApplyHeads(t *testing.T) {
	for i, dtype := range floats {
		h := newHeads(dtype, 3+i, 37+i, 70, 25)
		random := rand.New(rand.NewPCG(1, uint64(i)))
		x := make([]float32, 23*len(h)*70)
		for i := range x {
			x[i] = float32(random.NormFloat64())
		}
		x = widened(flat(x, dtype))
		kernels, plain := testenv.XLA(t), testenv.XLAWithoutKernels(t)
		for name, run := range map[string]func([]float32) []float32{"kernels": h.compile(t, kernels, kernels),
			"plain": h.compile(t, plain, plain), "packed": h.compile(t, packedBy{plain, kernels}, kernels),
			"go": h.compile(t, testenv.Go(t), testenv.Go(t))} {
			t.Run(name+" "+dtype.String(), func(t *testing.T) {
				got := run(x)
				for at := range 23 * len(h) {
					l := h[at%len(h)]
					l.rows = 1
					l.check(t, got[at*l.out:][:l.out], x[at*l.in:][:l.in], make([]float32, l.out))
				}
				if name != "kernels" {
					return
				}
				for _, from := range []int{1, 7, 22} {
					if !slices.Equal(run(x[from*len(h)*70:]), got[from*len(h)*h[0].out:]) {
						t.Errorf("the rows from %d on are other bits alone", from)
					}
				}
			})
		}
	}
}
