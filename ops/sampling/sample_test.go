package sampling_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes/bfloat16"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// checkAgainstReference fails if a sampled token or its log-probabilities are not the reference's.
func checkAgainstReference(t tester, r row, got drawn) {
	t.Helper()
	want := refer(r.logits, r.settings)
	if want.margin < 1e-6 {
		return // The mass of a nucleus equals top_p but for rounding: either set is right.
	}
	token, near := want.token(r.key, r.position)
	if r.settings.Temperature == 0 {
		token, near = slices.Index(want.probs, 1), false
	}
	if int(got.token) != token && !near {
		t.Errorf("%+v, %d logits: token %d, want %d", r.settings, len(r.logits), got.token, token)
		return
	}
	if p := want.probs[got.token]; p == 0 ||
		math.Abs(float64(got.processed)-math.Log(p)) > 2e-5*(1+math.Abs(math.Log(p))) {
		t.Errorf("%+v, %d logits: processed logprob %v, want %v", r.settings, len(r.logits), got.processed, math.Log(p))
	}
	if l := want.logprobs[got.token]; math.Abs(float64(got.logprob)-l) > 2e-5*(1+math.Abs(l)) {
		t.Errorf("%+v, %d logits: logprob %v, want %v", r.settings, len(r.logits), got.logprob, l)
	}
}

func TestAgainstReferenceOnRandomRows(t *testing.T) {
	onBackends(t, func(t *testing.T, s sampler) {
		// Few sizes: each is a program.
		sizes := []int{1, 7, 200, 9000}
		rapid.Check(t, func(t *rapid.T) {
			size := rapid.SampledFrom(sizes).Draw(t, "size")
			rows := make([]row, 8)
			for i := range rows {
				rows[i] = drawRow(t, size)
			}
			for i, got := range s.draw(t, rows) {
				checkAgainstReference(t, rows[i], got)
			}
		})
	})
}

// drawRow makes a row of one of several kinds. The logits are multiples of 2^-10, so that equal ones are
// equal after any rounding and different ones different.
func drawRow(t *rapid.T, size int) row {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "logits"), 0))
	grid := func(x, step float64) float32 { return float32(math.Round(x/step) * step) }
	logits := make([]float32, size)
	kind := rapid.SampledFrom([]string{"plain", "ties", "all equal", "peaked", "masked", "wide", "large"}).Draw(t,
		"kind")
	for i := range logits {
		x := r.NormFloat64() * 3
		switch kind {
		case "plain":
			logits[i] = grid(x, 1.0/1024)
		case "ties":
			logits[i] = grid(x, 1)
		case "all equal":
			logits[i] = 2.5
		case "peaked":
			logits[i] = grid(x, 1.0/8)
		case "masked":
			logits[i] = grid(x, 1.0/64)
			if r.IntN(3) > 0 {
				logits[i] = negativeInfinity
			}
		case "wide":
			logits[i] = grid(x*50, 1.0/8)
		case "large":
			logits[i] = grid(x, 1.0/64) - 10000
		}
	}
	switch place := r.IntN(size); kind {
	case "peaked":
		logits[place] = 30
	case "masked":
		logits[place] = 1
	}
	choose := func(label string, values ...float64) float64 { return rapid.SampledFrom(values).Draw(t, label) }
	return row{
		logits: logits,
		settings: sampling.Settings{
			Temperature: choose("temperature", 0, 0.3, 0.7, 1, 1, 1.5, 3),
			TopP:        choose("top_p", 1, 1, 0.95, 0.9, 0.5, 0.1, 1e-9, 0.9999),
			MinP:        choose("min_p", 0, 0, 0, 0.013, 0.11, 1),
			TopK: rapid.SampledFrom([]int{0, 0, 1, 2, 5, 50, 1000, size - 1, size, size + 1,
				math.MaxInt32}).Draw(t, "top_k"),
		},
		key:      [2]uint32{rapid.Uint32().Draw(t, "key0"), rapid.Uint32().Draw(t, "key1")},
		position: rapid.Int32Range(0, 1<<20).Draw(t, "position"),
	}
}

func TestGreedyTakesTheLowestOfEqualLogits(t *testing.T) {
	onBackends(t, func(t *testing.T, s sampler) {
		tied := make([]float32, 200)
		for _, i := range []int{190, 77, 131} {
			tied[i] = 4
		}
		signs := slices.Repeat([]float32{-1}, 200)
		signs[60], signs[130] = float32(math.Copysign(0, -1)), 0
		close := slices.Repeat([]float32{-1}, 200)
		close[3], close[150] = 1e-10, 2e-10
		rows := []row{{logits: tied}, {logits: signs}, {logits: close}}
		for i, got := range s.draw(t, rows) {
			if want := []int32{77, 60, 150}[i]; got.token != want || got.processed != 0 {
				t.Errorf("row %d: token %d, processed logprob %v, want %d and 0", i, got.token, got.processed, want)
			}
			checkLogprob(t, rows[i], got)
		}
	})
}

func checkLogprob(t *testing.T, r row, got drawn) {
	t.Helper()
	if want := refer(r.logits, r.settings).logprobs[got.token]; math.Abs(want-float64(got.logprob)) > 1e-5*(1+
		math.Abs(want)) {
		t.Errorf("logprob of %d is %v, want %v", got.token, got.logprob, want)
	}
}

func TestRowsWithoutADistribution(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	with := func(i int, x float32) []float32 {
		logits := make([]float32, 200)
		logits[i] = x
		return logits
	}
	negativeNaN := math.Float32frombits(0xffc00001)
	bad := [][]float32{with(0, nan), with(199, nan), with(70, negativeNaN), with(5, inf),
		slices.Repeat([]float32{negativeInfinity}, 200),
		slices.Repeat([]float32{nan}, 200), with(150, math.Float32frombits(0x7f800001))}
	onBackends(t, func(t *testing.T, s sampler) {
		for _, settings := range []sampling.Settings{{TopP: 1}, {Temperature: 1, TopP: 1},
			{Temperature: 0.7, TopP: 0.9, TopK: 20, MinP: 0.1}} {
			good := row{logits: with(9, 50), settings: settings}
			rows := []row{good}
			for _, logits := range bad {
				rows = append(rows, row{logits: logits, settings: settings})
			}
			got := s.draw(t, append(rows, good))
			for i, d := range got {
				want := drawn{token: -1}
				if i == 0 || i == len(got)-1 {
					want = drawn{token: 9}
				}
				if d != want {
					t.Errorf("%+v: row %d is %+v, want %+v", settings, i, d, want)
				}
			}
		}
	})
}

func TestExtremeLogits(t *testing.T) {
	largest := float32(math.MaxFloat32)
	two := func(a, b float32) []float32 {
		logits := slices.Repeat([]float32{negativeInfinity}, 130)
		logits[40], logits[100] = a, b
		return logits
	}
	onBackends(t, func(t *testing.T, s sampler) {
		var rows []row
		var want []int32
		for _, temperature := range []float64{0, 1e-45, 1e-30, 1, 1e30} {
			settings := sampling.Settings{Temperature: temperature, TopP: 0.3, TopK: 1}
			rows = append(rows, row{logits: two(-largest, largest), settings: settings},
				row{logits: two(-largest, negativeInfinity), settings: settings})
			want = append(want, 100, 40)
		}
		for i, got := range s.draw(t, rows) {
			if got.token != want[i] || got.logprob != 0 || got.processed != 0 {
				t.Errorf("temperature %v: %+v, want token %d of probability 1", rows[i].settings.Temperature, got,
					want[i])
			}
		}
	})
}

// A row gives the same bits at every place and for any other rows, and equal tokens in batches of other sizes.
func TestRowsAreIndependent(t *testing.T) {
	onBackends(t, func(t *testing.T, s sampler) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, size := range []int{200, 9000} {
			rows := mixedRows(r, 12, size)
			want := s.draw(t, rows)
			check := func(what string, order []int, rows []row) {
				t.Helper()
				for i, got := range s.draw(t, rows) {
					if order[i] >= 0 && got != want[order[i]] {
						t.Errorf("%s, %d logits: row %d is %+v, was %+v", what, size, order[i], got, want[order[i]])
					}
				}
			}
			for range 3 {
				order := r.Perm(len(rows))
				shuffled := make([]row, len(rows))
				for i, o := range order {
					shuffled[i] = rows[o]
				}
				check("shuffled", order, shuffled)
				others := mixedRows(r, 12, size)
				for i := range order {
					if i%3 == 0 {
						shuffled[i], order[i] = others[i], -1
					}
				}
				shuffled[0].logits[0] = float32(math.NaN())
				check("among others", order, shuffled)
			}
			for i := range rows {
				got := s.draw(t, rows[i:i+1])[0]
				if got.token != want[i].token || got.processed != want[i].processed ||
					math.Abs(float64(got.logprob-want[i].logprob)) > 1e-5 {
					t.Errorf("alone: row %d is %+v, was %+v", i, got, want[i])
				}
			}
		}
	})
}

// The same on a batch of full size, which XLA splits among threads, and against the reference.
func TestLargeBatch(t *testing.T) {
	onXLA(t, func(t *testing.T, s sampler) {
		r := rand.New(rand.NewPCG(13, 14))
		rows := mixedRows(r, 64, 50257)
		want := s.draw(t, rows)
		order := r.Perm(len(rows))
		shuffled := make([]row, len(rows))
		for i, o := range order {
			checkAgainstReference(t, rows[i], want[i])
			shuffled[i] = rows[o]
		}
		for i, got := range s.draw(t, shuffled) {
			if got != want[order[i]] {
				t.Errorf("shuffled: row %d is %+v, was %+v", order[i], got, want[order[i]])
			}
		}
	})
}

func TestRefusesWrongShapes(t *testing.T) {
	exec, err := NewExec(testenv.Go(t), func(in []*Node) (tokens, logprobs, processed *Node) {
		return sampling.Sample(in[0], params(in[1:6]), in[6], allRows(in[0]))
	})
	if err != nil {
		t.Fatal(err)
	}
	args := arguments([]row{{logits: make([]float32, 4)}})
	args[4] = []int32{1, 2}
	if _, err := exec.Exec(args...); err == nil || !strings.Contains(err.Error(), "top_k must be (Int32)[1]") {
		t.Errorf("error %v, want one about top_k", err)
	}
}

// mixedRows are rows of various settings, greedy ones among them.
func mixedRows(r *rand.Rand, n, size int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{
			logits: languageLike(r, size),
			settings: sampling.Settings{
				Temperature: float64(i%4) * 0.5,
				TopP:        []float64{1, 0.95, 0.5}[i%3],
				TopK:        []int{0, 40, 0, 3, 1000}[i%5],
				MinP:        []float64{0, 0.02}[i%2],
			},
			key:      sampling.RequestKey(3, uint64(i), 0),
			position: int32(r.IntN(1000)),
		}
	}
	return rows
}

func TestBackendsAgree(t *testing.T) {
	goSampler, xlaSampler := newSampler(t, testenv.Go(t)), newSampler(t, testenv.XLAWithoutKernels(t))
	r := rand.New(rand.NewPCG(7, 8))
	for _, size := range []int{200, 9000} {
		rows := mixedRows(r, 12, size)
		want := goSampler.draw(t, rows)
		for i, got := range xlaSampler.draw(t, rows) {
			if got.token != want[i].token || math.Abs(float64(got.logprob-want[i].logprob)) > 1e-4 ||
				math.Abs(float64(got.processed-want[i].processed)) > 1e-4 {
				t.Errorf("%d logits, row %d: xla gives %+v, go %+v", size, i, got, want[i])
			}
			checkAgainstReference(t, rows[i], got)
		}
	}
}

func TestBFloat16Logits(t *testing.T) {
	onBackends(t, func(t *testing.T, s sampler) {
		rows := mixedRows(rand.New(rand.NewPCG(9, 10)), 12, 300)
		short := make([][]bfloat16.BFloat16, len(rows))
		for i := range rows {
			for j, x := range rows[i].logits {
				short[i] = append(short[i], bfloat16.FromFloat32(x))
				rows[i].logits[j] = short[i][j].Float32()
			}
		}
		want := s.draw(t, rows)
		args := arguments(rows)
		args[0] = short
		out, err := s.exec.Exec(args...)
		if err != nil {
			t.Fatal(err)
		}
		for i, token := range out[0].Value().([]int32) {
			if token != want[i].token {
				t.Errorf("row %d: token %d from bfloat16, %d from the same in float32", i, token, want[i].token)
			}
		}
	})
}
