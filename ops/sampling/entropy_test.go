package sampling_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// newEntropy returns Entropy of logits that are rounded to a dtype.
func newEntropy(t testing.TB, backend compute.Backend, dtype dtypes.DType) func(tester, [][]float32) []float32 {
	t.Helper()
	exec, err := NewExec(backend, func(logits *Node) *Node {
		return sampling.Entropy(ConvertDType(logits, dtype), allRows(logits))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(t tester, logits [][]float32) []float32 {
		t.Helper()
		out, err := exec.Exec(logits)
		if err != nil {
			t.Fatal(err)
		}
		return out[0].Value().([]float32)
	}
}

// entropyOf is the entropy in float64.
func entropyOf(logits []float32) float64 {
	largest, sum, weighted := float64(slices.Max(logits)), 0.0, 0.0
	for _, l := range logits {
		x := float64(l) - largest
		if e := math.Exp(x); e > 0 {
			sum += e
			weighted += e * x
		}
	}
	return math.Log(sum) - weighted/sum
}

// Entropies are those of float64: of flat and peaked distributions, with tokens of no probability.
func TestEntropy(t *testing.T) {
	onForms(t, func(t *testing.T, backend compute.Backend) {
		for _, vocabulary := range []int{1, 23, 700, 9001} {
			entropies := newEntropy(t, backend, dtypes.Float32)
			rapid.Check(t, func(t *rapid.T) {
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				logits := make([][]float32, 3)
				for i := range logits {
					scale := float32(rapid.SampledFrom([]float64{0, 0.01, 1, 30}).Draw(t, "scale"))
					logits[i] = languageLike(r, vocabulary)
					for j := range logits[i] {
						if logits[i][j] *= scale; j%5 == 1 && rapid.Bool().Draw(t, "impossible") {
							logits[i][j] = negativeInfinity
						}
					}
				}
				for i, got := range entropies(t, logits) {
					if want := entropyOf(logits[i]); math.Abs(float64(got)-want) > 2e-5*(1+want) {
						t.Fatalf("row %d of %d tokens: %v, want %v", i, vocabulary, got, want)
					}
				}
			})
		}
	})
}

// A row without a distribution has no entropy.
func TestEntropyOfNothing(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	none := [][]float32{{1, nan, 2}, {1, inf, 2}, {negativeInfinity, negativeInfinity, negativeInfinity}, {nan, 1, 1}}
	onForms(t, func(t *testing.T, backend compute.Backend) {
		for i, got := range newEntropy(t, backend, dtypes.Float32)(t, none) {
			if !math.IsNaN(float64(got)) {
				t.Errorf("row %d: %v, want NaN", i, got)
			}
		}
	})
}

// With the kernel a row has the same bits alone and among others, whatever its dtype.
func TestEntropyOfRowsIsIndependent(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	logits := make([][]float32, 9)
	for i := range logits {
		logits[i] = languageLike(r, 5003)
	}
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16} {
		entropies := newEntropy(t, testenv.XLA(t), dtype)
		all := entropies(t, logits)
		for i, want := range all {
			if got := entropies(t, logits[i:i+1])[0]; got != want {
				t.Errorf("%s, row %d: %v alone, %v among others", dtype, i, got, want)
			}
		}
	}
}
