package linear_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

// mixture is the experts of a layer and numbers for them.
type mixture struct {
	up, down []layer
	rows, k  int
	residual bool
	float32  bool
	slice    int  // rows of a slice of matrices in blocks; 0: they are whole
	stacked  bool // the matrices are those of one of the layers that planes hold
}

func (m mixture) String() string {
	return fmt.Sprintf("%d experts, %s then %s, residual %t", len(m.up), m.up[0], m.down[0], m.residual)
}

func newMixture(dtype, weights dtypes.DType, experts, k, in, inner, rows int, gateUp, bias bool) mixture {
	m := mixture{rows: rows, k: k}
	for e := range experts {
		up := layer{dtype: dtype, weights: weights, in: in, out: inner, bias: bias, activation: linear.SiLU, rows: rows}
		if gateUp {
			up.out, up.gateUp = 2*inner, true
		}
		down := layer{dtype: dtype, weights: weights, in: inner, out: in, bias: bias, float32: true, rows: rows}
		m.up, m.down = append(m.up, up.filled(uint64(2*e))), append(m.down, down.filled(uint64(2*e+1)))
	}
	return m
}

// inBlocks is the mixture with random matrices in blocks, of the first layers and of the second ones.
func (m mixture) inBlocks(up, down blocks.Format) mixture {
	for e := range m.up {
		m.up[e], m.down[e] = m.up[e].inBlocks(up, uint64(2*e)), m.down[e].inBlocks(down, uint64(2*e+1))
	}
	return m
}

// routed is what rows are given.
type routed struct {
	x, residual []float32
	experts     []int32
	shares      []float32
}

func (m mixture) random(rows int, random *rand.Rand) routed {
	var r routed
	in, dtype := m.up[0].in, m.up[0].dtype
	for range rows * in {
		r.x, r.residual = append(r.x, float32(random.NormFloat64())), append(r.residual, float32(random.NormFloat64()))
	}
	r.x, r.residual = widened(flat(r.x, dtype)), widened(flat(r.residual, dtype))
	for range rows {
		chosen := random.Perm(len(m.up))[:m.k]
		slices.Sort(chosen)
		for _, e := range chosen {
			if random.IntN(8) == 0 {
				e = []int{-1, len(m.up)}[random.IntN(2)]
			}
			r.experts, r.shares = append(r.experts, int32(e)), append(r.shares, random.Float32())
		}
	}
	return r
}

// part is some rows of r.
func (r routed) part(m mixture, from, to int) routed {
	in := m.up[0].in
	return routed{x: r.x[from*in : to*in], residual: r.residual[from*in : to*in], experts: r.experts[from*m.k : to*m.k],
		shares: r.shares[from*m.k : to*m.k]}
}

// compile returns the mixture as a function of rows.
func (m mixture) compile(t testing.TB, backend compute.Backend, packer compute.Backend) func(routed) []float32 {
	t.Helper()
	g := NewGraph(backend, "experts")
	t.Cleanup(g.Finalize)
	var buffers []compute.Buffer
	array := func(name string, data any, dtype dtypes.DType, dims ...int) *Node {
		n := Parameter(g, name, shapes.Make(dtype, dims...))
		buffers = append(buffers, upload(t, backend, data, n.Shape()))
		return n
	}
	weight := func(name string, of []layer) (linear.Weight, *Node) {
		l := of[0]
		f := linear.NewFormat(packer, l.matrix())
		if l.blocks != nil {
			if m.slice > 0 {
				f = f.Sliced(m.slice)
			}
			return m.blocksWeight(t, name, of, f, packer, array), nil
		}
		size := f.Shape().Size()
		var all, scales, bias []float32
		for _, l := range of {
			data := flat(make([]float32, size), l.weights)
			if err := pack(l, f, packer, data); err != nil {
				t.Fatal(err)
			}
			all, scales, bias = append(all, widened(data)...), append(scales, l.scales...), append(bias, l.b...)
		}
		w := linear.Weight{Format: f, Data: array(name, flat(all, l.weights), l.weights,
			append([]int{len(of)}, f.Shape().Dimensions...)...)}
		if l.weights == dtypes.Int8 {
			w.Scales = array(name+"_scales", scales, dtypes.Float32, len(of), l.out)
		}
		if !l.bias {
			return w, nil
		}
		return w, array(name+"_bias", flat(bias, l.dtype), l.dtype, len(of), l.out)
	}
	var e linear.Experts
	e.Up, e.UpBias = weight("up", m.up)
	e.Down, e.DownBias = weight("down", m.down)
	if m.stacked {
		e.Up, e.Down = inStacks(e.Up), inStacks(e.Down)
	}
	e.Activation = m.up[0].activation
	in, dtype := m.up[0].in, m.up[0].dtype
	x := Parameter(g, "x", shapes.Make(dtype, m.rows, in))
	residual := Parameter(g, "residual", x.Shape())
	routes := linear.Routes{Experts: Parameter(g, "experts", shapes.Make(dtypes.Int32, m.rows, m.k)),
		Shares: Parameter(g, "shares", shapes.Make(dtypes.Float32, m.rows, m.k))}
	o := linear.Options{Rows: Parameter(g, "rows", shapes.Make(dtypes.Int32)), Float32: m.float32}
	if m.residual {
		o.Residual = residual
	}
	if err := g.Compile(ConvertDType(e.Apply(x, routes, o), dtypes.Float32)); err != nil {
		t.Fatal(err)
	}
	return func(r routed) []float32 {
		t.Helper()
		pad := func(x []float32, n int) []float32 { return append(slices.Clone(x), make([]float32, n-len(x))...) }
		args := append(slices.Clip(buffers), upload(t, backend, flat(pad(r.x, m.rows*in), dtype), x.Shape()),
			upload(t, backend, flat(pad(r.residual, m.rows*in), dtype), x.Shape()),
			upload(t, backend, append(slices.Clone(r.experts), make([]int32, m.rows*m.k-len(r.experts))...),
				routes.Experts.Shape()),
			upload(t, backend, pad(r.shares, m.rows*m.k), routes.Shares.Shape()),
			upload(t, backend, []int32{int32(len(r.experts) / m.k)}, o.Rows.Shape()))
		out, err := g.Executable().Execute(args, make([]bool, len(args)), 0)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]float32, m.rows*in)
		if err := out[0].ToFlatData(all); err != nil {
			t.Fatal(err)
		}
		for _, b := range append(args[len(buffers):], out...) {
			_ = b.Finalize()
		}
		return all[:len(r.x)]
	}
}

// blocksWeight is the weight of layers in blocks.
func (m mixture) blocksWeight(t testing.TB, name string, of []layer, f linear.Format, packer compute.Backend,
	array func(name string, data any, dtype dtypes.DType, dims ...int) *Node) linear.Weight {
	i := 0
	return linear.NewWeight(f, func(suffix string) *Node {
		shape := f.Planes()[i].Shape
		size := shape.Size()
		all := reflect.MakeSlice(reflect.SliceOf(shape.DType.GoType()), len(of)*size, len(of)*size)
		for e, l := range of {
			if err := f.PackBlocks(packer, i, all.Slice(e*size, (e+1)*size).Interface(), l.blocks, 0); err != nil {
				t.Fatal(err)
			}
		}
		i++
		return array(name+suffix, all.Interface(), shape.DType, append([]int{len(of)}, shape.Dimensions...)...)
	})
}

// byApply is the sum of what the layers do one by one.
func (m mixture) byApply(t testing.TB, backend compute.Backend) func(routed) []float32 {
	var up, down []func(x, residual []float32) []float32
	for e := range m.up {
		up = append(up, m.up[e].compile(t, backend, linear.NewFormat(backend, m.up[e].matrix())))
		down = append(down, m.down[e].compile(t, backend, linear.NewFormat(backend, m.down[e].matrix())))
	}
	in, dtype := m.up[0].in, m.up[0].dtype
	return func(r routed) []float32 {
		sum := make([]float32, len(r.x))
		for i, e := range r.experts {
			if e < 0 || int(e) >= len(m.up) {
				continue
			}
			row := i / m.k
			y := down[e](up[e](r.x[row*in:][:in], nil), nil)
			for c, v := range y {
				sum[row*in+c] += float32(r.shares[i] * v)
			}
		}
		if m.residual {
			for i := range sum {
				sum[i] += r.residual[i]
			}
		}
		if m.float32 {
			return sum
		}
		return widened(flat(sum, dtype))
	}
}

// same compares with byApply, whose library for float16 takes another neighbour
// at times and zero for subnormal numbers.
func (m mixture) same(a, b float32) bool {
	return a == b || m.up[0].dtype == dtypes.Float16 && math.Abs(float64(a-b)) <= 0x1p-10*math.Abs(float64(a))+1e-3
}

func mixtures() []mixture {
	var all []mixture
	for i, dtype := range append(slices.Clone(floats), dtypes.Int8) {
		weights := dtype
		if dtype == dtypes.Int8 {
			dtype = dtypes.Float32
		}
		m := newMixture(dtype, weights, 6, 3, 70+i, 37, 50, true, i%2 == 0)
		m.residual = i != 1
		all = append(all, m)
		m = newMixture(dtype, weights, 3, 1, 33, 20, 20, false, i%2 == 1)
		m.float32 = true
		all = append(all, m)
	}
	for i, f := range [][2]blocks.Format{{blocks.Q8_0, blocks.Q4_0}, {blocks.Q4_K, blocks.Q6_K},
		{blocks.MXFP4, blocks.Q4_1}} {
		m := newMixture(floats[i], floats[i], 4, 2, 3*f[0].Unit(), f[1].Unit(), 50, i != 2, false).inBlocks(f[0], f[1])
		m.residual = i == 1
		all = append(all, m)
	}
	return all
}

// With kernels a row is the sum of what its experts' layers make of it alone, to the bit.
func TestExperts(t *testing.T) {
	backend := testenv.XLA(t)
	for _, m := range mixtures() {
		t.Run(m.String(), func(t *testing.T) {
			run, want := m.compile(t, backend, backend), m.byApply(t, backend)
			rapid.Check(t, func(rt *rapid.T) {
				rows := rapid.IntRange(0, m.rows).Draw(rt, "rows")
				r := m.random(rows, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)))
				got := run(r)
				from := rapid.IntRange(0, rows).Draw(rt, "from")
				if alone := run(r.part(m, from, rows)); !slices.Equal(alone, got[from*m.up[0].in:]) {
					rt.Fatalf("the rows from %d on of %d are other bits alone", from, rows)
				}
				if rows > 0 {
					of, sum := got[(rows-1)*m.up[0].in:], want(r.part(m, rows-1, rows))
					if !slices.EqualFunc(of, sum, m.same) {
						rt.Fatalf("row %d of %d is %v, its experts' sum %v", rows-1, rows, of, sum)
					}
				}
			})
		})
	}
}

// The plain form does the same within rounding, on packed matrices too.
func TestExpertsPlain(t *testing.T) {
	kernels := testenv.XLA(t)
	for i, m := range mixtures() {
		r := m.random(m.rows-3, rand.New(rand.NewPCG(1, uint64(i))))
		want := m.compile(t, kernels, kernels)(r)
		plain := testenv.XLAWithoutKernels(t)
		for name, got := range map[string][]float32{"xla": m.compile(t, plain, plain)(r),
			"tpu":    m.compile(t, likeTPU{plain}, plain)(r),
			"gpu":    m.compile(t, likeGPU{plain}, plain)(r),
			"packed": m.compile(t, packedBy{plain, kernels}, kernels)(r),
			"go":     m.compile(t, testenv.Go(t), testenv.Go(t))(r)} {
			largest := 0.0
			for _, v := range want {
				largest = max(largest, math.Abs(float64(v)))
			}
			within := largest * 1e-5
			if m.up[0].dtype != dtypes.Float32 { // inner rows are rounded, some to the neighbour
				within = largest * m.up[0].epsilon() * 4
			} else if m.up[0].weights == dtypes.Int8 {
				within = largest * 0x1p-7
			}
			if m.up[0].blocks != nil { // kernels round the rows of both layers to 8 bits, the plain form does not
				within = largest * 0x1p-5
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > within {
					t.Fatalf("%s, %s: value %d is %g, want %g within %g", name, m, i, got[i], want[i], within)
				}
			}
		}
	}
}

// A row with what is not a number gives such results, and leaves the others alone. So does an expert whose products are
// infinite, which no row goes to.
func TestExpertsNotANumber(t *testing.T) {
	plain := testenv.XLAWithoutKernels(t)
	for _, backend := range []compute.Backend{testenv.XLA(t), plain, likeTPU{plain}, likeGPU{plain}} {
		m := newMixture(dtypes.Float32, dtypes.Float32, 4, 2, 33, 20, 9, true, false)
		for i := range m.up[2].w {
			m.up[2].w[i] = math.MaxFloat32
		}
		r := m.random(9, rand.New(rand.NewPCG(1, 1)))
		for i := range r.experts {
			r.experts[i] = int32(i % 2)
		}
		r.x[4*33+7] = float32(math.NaN())
		for row, got := 0, m.compile(t, backend, backend)(r); row < 9; row++ {
			for _, y := range got[row*33:][:33] {
				if bad := y != y; bad != (row == 4) {
					t.Fatalf("%s: row %d has %g", backend.Name(), row, y)
				}
			}
		}
	}
}
