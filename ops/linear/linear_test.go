package linear_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

var floats = []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16}

// layers are fixed and random ones, with every option in each dtype.
func layers(random *rand.Rand, rows int) []layer {
	var all []layer
	for _, dtype := range floats {
		all = append(all,
			layer{dtype: dtype, out: 1, in: 1},
			layer{dtype: dtype, out: 33, in: 63, bias: true},
			layer{dtype: dtype, out: 96, in: 576, residual: true},
			layer{dtype: dtype, out: 2 * 50, in: 65, gateUp: true, activation: linear.SiLU, bias: true,
				residual: true},
			layer{dtype: dtype, out: 17, in: 1536 + 7, float32: true},
		)
		for range 3 {
			is := func() bool { return random.IntN(2) == 1 }
			l := layer{dtype: dtype, out: 1 + random.IntN(300), in: 1 + random.IntN(900), gateUp: is(), bias: is(),
				residual: is(), float32: is()}
			if l.gateUp {
				l.out *= 2
			}
			all = append(all, l)
		}
	}
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		all = append(all,
			layer{dtype: dtype, weights: dtypes.Int8, out: 1, in: 1},
			layer{dtype: dtype, weights: dtypes.Int8, out: 70, in: 577, bias: true, residual: true},
			layer{dtype: dtype, weights: dtypes.Int8, out: 2 * 50, in: 1536, gateUp: true, activation: linear.SiLU,
				bias: true},
			layer{dtype: dtype, weights: dtypes.Int8, out: 1 + random.IntN(300), in: 1 + random.IntN(900),
				float32: true},
		)
	}
	for i, a := range linear.Activations { // each alone and of a pair, at columns that end within a register
		dtype := floats[i%len(floats)]
		all = append(all, layer{dtype: dtype, out: 2 * 37, in: 130, gateUp: true, activation: a, bias: i%2 == 0},
			layer{dtype: dtypes.Float32, weights: dtypes.Int8, out: 2 * 21, in: 64, gateUp: true, activation: a})
		if a != linear.ClampedSwiGLU {
			all = append(all, layer{dtype: dtypes.Float32, out: 37, in: 65, activation: a, residual: true})
		}
	}
	all = append(all,
		layer{dtype: dtypes.Float32, out: 2 * 37, in: 130, gateUp: true, activation: "clamped_swiglu 0.5"},
		layer{dtype: dtypes.Float32, weights: dtypes.Int8, out: 2 * 21, in: 64, gateUp: true,
			activation: "clamped_swiglu 2", bias: true})
	for i := range all {
		all[i].rows = rows
		all[i] = all[i].filled(uint64(i))
	}
	return all
}

// epsilon is half the distance between neighbours, relative to a number.
func (l layer) epsilon() float64 {
	switch {
	case l.float32 || l.dtype == dtypes.Float32:
		return 0x1p-24
	case l.dtype == dtypes.BFloat16:
		return 0x1p-8
	}
	return 0x1p-11
}

// check compares rows with those computed in float64.
func (l layer) check(t *testing.T, got, x, residual []float32) {
	t.Helper()
	columns := l.columns()
	for row := range len(x) / l.in {
		want, magnitude := l.want(x[row*l.in:][:l.in], residual[row*columns:][:columns])
		for i := range want {
			// Rounding of the result, and of the sum's terms on their way.
			within := math.Abs(want[i])*l.epsilon()*1.01 + magnitude[i]*0x1p-24*8 + 1e-7
			if l.dtype == dtypes.Float16 {
				within += 0x1p-14 // XLA takes subnormal numbers for 0
			}
			if v := float64(got[row*columns+i]); !(math.Abs(v-want[i]) <= within) {
				t.Fatalf("row %d, column %d is %g, want %g within %g", row, i, v, want[i], within)
			}
		}
	}
}

// Results are those of float64 within rounding, with kernels and by the plain form of packed and of plain matrices.
func TestApply(t *testing.T) {
	const rows = 21
	random := rand.New(rand.NewPCG(7, 7))
	backend := testenv.XLA(t)
	for _, l := range layers(random, rows) {
		t.Run(l.String(), func(t *testing.T) {
			format := linear.NewFormat(backend, l.matrix())
			if !format.Packed() {
				t.Fatal("the kernels want no packed matrix")
			}
			for _, n := range []int{rows, 1, 7} {
				x, r := l.x[:n*l.in], l.r[:n*l.columns()]
				l.check(t, l.compile(t, backend, format)(x, r), x, r)
			}
		})
	}
}

// The plain form does the same on backends without kernels, whether the matrix is packed or not.
func TestPlainForm(t *testing.T) {
	const rows = 5
	packs := testenv.XLA(t)
	for _, backend := range []compute.Backend{testenv.XLAWithoutKernels(t), testenv.Go(t)} {
		for i, l := range layers(rand.New(rand.NewPCG(8, 8)), rows) {
			if i%4 == 0 && testing.Short() {
				continue
			}
			plain := linear.NewFormat(backend, l.matrix())
			if plain.Packed() {
				t.Fatalf("%s wants packed matrices", backend.Name())
			}
			l.check(t, l.compile(t, backend, plain)(l.x, l.r), l.x, l.r)
			if backend.Name() == "xla" {
				held := packedBy{backend, packs}
				l.check(t, l.compile(t, held, linear.NewFormat(packs, l.matrix()))(l.x, l.r), l.x,
					l.r)
			}
		}
	}
}

// packedBy is a backend that packs as another does, and has no kernels.
type packedBy struct {
	compute.Backend
	linear.Packer
}

// A row's results are the same bits whatever the number of rows and its place among them.
func TestRowsAreIndependent(t *testing.T) {
	const rows = 513
	backend := testenv.XLA(t)
	for i, dtype := range floats {
		for _, l := range []layer{
			{dtype: dtype, out: 160, in: 1537, residual: true},
			{dtype: dtype, out: 2 * 40, in: 577, gateUp: true, activation: linear.SiLU, bias: true},
			{dtype: dtype, weights: dtypes.Int8, out: 130, in: 701, residual: true},
		} {
			l.rows = rows
			l = l.filled(uint64(i))
			run := l.compile(t, backend, linear.NewFormat(backend, l.matrix()))
			columns := l.columns()
			all := run(l.x, l.r)
			for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 18, 24, 25, 64, 95, 96, 97, 100, 128, 192, 193,
				255, 256, 257, 300, 511, 512} {
				if got := run(l.x[:n*l.in], l.r[:n*columns]); !slices.Equal(got, all[:n*columns]) {
					t.Fatalf("%s: %d rows are other bits than among %d", l, n, rows)
				}
				// The same rows at another place.
				from := rows - n
				if got := run(l.x[from*l.in:], l.r[from*columns:]); !slices.Equal(got, all[from*columns:]) {
					t.Fatalf("%s: the last %d rows are other bits alone", l, n)
				}
			}
		}
	}
}

// Results are the same bits on one thread, also where each of several multiplies some rows by all weights.
func TestThreadsGiveTheSame(t *testing.T) {
	const rows = 133
	backend := testenv.XLA(t)
	t.Cleanup(func() { cpukernel.SetThreads(0) })
	for _, l := range layers(rand.New(rand.NewPCG(9, 9)), rows) {
		run := l.compile(t, backend, linear.NewFormat(backend, l.matrix()))
		for _, n := range []int{31, 64, 97, rows} {
			x, r := l.x[:n*l.in], l.r[:n*l.columns()]
			cpukernel.SetThreads(1)
			want := run(x, r)
			cpukernel.SetThreads(2)
			if !slices.Equal(run(x, r), want) {
				t.Fatalf("%s: %d rows are other bits on two threads", l, n)
			}
		}
	}
}

// A row with what is not a number gives such results, and leaves the others alone.
func TestNotANumber(t *testing.T) {
	for _, weights := range []dtypes.DType{dtypes.Float32, dtypes.Int8} {
		for _, backend := range []compute.Backend{testenv.XLA(t), testenv.XLAWithoutKernels(t)} {
			l := layer{dtype: dtypes.Float32, weights: weights, out: 20, in: 33, rows: 9}.filled(5)
			l.x[4*l.in+7] = float32(math.NaN())
			l.x[6*l.in+32] = float32(math.Inf(1))
			got := l.compile(t, backend, linear.NewFormat(backend, l.matrix()))(l.x, l.r)
			for row := range l.rows {
				for _, y := range got[row*l.out:][:l.out] {
					if bad := y-y != 0; bad != (row == 4 || row == 6) {
						t.Fatalf("%s on %s: row %d has %g", weights, backend.Name(), row, y)
					}
				}
			}
		}
	}
}

// Rows are the matrix's own, of packed and plain matrices.
func TestRows(t *testing.T) {
	for _, backend := range []compute.Backend{testenv.XLA(t), testenv.XLAWithoutKernels(t), testenv.Go(t)} {
		for _, weights := range append(slices.Clone(floats), dtypes.Int8) {
			dtype := weights
			if weights == dtypes.Int8 {
				dtype = dtypes.Float32
			}
			l := layer{dtype: dtype, weights: weights, out: 99, in: 75}.filled(3)
			g := NewGraph(backend, "rows")
			format := linear.NewFormat(backend, l.matrix())
			if !format.Packed() {
				format = format.Widened(128)
			}
			w, buffers := l.weight(t, backend, g, format)
			ids := []int32{0, 98, 15, 16, 17, 31, 32, 33, 5, 5, -1, 99}
			y := linear.Rows(w, Const(g, ids), nil, dtype)
			if err := g.Compile(ConvertDType(y, dtypes.Float32)); err != nil {
				t.Fatal(err)
			}
			out, err := g.Executable().Execute(buffers, make([]bool, len(buffers)), 0)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, len(ids)*l.in)
			if err := out[0].ToFlatData(got); err != nil {
				t.Fatal(err)
			}
			for i, id := range ids {
				id = max(0, min(98, id))
				want := slices.Clone(l.w[int(id)*l.in:][:l.in])
				if weights == dtypes.Int8 {
					for k := range want {
						want[k] *= l.scales[id]
					}
				}
				if !slices.Equal(got[i*l.in:][:l.in], want) {
					t.Errorf("%s, %s: row %d is not the matrix's", backend.Name(), weights, id)
				}
			}
			g.Finalize()
		}
	}
}

func TestShapesMustFit(t *testing.T) {
	backend := testenv.Go(t)
	g := NewGraph(backend, "wrong")
	defer func() {
		if recover() == nil {
			t.Error("rows of 5 for a matrix of 6 inputs were taken")
		}
	}()
	format := linear.NewFormat(backend, linear.Matrix{Out: 3, In: 6, DType: dtypes.Float32})
	linear.Apply(Zeros(g, shapes.Make(dtypes.Float32, 2, 5)),
		linear.Weight{Format: format, Data: Zeros(g, format.Shape())}, linear.Options{})
}
