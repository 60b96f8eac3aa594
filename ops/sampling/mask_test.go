package sampling_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/ops/sampling"
)

// newMaskedSampler is newSampler whose last inputs are masks and the rows' masks.
func newMaskedSampler(t testing.TB, backend compute.Backend) *Exec {
	t.Helper()
	return newExec(t, backend, func(in []*Node) (tokens, logprobs, processed *Node) {
		return sampling.SampleMasked(in[0], sampling.Masks{Bits: in[7], Of: in[8]}, params(in[1:6]), in[6],
			allRows(in[0]))
	})
}

// A row samples what it samples if the tokens that its masks lack have the logit -Inf, and its log-probability is
// computed from all logits. Rows without a mask equal Sample's, bit for bit.
func TestSampleMasked(t *testing.T) {
	onEach(t, func(t *testing.T, backend compute.Backend) {
		plain, masking := newSampler(t, backend), newMaskedSampler(t, backend)
		rapid.Check(t, func(t *rapid.T) { testMasked(t, plain, masking) })
	})
}

func testMasked(t *rapid.T, plain sampler, masking *Exec) {
	const size, count, masks, lanes = 200, 8, 4, 2
	bits := make([][]uint32, masks)
	for i := range bits {
		bits[i] = make([]uint32, sampling.MaskWords(size))
		for w := range bits[i] {
			switch rapid.IntRange(0, 2).Draw(t, "kind of word") {
			case 0:
				bits[i][w] = rapid.Uint32().Draw(t, "word")
			case 1:
				bits[i][w] = math.MaxUint32
			}
		}
	}
	rows, seen, of := make([]row, count), make([]row, count), make([][]int32, count)
	for i := range rows {
		rows[i] = drawRow(t, size)
		seen[i] = rows[i]
		seen[i].logits = slices.Clone(rows[i].logits)
		of[i] = []int32{sampling.NoMask, sampling.NoMask}
		for lane := range of[i] {
			mask := rapid.IntRange(-1, masks).Draw(t, "mask") // masks itself is none
			of[i][lane] = int32(mask)
			for token := range size {
				if mask >= 0 && mask < masks && bits[mask][token/32]>>(token%32)&1 == 0 {
					seen[i].logits[token] = negativeInfinity
				}
			}
		}
	}
	out, err := masking.Exec(append(arguments(rows), bits, of)...)
	if err != nil {
		t.Fatal(err)
	}
	tokens, logprobs, processed := out[0].Value().([]int32), out[1].Value().([]float32), out[2].Value().([]float32)
	ofAll, ofLeft := plain.draw(t, rows), plain.draw(t, seen)
	for i, want := range ofLeft {
		if ofAll[i].token < 0 { // what has no distribution has none with a mask
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
		case tokens[i] == ofAll[i].token && logprobs[i] != ofAll[i].logprob:
			t.Fatalf("row %d: logprob %v, want %v to the bit", i, logprobs[i], ofAll[i].logprob)
		default:
			l := refer(rows[i].logits, rows[i].settings).logprobs[want.token]
			if math.Abs(float64(logprobs[i])-l) > 2e-5*(1+math.Abs(l)) {
				t.Fatalf("row %d: logprob %v, want %v", i, logprobs[i], l)
			}
		}
	}
}
