package sampling_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// splitMix is the generator of scripts/oracle/rows_goldens.py.
type splitMix uint64

func (s *splitMix) below(n int) int {
	*s += 0x9E3779B97F4A7C15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return int((z ^ z>>31) % uint64(n))
}

func (s *splitMix) pick(values ...float64) float64 { return values[s.below(len(values))] }

func (s *splitMix) tokens(most int) []int32 {
	tokens := make([]int32, s.below(most+1))
	for i := range tokens {
		tokens[i] = int32(s.below(goldenSize))
	}
	return tokens
}

// Rows of the golden have so many logits, the last of which is the end token's.
const goldenSize, goldenEnd, goldenRows = 64, 63, 10000

// goldenRow is a row of the golden, with its allowed tokens as two masks.
type goldenRow struct {
	processedRow
	masks [2]uint64
}

func newGoldenRow(number int) goldenRow {
	r := splitMix(number)
	logits := make([]float32, goldenSize)
	for i := range logits {
		sum := r.below(4096) + r.below(4096) + r.below(4096) + r.below(4096)
		logits[i] = float32(sum-8190) / 1024
	}
	row := goldenRow{newProcessedRow(row{logits: logits, key: [2]uint32{1, uint32(number)}}), [2]uint64{^uint64(0),
		^uint64(0)}}
	prompt := append([]int32{int32(r.below(goldenSize))}, r.tokens(10)...)
	drawn := r.tokens(20)
	s := &row.settings
	s.Temperature = r.pick(0, 0.5, 0.8, 1, 1.5)
	s.TopK = int(r.pick(0, 0, 1, 5, 20, 64))
	s.TopP = r.pick(1, 1, 0.9, 0.5, 0.1)
	s.MinP = r.pick(0, 0, 0.02, 0.2)
	s.TypicalP = r.pick(1, 1, 0.95, 0.5, 0.1)
	s.RepetitionPenalty = r.pick(1, 1, 1.1, 1.5, 0.75)
	s.FrequencyPenalty = r.pick(0, 0, 0.5, -0.25, 2)
	s.PresencePenalty = r.pick(0, 0, 1.5, -2)
	row.count(prompt, drawn)
	biased := r.tokens(4)
	for _, t := range biased {
		row.biased, row.biases[t] = true, float32(r.pick(-100, -2.5, 1.25, 5))
	}
	if r.below(3) == 0 {
		for _, t := range r.tokens(3) {
			row.masks[1] &^= 1 << t
		}
	}
	if r.below(4) == 0 {
		row.masks[0] = 0xff << 56
		for range 8 {
			row.masks[0] |= 1 << r.below(goldenSize-1)
		}
	}
	if len(drawn) < int(r.pick(0, 0, 8, 30)) {
		row.barred[0] = goldenEnd
	}
	return row
}

// newGoldenSampler samples rows with all processors of the golden, and also returns the logits before temperature.
func newGoldenSampler(t testing.TB, backend compute.Backend) *Exec {
	t.Helper()
	exec, err := NewExec(backend, func(in []*Node) []*Node {
		by := sampling.Processors{
			Biases:    &sampling.Biases{Values: in[7], Has: in[8], Early: in[9]},
			Penalties: &sampling.Penalties{Repetition: in[10], Frequency: in[11], Presence: in[12]}, Seen: in[13],
			Masks: sampling.Masks{Bits: in[14], Of: in[15]},
			Filters: &sampling.Filters{TopNSigma: ZerosLike(in[1]), Typical: in[16], XTCProbability: ZerosLike(in[1]),
				XTCThreshold: ZerosLike(in[1])},
		}
		tokens, logprobs, processed := sampling.SampleProcessed(in[0], by, params(in[1:6]), in[6], allRows(in[0]),
			in[17])
		return []*Node{tokens, logprobs, processed, by.Apply(in[0])}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return exec
}

// goldenArguments are the inputs of newGoldenSampler.
func goldenArguments(rows []goldenRow) []any {
	var (
		plain                                    []row
		biases                                   [][]float32
		has, early                               []bool
		repetition, frequency, presence, typical []float32
		seen, of, barred                         [][]int32
		bits                                     [][]uint32
	)
	for i, r := range rows {
		s := r.settings
		plain = append(plain, r.row)
		biases, has, early = append(biases, r.biases), append(has, r.biased), append(early, false)
		penalty := 0.0
		if s.Penalized() {
			penalty = s.Repetition()
		}
		repetition, frequency = append(repetition, float32(penalty)), append(frequency, float32(s.FrequencyPenalty))
		presence, typical = append(presence, float32(s.PresencePenalty)), append(typical, float32(s.TypicalMass()))
		seen, barred = append(seen, r.seen), append(barred, r.barred)
		lanes := []int32{sampling.NoMask, sampling.NoMask}
		for lane, mask := range r.masks {
			if mask != ^uint64(0) {
				lanes[lane] = int32(2*i + lane)
			}
			bits = append(bits, []uint32{uint32(mask), uint32(mask >> 32)})
		}
		of = append(of, lanes)
	}
	return append(arguments(plain), biases, has, early, repetition, frequency, presence, seen, bits, of, typical,
		barred)
}

// goldenLine is what transformers' logits processors leave of a row.
type goldenLine struct {
	near bool
	kept uint64
	// LogSum is the logarithm of the sum of exp(score) over what is kept, Weighted the sum of (token + 1) * score.
	LogSum, Weighted float64
}

func readGolden(t testing.TB) (lines []goldenLine) {
	t.Helper()
	f, err := os.Open("testdata/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var l goldenLine
		if l.near = s.Text() == "near"; !l.near {
			if _, err := fmt.Sscanf(s.Text(), "%x %g %g", &l.kept, &l.LogSum, &l.Weighted); err != nil {
				t.Fatalf("line %d: %v", len(lines)+1, err)
			}
		}
		lines = append(lines, l)
	}
	if len(lines) != goldenRows {
		t.Fatalf("%d rows", len(lines))
	}
	return lines
}

// 10,000 rows with all that rows may ask for sample what transformers' logits processors leave of them, made by
// scripts/oracle/rows_goldens.py. Without kernels the fast tests have a quarter of the rows.
func TestRowsLikeTransformers(t *testing.T) {
	lines := readGolden(t)
	plain := testenv.XLAWithoutKernels(t)
	for name, backend := range map[string]compute.Backend{"kernel": testenv.XLA(t), "xla": plain,
		"tpu": likeTPU{plain}} {
		t.Run(name, func(t *testing.T) {
			exec := newGoldenSampler(t, backend)
			near := 0
			const batch = 500
			batches := goldenRows / batch
			if testing.Short() && name != "kernel" {
				batches /= 10
			}
			for first := range batches {
				rows := make([]goldenRow, batch)
				for i := range rows {
					rows[i] = newGoldenRow(first*batch + i)
				}
				out, err := exec.Exec(goldenArguments(rows)...)
				if err != nil {
					t.Fatal(err)
				}
				tokens, logprobs := out[0].Value().([]int32), out[1].Value().([]float32)
				processed, applied := out[2].Value().([]float32), out[3].Value().([][]float32)
				for i := range rows {
					number := first*batch + i
					got := drawn{tokens[i], logprobs[i], processed[i]}
					if lines[number].near {
						near++
					} else if what := lines[number].differs(&rows[i], got, applied[i]); what != "" {
						t.Errorf("row %d, %+v: %s", number, rows[i].settings, what)
					}
				}
			}
			if near > goldenRows/20 {
				t.Errorf("%d rows are not compared", near)
			}
		})
	}
}

// differs returns how a row differs from the golden, "" if it does not. applied are its logits before temperature.
func (l *goldenLine) differs(r *goldenRow, got drawn, applied []float32) string {
	temperature := r.settings.Temperature
	if temperature == 0 {
		temperature = 1
	}
	score := func(token int) float64 { return float64(applied[token]) / temperature }
	weighted := 0.0
	for token := range goldenSize {
		if l.kept>>token&1 == 1 {
			weighted += float64(token+1) * score(token)
		}
	}
	if d := math.Abs(weighted - l.Weighted); !(d < 1e-3+1e-6*math.Abs(weighted)) {
		return fmt.Sprintf("the kept scores have the weighted sum %v, want %v", weighted, l.Weighted)
	}
	if got.token < 0 || l.kept>>got.token&1 == 0 {
		return fmt.Sprintf("it draws %d, which is none of %016x", got.token, l.kept)
	}
	want := score(int(got.token)) - l.LogSum
	if r.settings.Temperature == 0 {
		want = 0
	}
	if d := math.Abs(float64(got.processed) - want); !(d < 1e-4) {
		return fmt.Sprintf("token %d has the processed logprob %v, want %v", got.token, got.processed, want)
	}
	sum, top := 0.0, float64(slices.Max(r.logits))
	for _, x := range r.logits {
		sum += math.Exp(float64(x) - top)
	}
	raw := float64(r.logits[got.token]) - top - math.Log(sum)
	if d := math.Abs(float64(got.logprob) - raw); !(d < 1e-5) {
		return fmt.Sprintf("token %d has the logprob %v, want %v", got.token, got.logprob, raw)
	}
	return ""
}
