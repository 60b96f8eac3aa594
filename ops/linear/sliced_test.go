package linear_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/linear"
)

// likeTPU is a backend that says it is a TPU's.
type likeTPU struct{ compute.Backend }

func (likeTPU) Traits() backend.Traits { return backend.For(backend.TPU) }

// likeGPU is one that says it is a GPU's.
type likeGPU struct{ compute.Backend }

func (likeGPU) Traits() backend.Traits { return backend.For(backend.CUDA) }

// inStacks is the matrix as the last of two that its planes hold.
func inStacks(w linear.Weight) linear.Weight {
	stack := func(x *Node) *Node {
		if x == nil {
			return nil
		}
		return Stack([]*Node{ZerosLike(x), x}, 0)
	}
	w.Data, w.Scales, w.Factors = stack(w.Data), stack(w.Scales), stack(w.Factors)
	w.At = append([]*Node{Const(w.Data.Graph(), int32(1))}, w.At...)
	return w
}

// A matrix in slices, alone or of a stack, has the products of the whole one.
func TestSlices(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 3))
	backend := testenv.XLAWithoutKernels(t)
	formats(t, func(t *testing.T, f blocks.Format) {
		for i, l := range blockLayers(f, 5)[1:] {
			if i > 0 && testing.Short() {
				break
			}
			l.w = widened(flat(l.w, l.dtype))
			format := linear.NewFormat(backend, l.matrix()).Sliced(1 + random.IntN(l.matrix().Columns()-1))
			l.stacked = i%2 == 0
			l.check(t, l.compile(t, backend, format)(l.x, l.r), l.x, l.r)
		}
	})
}

// So have experts whose matrices are in slices.
func TestExpertsInSlices(t *testing.T) {
	backend := testenv.XLAWithoutKernels(t)
	for i, m := range mixtures() {
		if m.up[0].blocks == nil {
			continue
		}
		r := m.random(m.rows, rand.New(rand.NewPCG(4, uint64(i))))
		want := m.compile(t, backend, backend)(r)
		m.slice, m.stacked = 17, true
		got, largest := m.compile(t, backend, backend)(r), 0.0
		for _, v := range want {
			largest = max(largest, math.Abs(float64(v)))
		}
		for i := range want {
			if math.Abs(float64(got[i]-want[i])) > largest*max(1e-5, m.up[0].epsilon()*4) {
				t.Fatalf("%s: value %d is %g in slices, and %g", m, i, got[i], want[i])
			}
		}
	}
}

// TPUs and GPUs multiply bytes of int8 matrices. Their sums are integers, the same bits.
func TestBytesAreMultiplied(t *testing.T) {
	backend := testenv.XLAWithoutKernels(t)
	for i, l := range []layer{{dtype: dtypes.Float32, out: 70, in: 577, residual: true},
		{dtype: dtypes.BFloat16, out: 2 * 50, in: 1536, gateUp: true, activation: linear.SiLU}} {
		l.weights, l.rows = dtypes.Int8, 5
		l = l.filled(uint64(i))
		format := linear.NewFormat(backend, l.matrix())
		want := l.compile(t, backend, format)(l.x, l.r)
		if got := l.compile(t, likeTPU{backend}, format)(l.x, l.r); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", l, got, want)
		}
	}
}

// On TPUs rows of a large matrix are whole registers. What is behind them changes no product.
func TestWideRows(t *testing.T) {
	backend := testenv.XLAWithoutKernels(t)
	for i, l := range []layer{{dtype: dtypes.Float32, out: 70, in: 77, residual: true},
		{dtype: dtypes.BFloat16, out: 2 * 50, in: 130, gateUp: true, activation: linear.SiLU, bias: true},
		{dtype: dtypes.Float32, weights: dtypes.Int8, out: 33, in: 97}} {
		l.rows = 5
		l = l.filled(uint64(i))
		format := linear.NewFormat(backend, l.matrix()).Widened(256)
		l.check(t, l.compile(t, backend, format)(l.x, l.r), l.x, l.r)
	}
	for _, c := range []struct{ out, in, want int }{{201088, 2880, 2944}, {4096, 2880, 2944}, {2048, 2880, 2880},
		{128256, 4096, 4096}} {
		m := linear.Matrix{Out: c.out, In: c.in, DType: dtypes.BFloat16}
		tpu := linear.NewFormat(likeTPU{testenv.Go(t)}, m).Shape().Dimensions
		if other := linear.NewFormat(testenv.Go(t), m).Shape().Dimensions; tpu[1] != c.want || other[1] != c.in {
			t.Errorf("rows of [%d, %d] have %d numbers on a TPU and %d elsewhere, want %d and %d", c.out, c.in, tpu[1],
				other[1], c.want, c.in)
		}
	}
}

// Slices are all of a matrix and little more, where it is large.
func TestSizesOfSlices(t *testing.T) {
	tpu := likeTPU{testenv.Go(t)}
	for _, c := range []struct{ out, in, slices, rows int }{{1024, 8192, 1, 1024}, {65536, 1024, 8, 8192},
		{1024, 32768, 4, 256}, {151936, 2560, 46, 3328}, {128, 1 << 20, 1, 128}, {130, 1 << 20, 2, 128}} {
		f := linear.NewFormat(tpu, linear.Matrix{Out: c.out, In: c.in, DType: dtypes.Uint8, Blocks: blocks.Q8_0})
		dims := f.Shape().Dimensions
		if !f.InSlices() {
			dims = slices.Insert(slices.Clone(dims), 0, 1)
		}
		if got := dims[:2]; !slices.Equal(got, []int{c.slices, c.rows}) || c.slices*c.rows < c.out {
			t.Errorf("[%d, %d] has slices %v, want %d of %d rows", c.out, c.in, got, c.slices, c.rows)
		}
	}
	if f := linear.NewFormat(testenv.Go(t), linear.Matrix{Out: 65536, In: 1024, DType: dtypes.Uint8,
		Blocks: blocks.Q8_0}); f.InSlices() {
		t.Error("a matrix is in slices on the CPU")
	}
}

// checkProgram checks what a program takes beside its arguments and results, and that it copies no plane in slices.
func checkProgram(t *testing.T, view *xla.View, most int64, formats ...linear.Format) {
	t.Helper()
	program := view.Executables()[0]
	memory, err := program.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes of temporaries", memory.Temporary); memory.Temporary > most {
		t.Errorf("it takes %d bytes of temporaries, want at most %d", memory.Temporary, most)
	}
	text, err := program.OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	all := hlo.Read(text)
	fused := all.Fused()
	for name, ops := range all {
		for _, op := range ops {
			for _, f := range formats {
				plane := strings.ReplaceAll(fmt.Sprint(f.Shape().Dimensions), " ", ",")
				if f.InSlices() && !fused[name] && op.Kind == "copy" && strings.Contains(op.Line, plane) {
					t.Errorf("it copies a plane: %s", op.Line)
				}
			}
		}
	}
}

// parameters are those of a matrix, of planes that hold several.
func parameters(g *Graph, name string, f linear.Format, stack ...int) linear.Weight {
	i := 0
	return linear.NewWeight(f, func(suffix string) *Node {
		s := f.Planes()[i].Shape
		i++
		return Parameter(g, name+suffix, shapes.Make(s.DType, slices.Concat(stack, s.Dimensions)...))
	})
}

// steps runs a step several times, in a loop as a job does: XLA turns operands around outside of loops.
func steps(x *Node, step func(x *Node) *Node) *Node {
	type progress struct{ At, X *Node }
	return control.While(progress{ScalarZero(x.Graph(), dtypes.Int32), x},
		func(p progress) *Node { return LessThan(p.At, Scalar(x.Graph(), dtypes.Int32, 5)) },
		func(p progress) progress { return progress{AddScalar(p.At, 1), step(p.X)} }).X
}

// Compiled for a TPU and a GPU, a product takes no more than its results and a slice in floats beside its matrix.
func TestProductsForAccelerators(t *testing.T) {
	testenv.Slow(t)
	const rows = 256
	forms := map[string]linear.Matrix{"int8": {DType: dtypes.Int8}}
	for _, f := range []blocks.Format{blocks.Q8_0, blocks.Q4_0, blocks.Q6_K, blocks.MXFP4, grouped[0], grouped[4]} {
		forms[fmt.Sprint(f, f.Group)] = linear.Matrix{DType: dtypes.Uint8, Blocks: f}
	}
	for _, topology := range []string{"v5e:1x1", "h200:1"} {
		for name, m := range forms {
			t.Run(topology+" "+name, func(t *testing.T) {
				view := testenv.Topology(t, topology).Donating(nil).(*xla.View)
				m.Out, m.In, m.GateUp = 64<<10, 1024, true
				g := NewGraph(view, "linear")
				defer g.Finalize()
				f := linear.NewFormat(view, m)
				x := Parameter(g, "x", shapes.Make(dtypes.BFloat16, rows, m.In))
				w := parameters(g, "w", f)
				y := steps(x, func(x *Node) *Node {
					return SliceAxis(linear.Apply(x, w, linear.Options{Activation: linear.SiLU}), 1, AxisRange(0, m.In))
				})
				if err := g.Compile(y); err != nil {
					t.Fatal(err)
				}
				most := int64(4*rows*m.Out + 1<<20) // all products in float32
				if f.InSlices() {
					most = int64(2*rows*m.Out/2+2*8<<20) + 10<<20 // results and a slice, both in bfloat16
				}
				checkProgram(t, view, most, f)
			})
		}
	}
}

// Experts, whose matrices lie in one plane, and in one of all layers, take that and their matrix as it is stored.
func TestExpertsForAccelerators(t *testing.T) {
	testenv.Slow(t)
	const rows, experts, in, inner, layers = 64, 6, 1024, 8192, 3
	for _, topology := range []string{"v5e:1x1", "h200:1"} {
		for _, f := range []blocks.Format{blocks.Q8_0, blocks.Q4_0} {
			for _, stack := range [][]int{{experts}, {layers, experts}} {
				t.Run(fmt.Sprint(topology, f, stack), func(t *testing.T) {
					view := testenv.Topology(t, topology).Donating(nil).(*xla.View)
					g := NewGraph(view, "experts")
					defer g.Finalize()
					held := linear.Matrix{Out: 2 * inner, In: in, GateUp: true, DType: dtypes.Uint8, Blocks: f}
					up := linear.NewFormat(view, held)
					held.Out, held.In, held.GateUp = in, inner, false
					down := linear.NewFormat(view, held)
					if !up.InSlices() {
						t.Fatal("the matrix is whole")
					}
					e := linear.Experts{Up: parameters(g, "up", up, stack...),
						Down: parameters(g, "down", down, stack...), Activation: linear.SiLU}
					if len(stack) > 1 {
						at := Parameter(g, "layer", shapes.Make(dtypes.Int32))
						e.Up.At, e.Down.At = []*Node{at}, []*Node{at}
					}
					x := Parameter(g, "x", shapes.Make(dtypes.BFloat16, rows, in))
					routes := linear.Routes{Experts: Parameter(g, "experts", shapes.Make(dtypes.Int32, rows, 2)),
						Shares: Parameter(g, "shares", shapes.Make(dtypes.Float32, rows, 2))}
					y := steps(x, func(x *Node) *Node { return e.Apply(x, routes, linear.Options{}) })
					if err := g.Compile(y); err != nil {
						t.Fatal(err)
					}
					checkProgram(t, view, up.Bytes()+24<<20, up)
				})
			}
		}
	}
}
