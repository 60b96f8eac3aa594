package sampling_test

import (
	"bufio"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// filterSampler samples rows with filters, and with masks if it has any.
type filterSampler struct {
	*Exec
	masks [][]uint32
}

func newFilterSampler(t testing.TB, backend compute.Backend, masks [][]uint32) filterSampler {
	t.Helper()
	return filterSampler{newExec(t, backend, func(in []*Node) (tokens, logprobs, processed *Node) {
		by := sampling.Processors{Filters: &sampling.Filters{TopNSigma: in[7], Typical: in[8], XTCProbability: in[9],
			XTCThreshold: in[10]}}
		if masks != nil {
			by.Masks = sampling.Masks{Bits: in[11], Of: in[12]}
		}
		none := FillScalar(in[0].Graph(), shapes.Make(dtypes.Int32, in[0].Shape().Dimensions[0], 1), -1)
		return sampling.SampleProcessed(in[0], by, params(in[1:6]), in[6], allRows(in[0]), none)
	}), masks}
}

// draw samples rows; the odd ones have a mask.
func (s filterSampler) draw(t tester, rows []row) []drawn {
	t.Helper()
	n := len(rows)
	f := sampling.FiltersOf[[]float32]{TopNSigma: make([]float32, n), Typical: make([]float32, n),
		XTCProbability: make([]float32, n), XTCThreshold: make([]float32, n)}
	of := make([][]int32, n)
	for i, r := range rows {
		sampling.SetFilters(f, i, r.settings)
		of[i] = []int32{sampling.NoMask}
		if i%2 == 1 && len(s.masks) > 0 {
			of[i][0] = int32(i/2) % int32(len(s.masks))
		}
	}
	in := append(arguments(rows), f.TopNSigma, f.Typical, f.XTCProbability, f.XTCThreshold)
	if s.masks != nil {
		in = append(in, s.masks, of)
	}
	out, err := s.Exec.Exec(in...)
	if err != nil {
		t.Fatal(err)
	}
	tokens, logprobs, processed := out[0].Value().([]int32), out[1].Value().([]float32), out[2].Value().([]float32)
	results := make([]drawn, n)
	for i := range results {
		results[i] = drawn{tokens[i], logprobs[i], processed[i]}
	}
	return results
}

// typicalRow is row i of testdata/typical.txt: scripts/oracle/typical_goldens.py has the same formulas.
func typicalRow(i int) row {
	const size = 40
	state, isCoarse := uint64(i), i%4 == 0
	r := row{logits: make([]float32, size), key: sampling.RequestKey(7, uint64(i), 0), position: int32(i % 90)}
	for k := range r.logits {
		state += 0x9e3779b97f4a7c15
		x := state
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		n := -131070
		for shift := 0; shift < 64; shift += 16 {
			n += int(x >> shift & 0xffff)
		}
		if isCoarse {
			r.logits[k] = float32(n>>12) / 4
		} else {
			r.logits[k] = float32(n>>4) / 1024
		}
	}
	r.settings = sampling.Settings{
		Temperature: []float64{0.5, 1, 1.7}[i%3],
		TypicalP:    []float64{0.02, 0.1, 0.2, 0.5, 0.7, 0.9, 0.95, 0.995}[i/3%8],
		TopK:        []int{0, 10, 25}[i/24%3], TopP: []float64{1, 0.9, 0.6}[i/72%3],
		MinP: []float64{0, 0.05}[i/216%2],
	}
	if len(slices.Compact(slices.Sorted(slices.Values(r.logits)))) < size {
		r.settings.TopP = 1
	}
	return r
}

// For 10,000 rows typical-p keeps what transformers' warpers keep, with the other filters and with equal logits. A
// row's processed log-probability shows which tokens were kept. If float32 sums are so close to a border that
// rounding decides, either is accepted.
func TestTypicalLikeTransformers(t *testing.T) {
	f, err := os.Open("testdata/typical.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []row
	var kept []uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		bits, err := strconv.ParseUint(lines.Text(), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		kept, rows = append(kept, bits), append(rows, typicalRow(len(rows)))
	}
	if len(rows) != 10_000 {
		t.Fatalf("%d rows", len(rows))
	}
	onEach(t, func(t *testing.T, backend compute.Backend) {
		some := rows
		if backend == testenv.Go(t) {
			some = rows[:500]
		}
		borders := 0
		for i, got := range newFilterSampler(t, backend, nil).draw(t, some) {
			r := processedRow{row: some[i]}
			var sum float64
			e := make([]float64, len(r.logits))
			for token, l := range r.logits {
				if kept[i]>>token&1 != 0 {
					e[token] = math.Exp(float64(l-slices.Max(r.logits)) / r.settings.Temperature)
					sum += e[token]
				}
			}
			if math.Abs(float64(got.processed)-math.Log(e[got.token]/sum)) < 1e-5 {
				continue
			}
			if _, isNear := r.kept(r.logits); !isNear {
				t.Errorf("row %d, %+v: token %d has the processed log-probability %v, want %v", i, r.settings,
					got.token, got.processed, math.Log(e[got.token]/sum))
			}
			borders++
		}
		if borders > len(some)/200 {
			t.Errorf("%d of %d rows keep other tokens", borders, len(some))
		}
	})
}

// moreFilters are settings that take each of the kernel's ways with filters: candidates, all tokens, and histograms.
var moreFilters = []sampling.Settings{
	{Temperature: 1, TopP: 1, TypicalP: 0.9},
	{Temperature: 0.7, TopP: 1, TypicalP: 0.2},
	{Temperature: 3, TopP: 1, TypicalP: 0.95},
	{Temperature: 10, TopP: 1, TypicalP: 0.5},
	{Temperature: 0.9, TopP: 0.95, TopK: 50, TypicalP: 0.8},
	{Temperature: 1.5, TopP: 1, TopK: 2500, TypicalP: 0.9},
	{Temperature: 1, TopP: 1, MinP: 0.02, TypicalP: 0.6},
	{Temperature: 1, TopP: 1, TopNSigma: 1.5},
	{Temperature: 4, TopP: 0.9, TopNSigma: 2.5, TypicalP: 0.9},
	{Temperature: 2, TopP: 1, TopNSigma: 3, TopK: 3000},
	{Temperature: 0.8, TopP: 1, XTCProbability: 1, XTCThreshold: 0.05},
	{Temperature: 6, TopP: 1, XTCProbability: 0.5, XTCThreshold: 1e-4},
	{Temperature: 1, TopP: 0.9, XTCProbability: 1, XTCThreshold: 0},
	{Temperature: 2, TopP: 1, TypicalP: 0.9, XTCProbability: 1, XTCThreshold: 0.01, TopNSigma: 4},
	{Temperature: 8, TopP: 1, TypicalP: 0.7, XTCProbability: 1, XTCThreshold: 1e-4},
	{Temperature: 0, TopP: 1, TypicalP: 0.5, TopNSigma: 1},
	{Temperature: 1, TopP: 0.9},
}

func filteredRow(r *rand.Rand, i, size int) row {
	return row{logits: languageLike(r, size), settings: moreFilters[i%len(moreFilters)],
		key: sampling.RequestKey(r.Uint64(), 1, 2), position: int32(i)}
}

// The kernel samples the plain form's tokens with filters too, with masks and without, except if the random number or
// a filter's bound falls between the two forms' roundings.
func TestFilteringKernelDrawsThePlainFormsTokens(t *testing.T) {
	const n = 102
	r := rand.New(rand.NewPCG(31, 32))
	for i, size := range []int{200, 9000, 20011} {
		calls := 5
		if testing.Short() { // the plain form sorts all logits of a row
			calls = []int{2, 1, 0}[i]
		}
		masks := make([][]uint32, 3)
		for k := range masks {
			masks[k] = make([]uint32, sampling.MaskWords(size))
			for w := range masks[k] {
				masks[k][w] = r.Uint32() | r.Uint32()
			}
		}
		for _, masks := range [][][]uint32{nil, masks} {
			if testing.Short() && (i > 0 && masks == nil || calls == 0) {
				continue
			}
			kernel := newFilterSampler(t, testenv.XLA(t), masks)
			plain := newFilterSampler(t, testenv.XLAWithoutKernels(t), masks)
			others := 0
			for range calls {
				rows := make([]row, n)
				for i := range rows {
					rows[i] = filteredRow(r, i, size)
				}
				got := kernel.draw(t, rows)
				for i, want := range plain.draw(t, rows) {
					same := got[i].token == want.token && math.Abs(float64(got[i].processed-want.processed)) < 1e-5
					if !same {
						others++
						t.Logf("%+v, %d logits: %+v, plain %+v", rows[i].settings, size, got[i], want)
					}
					if same && math.Abs(float64(got[i].logprob-want.logprob)) > 5e-6 {
						t.Errorf("%+v, %d logits: %+v, plain %+v", rows[i].settings, size, got[i], want)
					}
				}
			}
			if others > max(2, n*calls/200) {
				t.Errorf("%d logits: %d of %d tokens are others than the plain form's", size, others, n*calls)
			}
		}
	}
}

// A row with filters has the same bits at every place, and one without has Sample's.
func TestFilteredRowsAreIndependent(t *testing.T) {
	s, without := newFilterSampler(t, testenv.XLA(t), nil), newSampler(t, testenv.XLA(t))
	r := rand.New(rand.NewPCG(33, 34))
	const size = 9001
	pool := make([]row, 2*len(moreFilters))
	var want []drawn
	for i := range pool {
		pool[i] = filteredRow(r, i, size)
		want = append(want, s.draw(t, pool[i:i+1])...)
		if !pool[i].settings.Filtered() || pool[i].settings.Greedy() {
			if plain := without.draw(t, pool[i:i+1]); plain[0] != want[i] {
				t.Errorf("%+v: %+v, by Sample %+v", pool[i].settings, want[i], plain[0])
			}
		}
	}
	for _, n := range []int{7, 200} {
		rows, from := make([]row, n), make([]int, n)
		for i := range rows {
			from[i] = r.IntN(len(pool))
			rows[i] = pool[from[i]]
		}
		for i, got := range s.draw(t, rows) {
			if got != want[from[i]] {
				t.Errorf("%+v, row %d of %d: %+v, alone %+v", rows[i].settings, i, n, got, want[from[i]])
			}
		}
	}
}
