package recurrence_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/models/recurrence"
)

// shortConv is the operation with random taps, and what it should make of a whole sequence, in float64.
func shortConv(channels, k int, dtype dtypes.DType, random *rand.Rand) (operation, func(in [][]float32) [][]float64) {
	taps := make([]float32, channels*k)
	for i := range taps {
		taps[i] = float32(random.NormFloat64())
	}
	o := operation{width: 3 * channels, out: channels, state: (k - 1) * channels, dtype: dtype,
		weights: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(taps, channels, k)},
		build: func(in, cache *Node, weights []*Node, rows recurrence.Rows) (out, after *Node) {
			return recurrence.ShortConv(in, ConvertDType(weights[0], dtype), cache, rows)
		}}
	return o, func(in [][]float32) [][]float64 {
		out := make([][]float64, len(in))
		for t := range in {
			out[t] = make([]float64, channels)
			for c := range channels {
				sum := 0.0
				for i := range k {
					if from := t - (k - 1 - i); from >= 0 {
						sum += float64(in[from][c]) * float64(in[from][2*channels+c]) * float64(taps[c*k+i])
					}
				}
				out[t][c] = sum * float64(in[t][channels+c])
			}
		}
		return out
	}
}

// However a sequence is cut into steps, whatever else these have, and whether it started as a clone: it gets the same
// bytes, with kernels and without, which equal the textbook's formula within rounding.
func TestShortConv(t *testing.T) {
	for name, open := range backends {
		for _, c := range []struct {
			channels, k int
			dtype       dtypes.DType
			tolerance   float64
		}{{5, 3, dtypes.Float32, 1e-5}, {300, 2, dtypes.Float32, 1e-5}, {9, 4, dtypes.BFloat16, 0.1}} {
			if name == "go" && c.dtype != dtypes.Float32 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d channels, %d taps, %s", name, c.channels, c.k, c.dtype), func(t *testing.T) {
				backend, random := open(t), rand.New(rand.NewPCG(1, 2))
				o, want := shortConv(c.channels, c.k, c.dtype, random)
				checkCuts(t, backend, o, want, random, 4, c.tolerance)
			})
		}
	}
}

// checkCuts runs random sequences in rounds. Each round cuts them into other steps. Then one runs in no page.
func checkCuts(t *testing.T, backend compute.Backend, o operation, want func(in [][]float32) [][]float64,
	random *rand.Rand, rounds int, tolerance float64) {
	t.Helper()
	all := inputs(o.width, random)
	var first []*sequence
	for round := range rounds {
		got := newMachine(t, backend, o).run(all, rand.New(rand.NewPCG(3, uint64(round))))
		if first == nil {
			first = got
		}
		for i, s := range got {
			of := slices.IndexFunc(all, func(in [][]float32) bool { return &in[0] == &s.in[0] })
			same(t, s, first[of])
			near(t, i, s.out, want(all[of]), tolerance)
		}
	}
	checkNowhere(t, backend, o, random)
}

// same reports whether two sequences have the same bytes.
func same(t *testing.T, a, b *sequence) {
	t.Helper()
	for i := range a.out {
		if !slices.Equal(a.out[i], b.out[i]) {
			t.Fatalf("token %d differs: %v and %v", i, a.out[i][:3], b.out[i][:3])
		}
	}
}

// near reports whether numbers equal the wanted ones within a tolerance relative to the token's largest.
func near(t *testing.T, seq int, got [][]float32, want [][]float64, tolerance float64) {
	t.Helper()
	for i := range want {
		largest := 1.0
		for _, x := range want[i] {
			largest = max(largest, math.Abs(x))
		}
		for k, x := range want[i] {
			if d := math.Abs(float64(got[i][k]) - x); !(d <= tolerance*largest) {
				t.Fatalf("sequence %d, token %d, number %d is %g, want %g", seq, i, k, got[i][k], x)
			}
		}
	}
}
