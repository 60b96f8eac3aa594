package sampling_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// scored is the result of Logprobs for one row.
type scored struct {
	logprob float32
	ids     []int32
	tops    []float32
}

func newScorer(t testing.TB, backend compute.Backend, width int) func(t tester, logits [][]float32,
	tokens, counts []int32) []scored {
	t.Helper()
	exec, err := NewExec(backend, func(in []*Node) (logprobs, ids, tops *Node) {
		return sampling.Logprobs(in[0], in[1], in[2], allRows(in[0]), width)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(t tester, logits [][]float32, tokens, counts []int32) []scored {
		t.Helper()
		out, err := exec.Exec(logits, tokens, counts)
		if err != nil {
			t.Fatal(err)
		}
		logprobs, ids, tops := out[0].Value().([]float32), out[1].Value().([][]int32), out[2].Value().([][]float32)
		rows := make([]scored, len(logits))
		for i := range rows {
			rows[i] = scored{logprobs[i], ids[i], tops[i]}
		}
		return rows
	}
}

// onForms runs a test on GoMLX's own backend and on XLA:CPU, there with the kernel and without.
func onForms(t *testing.T, test func(t *testing.T, backend compute.Backend)) {
	t.Run("go", func(t *testing.T) { test(t, testenv.Go(t)) })
	t.Run("xla", func(t *testing.T) { test(t, testenv.XLAWithoutKernels(t)) })
	t.Run("kernel", func(t *testing.T) { test(t, testenv.XLA(t)) })
}

// The likeliest tokens equal a sort by logit and id, with ties, infinities and any count; the log-probabilities equal
// float64's.
func TestLogprobs(t *testing.T) {
	onForms(t, func(t *testing.T, backend compute.Backend) {
		for _, sizes := range []struct{ vocabulary, width int }{{7, 7}, {203, 5}, {700, 40}, {5001, 256}} {
			if testing.Short() && sizes.width > 40 {
				break
			}
			score := newScorer(t, backend, sizes.width)
			rapid.Check(t, func(t *rapid.T) {
				const n = 3
				r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				step := rapid.SampledFrom([]float64{0, 0.5, 20}).Draw(t, "step") // with ties, few or many
				logits, tokens, counts := make([][]float32, n), make([]int32, n), make([]int32, n)
				for i := range n {
					logits[i] = languageLike(r, sizes.vocabulary)
					for j, l := range logits[i] {
						if step > 0 {
							logits[i][j] = float32(math.Round(float64(l)/step) * step)
						}
						if j%11 == 3 {
							logits[i][j] = negativeInfinity
						}
						if l == 0 && j%2 == 0 {
							logits[i][j] = float32(math.Copysign(0, -1))
						}
					}
					tokens[i] = int32(r.IntN(sizes.vocabulary))
					counts[i] = int32(rapid.IntRange(0, sizes.width).Draw(t, "count"))
				}
				for i, got := range score(t, logits, tokens, counts) {
					checkScored(t, logits[i], tokens[i], int(counts[i]), got)
				}
			})
		}
	})
}

func checkScored(t tester, logits []float32, token int32, count int, got scored) {
	t.Helper()
	want := refer(logits, sampling.Settings{TopP: 1}).logprobs
	near := func(what string, got float32, of int32) {
		t.Helper()
		if w := want[of]; float64(got) != w && !(math.Abs(float64(got)-w) <= 1e-5*(1+math.Abs(w))) {
			t.Errorf("%s of token %d is %v, want %v", what, of, got, w)
		}
	}
	near("the log-probability", got.logprob, token)
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(logits[b], logits[a]) })
	for k := range got.ids {
		if k >= count {
			if got.ids[k] != -1 || got.tops[k] != 0 {
				t.Errorf("place %d behind %d has %d, %v", k, count, got.ids[k], got.tops[k])
			}
			continue
		}
		if got.ids[k] != order[k] {
			t.Errorf("place %d has token %d, want %d", k, got.ids[k], order[k])
		}
		near("the one in the list", got.tops[k], order[k])
		if got.ids[k] == token && math.Float32bits(got.tops[k]) != math.Float32bits(got.logprob) {
			t.Errorf("token %d has %v, and %v in the list", token, got.logprob, got.tops[k])
		}
	}
}

func TestLogprobsWithoutADistribution(t *testing.T) {
	onForms(t, func(t *testing.T, backend compute.Backend) {
		score := newScorer(t, backend, 2)
		inf := float32(math.Inf(1))
		got := score(t, [][]float32{{1, float32(math.NaN()), 2}, {1, 2, inf},
			{negativeInfinity, negativeInfinity, negativeInfinity}, {1, 2, 3}}, []int32{0, 1, 2, 0},
			[]int32{1, 2, 2, 2})
		for i, s := range got[:3] {
			if !math.IsNaN(float64(s.logprob)) || s.ids[0] != -1 || !math.IsNaN(float64(s.tops[0])) {
				t.Errorf("row %d: %+v", i, s)
			}
		}
		if s := fmt.Sprint(got[3].ids); s != "[2 1]" {
			t.Errorf("the row beside has %s", s)
		}
	})
}

// With the kernel a sampled token is scored with the bits that it was sampled with, for any number of rows and at
// every place, also for greedy tokens.
func TestLogprobsAreThoseOfSample(t *testing.T) {
	backend := testenv.XLA(t)
	sampler, score := newSampler(t, backend), newScorer(t, backend, 3)
	r := rand.New(rand.NewPCG(31, 32))
	for _, size := range []int{13, 203, 9000} {
		rows := make([]row, 60)
		for i := range rows {
			rows[i] = row{logits: languageLike(r, size), settings: filters[i%len(filters)],
				key: sampling.RequestKey(r.Uint64(), 1, 2), position: int32(i)}
			if i < 8 { // all others have no weight: the logarithm of 1
				rows[i].logits[i] = 300
			}
		}
		drawn := sampler.draw(t, rows)
		for from, n := range map[int]int{0: len(rows), 7: 1, 11: 32} {
			logits, tokens, counts := make([][]float32, n), make([]int32, n), make([]int32, n)
			for i := range n {
				logits[i], tokens[i], counts[i] = rows[from+i].logits, drawn[from+i].token, 3
			}
			for i, got := range score(t, logits, tokens, counts) {
				if want := drawn[from+i].logprob; math.Float32bits(got.logprob) != math.Float32bits(want) {
					t.Errorf("%d logits, %+v: scored %v, drawn with %v", size, rows[from+i].settings, got.logprob, want)
				}
			}
		}
	}
}

// BenchmarkLogprobs is the cost of a step's likeliest tokens.
func BenchmarkLogprobs(b *testing.B) {
	for name, backend := range map[string]compute.Backend{"kernel": testenv.XLA(b),
		"plain": testenv.XLAWithoutKernels(b)} {
		for _, count := range []int32{0, 5, 20, 256} {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				const n, size = 64, 49152
				r := rand.New(rand.NewPCG(41, 42))
				rows, counts := make([]row, n), make([]int32, n)
				for i := range rows {
					rows[i], counts[i] = row{logits: languageLike(r, size)}, count
				}
				exec, err := NewExec(backend, func(in []*Node) *Node {
					logprobs, ids, tops := sampling.Logprobs(in[0], in[1], in[1], allRows(in[0]), int(max(count, 1)))
					all := Add(ReduceAllSum(tops), ReduceAllSum(logprobs))
					return Add(ReduceAllSum(ConvertDType(ids, tops.DType())), all)
				})
				if err != nil {
					b.Fatal(err)
				}
				defer exec.Finalize()
				args := []any{deviceArguments(rows)[0], counts}
				for b.Loop() {
					if _, err := exec.Exec(args...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/row")
			})
		}
	}
}
