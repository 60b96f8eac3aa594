package linear_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/linear"
)

// Where the experts are multiplied together, a row has the same bits whichever rows are beside it.
func TestExpertsTogether(t *testing.T) {
	plain := testenv.XLAWithoutKernels(t)
	for _, backend := range []compute.Backend{likeTPU{plain}, likeGPU{plain}} {
		for i, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
			m := newMixture(dtype, dtype, 6, 3, 70, 37, 50, i == 0, i == 1)
			m.residual = i == 0
			run, in := m.compile(t, backend, plain), m.up[0].in
			rapid.Check(t, func(rt *rapid.T) {
				rows := rapid.IntRange(0, m.rows).Draw(rt, "rows")
				r := m.random(rows, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)))
				from := rapid.IntRange(0, rows).Draw(rt, "from")
				if got, alone := run(r), run(r.part(m, from, rows)); !slices.Equal(alone, got[from*in:]) {
					rt.Fatalf("the rows from %d on of %d are other bits alone", from, rows)
				}
			})
		}
	}
}

// The experts of Qwen3-30B-A3B on one of four chips of a v6e are read in little more than the time that their bytes
// take, 0.3 GB in 320,000 cycles: so a TPU's compiler expects. One after the other they took 2,080,000. Nothing of them
// is copied out of the stack of layers.
func TestExpertsTogetherForTPU(t *testing.T) {
	testenv.Slow(t)
	const rows, chosen, experts, in, inner, layers = 64, 8, 128, 2048, 192, 4
	for dtype, most := range map[dtypes.DType]int{dtypes.BFloat16: 440_000, dtypes.Int8: 360_000} {
		view := testenv.Topology(t, "v6e:1x1").Donating(nil).(*xla.View)
		g := NewGraph(view, "experts")
		defer g.Finalize()
		up := linear.NewFormat(view, linear.Matrix{Out: 2 * inner, In: in, GateUp: true, DType: dtype})
		down := linear.NewFormat(view, linear.Matrix{Out: in, In: inner, DType: dtype})
		e := linear.Experts{Up: parameters(g, "up", up, layers, experts),
			Down: parameters(g, "down", down, layers, experts), Activation: linear.SiLU}
		routes := linear.Routes{Experts: Parameter(g, "experts", shapes.Make(dtypes.Int32, rows, chosen)),
			Shares: Parameter(g, "shares", shapes.Make(dtypes.Float32, rows, chosen))}
		type progress struct{ Layer, X *Node }
		start := progress{ScalarZero(g, dtypes.Int32), Parameter(g, "x", shapes.Make(dtypes.BFloat16, rows, in))}
		end := control.While(start,
			func(p progress) *Node { return LessThan(p.Layer, Scalar(g, dtypes.Int32, layers)) },
			func(p progress) progress {
				e.Up.At, e.Down.At = []*Node{p.Layer}, []*Node{p.Layer}
				return progress{AddScalar(p.Layer, 1), e.Apply(p.X, routes, linear.Options{})}
			})
		if err := g.Compile(end.X); err != nil {
			t.Fatal(err)
		}
		checkProgram(t, view, 4<<20, up, down)
		text, err := view.Executables()[0].OptimizedHLO()
		if err != nil {
			t.Fatal(err)
		}
		got := hlo.Read(text).Cycles()
		if t.Logf("%s: %d cycles", dtype, got); got > most {
			t.Errorf("%s: the compiler expects %d cycles of a layer, want at most %d", dtype, got, most)
		}
	}
}
