package sampling_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// newBarredSampler is newSampler whose last input is the barred tokens.
func newBarredSampler(t testing.TB, backend compute.Backend) *Exec {
	t.Helper()
	return newExec(t, backend, func(in []*Node) (tokens, logprobs, processed *Node) {
		return sampling.SampleBarred(in[0], sampling.Masks{}, params(in[1:6]), in[6], allRows(in[0]), in[7])
	})
}

// A row samples what it samples if its barred tokens have the logit -Inf, and its log-probability is computed from
// all logits. Rows that bar none are unchanged, bit for bit.
func TestSampleBarred(t *testing.T) {
	onEach(t, func(t *testing.T, backend compute.Backend) {
		plain, barring := newSampler(t, backend), newBarredSampler(t, backend)
		rapid.Check(t, func(t *rapid.T) { testBarred(t, plain, barring) })
	})
}

func testBarred(t *rapid.T, plain sampler, barring *Exec) {
	const size, count = 200, 8
	rows, masked := make([]row, count), make([]row, count)
	barred := make([][]int32, count)
	some := rapid.Bool().Draw(t, "some")
	for i := range rows {
		rows[i] = drawRow(t, size)
		barred[i] = []int32{-1, -1, -1}
		masked[i] = rows[i]
		masked[i].logits = slices.Clone(rows[i].logits)
		if !some || !rapid.Bool().Draw(t, "bars") {
			continue
		}
		top := slices.Index(rows[i].logits, slices.Max(rows[i].logits))
		tokens := []int32{int32(max(top, 0)), int32(rapid.IntRange(0, size-1).Draw(t, "barred"))}
		slices.Sort(tokens)
		for k, token := range slices.Compact(tokens) {
			barred[i][2*k] = token // and none in between
			masked[i].logits[token] = negativeInfinity
		}
	}
	out, err := barring.Exec(append(arguments(rows), barred)...)
	if err != nil {
		t.Fatal(err)
	}
	tokens, logprobs, processed := out[0].Value().([]int32), out[1].Value().([]float32),
		out[2].Value().([]float32)
	ofAll, ofLeft := plain.draw(t, rows), plain.draw(t, masked)
	for i, want := range ofLeft {
		if ofAll[i].token < 0 { // what has no distribution has none after barring
			want = drawn{token: -1}
		}
		if tokens[i] != want.token || processed[i] != want.processed {
			t.Fatalf("row %d: token %d (%v), want %+v", i, tokens[i], processed[i], want)
		}
		switch {
		case want.token < 0:
			if logprobs[i] != 0 {
				t.Fatalf("row %d: logprob %v of no token", i, logprobs[i])
			}
		case slices.Max(barred[i]) < 0 && logprobs[i] != ofAll[i].logprob:
			t.Fatalf("row %d: logprob %v, want %v to the bit", i, logprobs[i], ofAll[i].logprob)
		default:
			l := refer(rows[i].logits, rows[i].settings).logprobs[want.token]
			if math.Abs(float64(logprobs[i])-l) > 2e-5*(1+math.Abs(l)) {
				t.Fatalf("row %d: logprob %v, want %v", i, logprobs[i], l)
			}
		}
	}
}

// Barring writes into the logits in place: nothing copies them.
func TestBarringCopiesNoLogits(t *testing.T) {
	const rows, vocabulary = 16, 1111
	view := testenv.XLA(t).Donating(nil).(*xla.View)
	exec, err := NewExec(view, func(in []*Node) (tokens, logprobs, processed *Node) {
		logits := MulScalar(in[0], 2) // an array of the program's own
		return sampling.SampleBarred(logits, sampling.Masks{}, params(in[1:6]), in[6], allRows(logits), in[7])
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	drawn := make([]row, rows)
	barred := make([][]int32, rows)
	for i := range drawn {
		drawn[i] = row{logits: make([]float32, vocabulary), settings: sampling.DefaultSettings()}
		barred[i] = []int32{-1, -1}
	}
	if _, err := exec.Exec(append(arguments(drawn), barred)...); err != nil {
		t.Fatal(err)
	}
	hlo, err := view.Executables()[0].OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	copies := regexp.MustCompile(`f32\[(16,1111|17776)\]\S* copy\(`)
	if found := copies.FindString(hlo); found != "" {
		t.Errorf("%q copies the logits of all", found)
	}
	if !strings.Contains(hlo, "f32[16,1111]") || !strings.Contains(hlo, "scatter(") {
		t.Errorf("the program is not what the test looks for: %s", hlo)
	}
}
