package linear_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/linear"
)

// tiled are mixtures whose many rows go through the experts in tiles.
func tiled() []mixture {
	m := newMixture(dtypes.Float32, dtypes.Float32, 40, 3, 33, 20, 600, true, true)
	m.residual, m.stacked = true, true
	n := newMixture(dtypes.BFloat16, dtypes.BFloat16, 40, 3, 33, 20, 600, false, false)
	n.float32 = true
	q := newMixture(dtypes.Float32, dtypes.Float32, 40, 3, 64, 32, 600, true, false).inBlocks(blocks.Q8_0, blocks.Q4_0)
	q.slice = 17
	return []mixture{m, n, q}
}

// In tiles, rows have what they have in programs of few rows, and the same bits whichever rows are beside them.
func TestExpertsInTiles(t *testing.T) {
	backend := likeGPU{testenv.XLAWithoutKernels(t)}
	for _, m := range tiled() {
		t.Run(m.String(), func(t *testing.T) {
			few := m
			few.rows = 50
			run, byFew, in := m.compile(t, backend, backend), few.compile(t, backend, backend), m.up[0].in
			rapid.Check(t, func(rt *rapid.T) {
				rows := rapid.IntRange(0, m.rows).Draw(rt, "rows")
				r := m.random(rows, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)))
				if rapid.Bool().Draw(rt, "few experts") {
					for i := range r.experts {
						r.experts[i] = min(r.experts[i], int32(i%m.k))
					}
				}
				got := run(r)
				from := rapid.IntRange(0, rows).Draw(rt, "from")
				if alone := run(r.part(m, from, rows)); !slices.Equal(alone, got[from*in:]) {
					rt.Fatalf("the rows from %d on of %d are other bits alone", from, rows)
				}
				to := min(from+few.rows, rows)
				largest := 1.0
				for _, y := range got {
					largest = max(largest, math.Abs(float64(y)))
				}
				within := largest * max(1e-5, m.up[0].epsilon()*4)
				for i, want := range byFew(r.part(m, from, to)) {
					if y := got[from*in+i]; math.Abs(float64(y-want)) > within {
						rt.Fatalf("value %d of row %d of %d is %g, by few rows %g", i%in, from+i/in, rows, y, want)
					}
				}
			})
		})
	}
}

// A row with what is not a number gives such results, and leaves the others of its tile alone.
func TestTilesNotANumber(t *testing.T) {
	m := tiled()[0]
	r := m.random(m.rows, rand.New(rand.NewPCG(1, 1)))
	for i := range r.experts {
		r.experts[i] = int32(i % m.k)
	}
	r.x[4*33+7] = float32(math.NaN())
	backend := testenv.XLAWithoutKernels(t)
	for i, y := range m.compile(t, backend, backend)(r) {
		if bad := y != y; bad != (i/33 == 4) {
			t.Fatalf("row %d has %g", i/33, y)
		}
	}
}

// Compiled for a TPU and a GPU, tiles read the matrices as they lie: beside them they take the results of pairs.
func TestTilesForAccelerators(t *testing.T) {
	testenv.Slow(t)
	const rows, chosen, experts, in, inner, layers = 1024, 8, 64, 1024, 512, 3
	for _, topology := range []string{"v5e:1x1", "h200:1"} {
		t.Run(topology, func(t *testing.T) {
			view := testenv.Topology(t, topology).Donating(nil).(*xla.View)
			g := NewGraph(view, "experts")
			defer g.Finalize()
			up := linear.NewFormat(view, linear.Matrix{Out: 2 * inner, In: in, GateUp: true, DType: dtypes.BFloat16})
			down := linear.NewFormat(view, linear.Matrix{Out: in, In: inner, DType: dtypes.BFloat16})
			e := linear.Experts{Up: parameters(g, "up", up, layers, experts),
				Down: parameters(g, "down", down, layers, experts), Activation: linear.SiLU}
			at := Parameter(g, "layer", shapes.Make(dtypes.Int32))
			e.Up.At, e.Down.At = []*Node{at}, []*Node{at}
			x := Parameter(g, "x", shapes.Make(dtypes.BFloat16, rows, in))
			routes := linear.Routes{Experts: Parameter(g, "experts", shapes.Make(dtypes.Int32, rows, chosen)),
				Shares: Parameter(g, "shares", shapes.Make(dtypes.Float32, rows, chosen))}
			y := steps(x, func(x *Node) *Node { return e.Apply(x, routes, linear.Options{}) })
			if err := g.Compile(y); err != nil {
				t.Fatal(err)
			}
			// Of all pairs as they are made and as they are added up; experts of a layer take 201 MB.
			checkProgram(t, view, 3*4*rows*chosen*in, up)
		})
	}
}
