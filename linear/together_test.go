package linear_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
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
