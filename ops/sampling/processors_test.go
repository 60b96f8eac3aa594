package sampling_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// processedRow is a row with what processors make use of.
type processedRow struct {
	row
	seen   []int32 // of sampling.InPrompt and OneDrawn
	biases []float32
	biased bool
	early  bool
	barred []int32
}

func newProcessedRow(r row) processedRow {
	n := len(r.logits)
	return processedRow{row: r, seen: make([]int32, n), biases: make([]float32, n), barred: []int32{-1, -1}}
}

// processing runs SampleProcessed, and gives the logits after biases, penalties and filters too.
type processing struct{ exec *Exec }

func newProcessing(t testing.TB, backend compute.Backend) processing {
	t.Helper()
	exec, err := NewExec(backend, func(in []*Node) []*Node {
		by := sampling.Processors{
			Penalties: &sampling.Penalties{Repetition: in[7], Frequency: in[8], Presence: in[9]}, Seen: in[10],
			Biases: &sampling.Biases{Values: in[11], Has: in[12], Early: in[13]},
			Filters: &sampling.Filters{TopNSigma: in[14], Typical: in[15], XTCProbability: in[16],
				XTCThreshold: in[17]},
		}
		p := params(in[1:6])
		tokens, logprobs, processed := sampling.SampleProcessed(in[0], by, p, in[6], allRows(in[0]), in[18])
		after := by.Apply(in[0])
		after, _ = sampling.Filter(after, p, *by.Filters, in[6])
		return []*Node{tokens, logprobs, processed, after}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return processing{exec}
}

// run returns what rows sample, and their logits after processors.
func (p processing) run(t tester, rows []processedRow) ([]drawn, [][]float32) {
	t.Helper()
	plain := make([]row, len(rows))
	penalties := make([][]float32, 3)
	filters := sampling.FiltersOf[[]float32]{}
	for _, to := range []*[]float32{&filters.TopNSigma, &filters.Typical, &filters.XTCProbability,
		&filters.XTCThreshold} {
		*to = make([]float32, len(rows))
	}
	var seen, barred [][]int32
	var biases [][]float32
	var has, early []bool
	for i, r := range rows {
		plain[i] = r.row
		s := r.settings
		repetition := 0.0
		if s.Penalized() {
			repetition = s.Repetition()
		}
		for k, v := range []float64{repetition, s.FrequencyPenalty, s.PresencePenalty} {
			penalties[k] = append(penalties[k], float32(v))
		}
		sampling.SetFilters(filters, i, s)
		seen, barred, biases = append(seen, r.seen), append(barred, r.barred), append(biases, r.biases)
		has, early = append(has, r.biased), append(early, r.early)
	}
	out, err := p.exec.Exec(append(arguments(plain), penalties[0], penalties[1], penalties[2], seen, biases, has, early,
		filters.TopNSigma, filters.Typical, filters.XTCProbability, filters.XTCThreshold, barred)...)
	if err != nil {
		t.Fatal(err)
	}
	tokens, logprobs, processed := out[0].Value().([]int32), out[1].Value().([]float32), out[2].Value().([]float32)
	results := make([]drawn, len(rows))
	for i := range results {
		results[i] = drawn{tokens[i], logprobs[i], processed[i]}
	}
	return results, out[3].Value().([][]float32)
}

// count notes the tokens of a prompt and a completion.
func (r *processedRow) count(prompt, drawn []int32) {
	for _, t := range prompt {
		r.seen[t] |= sampling.InPrompt
	}
	for _, t := range drawn {
		r.seen[t] += sampling.OneDrawn
	}
}

// after is the plain Go form of biases and penalties.
func (r *processedRow) after() []float32 {
	s := r.settings
	out := slices.Clone(r.logits)
	for t, l := range out {
		if r.biased && math.IsInf(float64(r.biases[t]), 1) {
			if r.early {
				l = negativeInfinity
			}
		} else if r.biased {
			l += r.biases[t]
		}
		if s.Penalized() && r.seen[t] > 0 {
			if l > 0 {
				l /= float32(s.Repetition())
			} else {
				l *= float32(s.Repetition())
			}
		}
		if n := r.seen[t] / sampling.OneDrawn; s.Penalized() && n > 0 {
			l = float32(float64(l)-float64(float32(s.FrequencyPenalty))*float64(n)) - float32(s.PresencePenalty)
		}
		out[t] = l
	}
	return out
}

// kept is the plain Go form of the filters, in float64: which tokens they keep, for rows whose random number XTC
// wants. near reports that rounding may choose otherwise.
func (r *processedRow) kept(logits []float32) (kept []bool, near bool) {
	s, n := r.settings, len(logits)
	kept = make([]bool, n)
	top := float64(slices.Max(logits))
	x := make([]float64, n)
	var count, sum, squares float64
	for i, l := range logits {
		if kept[i] = l > negativeInfinity; kept[i] {
			d := top - float64(l)
			count, sum, squares = count+1, sum+d, squares+d*d
		}
		x[i] = (top - float64(l)) / s.Temperature
	}
	if s.TopNSigma > 0 {
		mean := sum / count
		bound := s.TopNSigma * math.Sqrt(squares/count-mean*mean)
		for i, l := range logits {
			near = near || math.Abs(top-float64(l)-bound) < 0.01*s.TopNSigma
			kept[i] = kept[i] && top-float64(l) <= bound
		}
	}
	if s.TypicalMass() == 0 && s.XTCProbability == 0 {
		return kept, near
	}
	inner := s
	only := make([]float32, n)
	for i, l := range logits {
		if only[i] = negativeInfinity; kept[i] {
			only[i] = l
		}
	}
	reference := refer(only, inner)
	near = near || reference.margin < 1e-5
	p := reference.probs
	if s.TypicalMass() > 0 {
		mean := 0.0
		for i := range p {
			if p[i] > 0 {
				mean += p[i] * x[i]
			}
		}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		far := func(i int) float64 { return math.Abs(x[i] - mean) }
		order = slices.DeleteFunc(order, func(i int) bool { return p[i] == 0 })
		slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, far(a)-far(b))) })
		mass, keep := 0.0, 0
		for keep < len(order) && mass < s.TypicalP {
			mass += p[order[keep]]
			keep++
			near = near || math.Abs(mass-s.TypicalP) < 1e-5
		}
		for k, i := range order {
			if k > 0 && k == keep && far(i)-far(order[k-1]) < 1e-5 {
				near = true
			}
			if k >= keep {
				p[i] = 0
			}
		}
		whole := 0.0
		for _, q := range p {
			whole += q
		}
		for i := range p {
			p[i] /= whole
		}
	}
	random := sampling.Threefry(r.key, [2]uint32{uint32(r.position), 1})
	if float64(random[0]) < s.XTCProbability*(1<<32) {
		least := 2.0
		for _, q := range p {
			if q >= s.XTCThreshold && q > 0 {
				least = min(least, q)
			}
			near = near || math.Abs(q-s.XTCThreshold) < 1e-6
		}
		for i, q := range p {
			if q > least*(1+1e-7) {
				p[i] = 0
			}
		}
	}
	for i := range kept {
		kept[i] = p[i] > 0
	}
	return kept, near
}

// Goldens of transformers, vLLM and llama.cpp's formulas, made by scripts/oracle/processors_goldens.py.
func TestProcessorsLikeOthers(t *testing.T) {
	var golden struct {
		Penalties []struct {
			Logits        []float32
			Prompt, Drawn []int32
			Settings      [3]float64
			After         []float32
		}
		Filters []struct {
			Logits       []float32
			Temperature  float64
			TopNSigma    float64  `json:"top_n_sigma"`
			TypicalP     float64  `json:"typical_p"`
			XTCThreshold *float64 `json:"xtc_threshold"`
			Kept         []int
		}
	}
	data, err := os.ReadFile("testdata/processors.json")
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rows []processedRow
	for _, c := range golden.Penalties {
		r := newProcessedRow(row{logits: c.Logits, settings: sampling.Settings{Temperature: 1, TopP: 1,
			RepetitionPenalty: c.Settings[0], FrequencyPenalty: c.Settings[1], PresencePenalty: c.Settings[2]}})
		r.count(c.Prompt, c.Drawn)
		rows = append(rows, r)
	}
	for _, c := range golden.Filters {
		s := sampling.Settings{Temperature: c.Temperature, TopP: 1, TopNSigma: c.TopNSigma, TypicalP: c.TypicalP}
		if c.XTCThreshold != nil {
			s.XTCProbability, s.XTCThreshold = 1, *c.XTCThreshold
		}
		rows = append(rows, newProcessedRow(row{logits: c.Logits, settings: s}))
	}
	for name, backend := range map[string]compute.Backend{"go": testenv.Go(t), "xla": testenv.XLA(t)} {
		t.Run(name, func(t *testing.T) {
			_, after := newProcessing(t, backend).run(t, rows)
			for i, c := range golden.Penalties {
				for token, want := range c.After {
					if d := math.Abs(float64(after[i][token] - want)); d > 1e-5 {
						t.Errorf("penalties %v: token %d gets %v, want %v", c.Settings, token, after[i][token], want)
					}
				}
			}
			for i, c := range golden.Filters {
				var kept []int
				for token, l := range after[len(golden.Penalties)+i] {
					if l > negativeInfinity {
						kept = append(kept, token)
					}
				}
				if !slices.Equal(kept, c.Kept) {
					t.Errorf("%+v: keeps %v", c, kept)
				}
			}
		})
	}
}

// randomProcessed is a row with some processors, or none.
func randomProcessed(rng *rand.Rand, size int) processedRow {
	logits := make([]float32, size)
	for i := range logits {
		logits[i] = float32(math.Round(rng.NormFloat64()*2.5*1024) / 1024)
	}
	one := func(values ...float64) float64 { return values[rng.IntN(len(values))] }
	r := newProcessedRow(row{logits: logits, key: [2]uint32{rng.Uint32(), rng.Uint32()}, position: rng.Int32N(1000),
		settings: sampling.Settings{Temperature: one(0, 0.5, 1, 1.8), TopP: 1}})
	if rng.IntN(3) == 0 {
		r.settings.TopK, r.settings.TopP, r.settings.MinP = rng.IntN(20), one(1, 0.8, 0.3), one(0, 0.05)
	}
	token := func() int32 { return rng.Int32N(int32(size)) }
	if rng.IntN(2) == 0 {
		for range rng.IntN(20) {
			r.count([]int32{token()}, []int32{token()})
		}
		r.settings.RepetitionPenalty = one(1, 1.25, 0.75)
		r.settings.FrequencyPenalty, r.settings.PresencePenalty = one(0, 0.5, -0.25), one(0, 1.5)
	}
	if rng.IntN(2) == 0 {
		r.biased, r.early = true, rng.IntN(2) == 0
		for range 5 {
			r.biases[token()] = float32(one(-100, 2.5, 7))
		}
		r.biases[token()] = sampling.BarredEarly
	}
	if rng.IntN(2) == 0 {
		r.settings.TopNSigma, r.settings.TypicalP = one(0, 1, 2.5), one(1, 0.4, 0.9)
		r.settings.XTCProbability, r.settings.XTCThreshold = one(0, 0.5, 1), one(0.02, 0.1)
	}
	if rng.IntN(4) == 0 {
		r.barred = []int32{token(), -1}
	}
	return r
}

// processed reports whether any processor applies to the row.
func (r *processedRow) processed() bool {
	return r.biased || r.settings.Penalized() || r.settings.Filtered()
}

// Random rows sample what the plain Go form of processors leaves, with the log-probability that the model gives the
// token; rows without processors sample as if there were none, bit for bit.
func TestProcessorsOnRandomRows(t *testing.T) {
	const size, batch = 96, 250
	batches := 40
	if testing.Short() {
		batches = 8
	}
	backend := testenv.XLA(t)
	p, plain := newProcessing(t, backend), newBarredSampler(t, backend)
	rng := rand.New(rand.NewPCG(24, 1))
	compared, kinds := 0, map[string]int{}
	for range batches {
		rows := make([]processedRow, batch)
		var without []row
		var barred [][]int32
		for i := range rows {
			rows[i] = randomProcessed(rng, size)
			without, barred = append(without, rows[i].row), append(barred, rows[i].barred)
		}
		got, after := p.run(t, rows)
		out, err := plain.Exec(append(arguments(without), barred)...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			r := &rows[i]
			if !r.processed() {
				want := drawn{out[0].Value().([]int32)[i], out[1].Value().([]float32)[i], out[2].Value().([]float32)[i]}
				if got[i] != want {
					t.Errorf("a row without processors draws %+v, and %+v where no row has any", got[i], want)
				}
				kinds["without"]++
				continue
			}
			compareProcessed(t, r, got[i], after[i], &compared)
		}
	}
	if compared < batches*batch/3 {
		t.Errorf("%d of %d rows were compared", compared, batches*batch)
	}
	t.Log(compared, kinds)
}

// compareProcessed compares what a row sampled, and its logits after processors, with the plain Go form.
func compareProcessed(t *testing.T, r *processedRow, got drawn, after []float32, compared *int) {
	t.Helper()
	wantAfter := r.after()
	what := fmt.Sprintf("%+v, biased %v, barred %v", r.settings, r.biased, r.barred)
	if !r.settings.Filtered() || r.settings.Greedy() {
		for token, want := range wantAfter {
			barred := want == negativeInfinity
			if d := after[token] - want; d > 1e-5 || d < -1e-5 || barred != (after[token] == negativeInfinity) {
				t.Errorf("%s: token %d has logit %v, want %v", what, token, after[token], want)
				return
			}
		}
	}
	for _, token := range r.barred {
		if token >= 0 {
			wantAfter[token] = negativeInfinity
		}
	}
	want := refer(wantAfter, r.settings)
	if r.settings.Filtered() && !r.settings.Greedy() {
		kept, near := r.kept(wantAfter)
		if near {
			return
		}
		dropped := slices.Clone(wantAfter)
		for token := range dropped {
			if !kept[token] {
				dropped[token] = negativeInfinity
			}
		}
		rest := r.settings
		if rest.TypicalMass() > 0 || rest.XTCProbability > 0 {
			rest.TopK, rest.TopP, rest.MinP = 0, 1, 0
		}
		want = refer(dropped, rest)
	}
	token, near := want.token(r.key, r.position)
	if r.settings.Greedy() {
		token, near = slices.Index(wantAfter, slices.Max(wantAfter)), false
		if slices.Max(wantAfter) == negativeInfinity {
			return
		}
	}
	if near || want.margin < 1e-5 {
		return
	}
	*compared++
	raw := refer(r.logits, r.settings).logprobs
	if int(got.token) != token {
		t.Errorf("%s: draws %d, want %d", what, got.token, token)
	} else if d := math.Abs(float64(got.logprob) - raw[token]); d > 1e-5 {
		t.Errorf("%s: token %d has logprob %v, want %v", what, token, got.logprob, raw[token])
	} else if d := math.Abs(float64(got.processed) - math.Log(want.probs[token])); d > 1e-4 {
		t.Errorf("%s: token %d has processed logprob %v, want %v", what, token, got.processed,
			math.Log(want.probs[token]))
	}
}
