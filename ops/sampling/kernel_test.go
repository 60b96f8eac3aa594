package sampling_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// filters are settings that take each of the kernel's ways to a threshold: candidates, all tokens, and histograms.
var filters = []sampling.Settings{
	{TopP: 1},
	{Temperature: 1, TopP: 1},
	{Temperature: 0.8, TopP: 1},
	{Temperature: 0.8, TopP: 1, TopK: 50},
	{Temperature: 1.1, TopP: 1, TopK: 3000},
	{Temperature: 1, TopP: 0.95},
	{Temperature: 0.8, TopP: 0.9, TopK: 40},
	{Temperature: 3, TopP: 0.9},
	{Temperature: 1.5, TopP: 0.8, TopK: 2500},
	{Temperature: 0.9, TopP: 1, MinP: 0.05},
	{Temperature: 10, TopP: 0.99, MinP: 0.3},
}

// The kernel's exponential differs from XLA's: it is within 1.5e-7 of the exact one, as are the weights. A token
// differs if the random number falls between the two forms' borders, which are apart by at most some 1e-7 of the
// whole weight; so far less than one sample in a thousand differs. Greedy tokens are the same.
func TestKernelDrawsThePlainFormsTokens(t *testing.T) {
	kernel, plain := newSampler(t, testenv.XLA(t)), newSampler(t, testenv.XLAWithoutKernels(t))
	r := rand.New(rand.NewPCG(21, 22))
	const n = 64
	var draws, others int
	for _, size := range []int{200, 9000} {
		calls := 20
		if testing.Short() { // the plain form sorts all logits of a row
			calls = 2000 / size
		}
		for range calls {
			rows := make([]row, n)
			for i := range rows {
				rows[i] = row{logits: languageLike(r, size), settings: filters[i%len(filters)],
					key: sampling.RequestKey(r.Uint64(), 1, 2), position: int32(i)}
			}
			got := kernel.draw(t, rows)
			for i, want := range plain.draw(t, rows) {
				draws++
				if got[i].token != want.token {
					others++
					if rows[i].settings.Temperature == 0 {
						t.Errorf("greedy token %d, want %d", got[i].token, want.token)
					}
					continue
				}
				if math.Abs(float64(got[i].logprob-want.logprob)) > 5e-6 ||
					math.Abs(float64(got[i].processed-want.processed)) > 5e-6 {
					t.Errorf("%+v, %d logits: %+v, want %+v", rows[i].settings, size, got[i], want)
				}
			}
		}
	}
	if others*1000 > draws {
		t.Errorf("%d of %d tokens are others than the plain form's", others, draws)
	}
}

// A row's results have the same bits among 1 to 513 rows, at every place.
func TestKernelRowsAreIndependent(t *testing.T) {
	s := newSampler(t, testenv.XLA(t))
	r := rand.New(rand.NewPCG(23, 24))
	for _, size := range []int{203, 5001} {
		pool := make([]row, 40)
		for i := range pool {
			pool[i] = row{logits: languageLike(r, size), settings: filters[i%len(filters)],
				key: sampling.RequestKey(9, uint64(i), 0), position: int32(r.IntN(1000))}
		}
		var want []drawn
		for i := range pool {
			want = append(want, s.draw(t, pool[i:i+1])...)
		}
		for _, n := range []int{2, 7, 64, 513} {
			rows, from := make([]row, n), make([]int, n)
			for i := range rows {
				from[i] = r.IntN(len(pool))
				rows[i] = pool[from[i]]
			}
			for i, got := range s.draw(t, rows) {
				if got != want[from[i]] {
					t.Errorf("%d logits, row %d of %d: %+v, alone %+v", size, i, n, got, want[from[i]])
				}
			}
		}
	}
}

// Logits of half precision give the bits of the same logits in float32, and rows that are not wanted change nothing.
func TestKernelTakesHalfPrecisionAndLeadingRows(t *testing.T) {
	const n, size = 22, 1003
	exec, err := NewExec(testenv.XLA(t), func(in []*Node) []*Node {
		var all []*Node
		for _, logits := range in[:4] {
			tokens, logprobs, processed := sampling.Sample(logits, params(in[4:9]), in[9], in[10])
			all = append(all, tokens, logprobs, processed)
		}
		return all
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	r := rand.New(rand.NewPCG(25, 26))
	rows := make([]row, n)
	bf, half := make([][]bfloat16.BFloat16, n), make([][]float16.Float16, n)
	bf32, half32 := make([][]float32, n), make([][]float32, n)
	for i := range rows {
		rows[i] = row{logits: languageLike(r, size), settings: filters[i%len(filters)],
			key: sampling.RequestKey(4, uint64(i), 0)}
		for j, x := range rows[i].logits {
			if j%50 == 0 {
				x *= 1e-6 // subnormal in half precision
			}
			if i == 13 && j == 700 {
				x = float32(math.NaN())
			}
			if j%9 == 0 {
				x = negativeInfinity
			}
			bf[i], half[i] = append(bf[i], bfloat16.FromFloat32(x)), append(half[i], float16.FromFloat32(x))
			bf32[i], half32[i] = append(bf32[i], bf[i][j].Float32()), append(half32[i], half[i][j].Float32())
		}
	}
	for _, wanted := range []int32{n, 15, 0} {
		out, err := exec.Exec(append(append([]any{bf, bf32, half, half32}, arguments(rows)[1:]...), wanted)...)
		if err != nil {
			t.Fatal(err)
		}
		for kind := range 2 {
			for i := range 3 {
				a, b := fmt.Sprint(out[6*kind+i].Value()), fmt.Sprint(out[6*kind+3+i].Value())
				if a != b {
					t.Errorf("%s: result %d is\n%s, from float32\n%s",
						[]dtypes.DType{dtypes.BFloat16, dtypes.Float16}[kind], i, a, b)
				}
			}
			for i, token := range out[6*kind].Value().([]int32) {
				if (token < 0) != (i == 13 || i >= int(wanted)) {
					t.Errorf("%d rows wanted: token %d is %d", wanted, i, token)
				}
			}
		}
	}
}
