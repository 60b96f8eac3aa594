package sampling_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
)

// benchRounds is the number of steps of a device call, as in the engine's decode loop.
const benchRounds = 16

// benchState is the state of the benchmark's loop.
type benchState struct{ Round, Tokens *Node }

// rounds samples benchRounds times in a loop on the device. For the plain form each round changes a logit, so that no
// pass over the logits can be moved out of the loop; of a kernel none can.
func rounds(change bool) func(in []*Node) *Node {
	return func(in []*Node) *Node {
		g := in[0].Graph()
		start := benchState{Scalar(g, dtypes.Int32, 0), ZerosLike(in[6])}
		return control.While(start,
			func(s benchState) *Node { return LessThan(s.Round, Scalar(g, dtypes.Int32, benchRounds)) },
			func(s benchState) benchState {
				logits := in[0]
				if change {
					place := Iota(g, shapes.Make(dtypes.Int32, logits.Shape().Dimensions...), 1)
					logits = Where(Equal(place, s.Round), AddScalar(logits, 1), logits)
				}
				draw := sampling.Sample
				if len(in) > 7 {
					draw = func(logits *Node, p sampling.Params, positions, rows *Node) (tokens, _, _ *Node) {
						by := sampling.Processors{Filters: &sampling.Filters{TopNSigma: in[7], Typical: in[8],
							XTCProbability: in[9], XTCThreshold: in[10]}}
						barred := InsertAxes(AddScalar(ZerosLike(positions), -1), -1)
						return sampling.SampleProcessed(logits, by, p, positions, rows, barred)
					}
				}
				tokens, _, _ := draw(logits, params(in[1:6]), Add(in[6], s.Round), allRows(logits))
				return benchState{AddScalar(s.Round, 1), Add(s.Tokens, tokens)}
			}).Tokens
	}
}

var benchSettings = []struct {
	name string
	sampling.Settings
}{
	{"greedy", sampling.Settings{TopP: 1}},
	{"temperature", sampling.Settings{Temperature: 0.8, TopP: 1}},
	{"top-k", sampling.Settings{Temperature: 0.8, TopP: 1, TopK: 50}},
	{"top-p", sampling.Settings{Temperature: 0.8, TopP: 0.95}},
	{"min-p", sampling.Settings{Temperature: 0.8, TopP: 1, MinP: 0.02}},
	{"all", sampling.Settings{Temperature: 0.8, TopP: 0.95, TopK: 50, MinP: 0.02}},
	{"hot", sampling.Settings{Temperature: 2, TopP: 0.95}},
	{"top-n-sigma", sampling.Settings{Temperature: 1, TopP: 1, TopNSigma: 1}},
	{"typical", sampling.Settings{Temperature: 1, TopP: 1, TypicalP: 0.9}},
	{"typical-hot", sampling.Settings{Temperature: 2, TopP: 1, TypicalP: 0.95}},
	{"xtc", sampling.Settings{Temperature: 1, TopP: 1, XTCProbability: 0.5, XTCThreshold: 0.1}},
}

// BenchmarkSample is the cost of one step's sampling by the kernel of XLA:CPU, for the vocabularies of SmolLM2 and
// Qwen: us/row by the clock, and in processor time, which a busy machine disturbs less.
func BenchmarkSample(b *testing.B) {
	for _, size := range []int{49152, 151936} {
		for _, rows := range []int{1, 16, 64, 256} {
			if rows*size > 64*151936 {
				continue
			}
			benchmark(b, testenv.XLA(b), false, rows, size)
		}
	}
}

// BenchmarkPlain is the same of the plain form.
func BenchmarkPlain(b *testing.B) { benchmark(b, testenv.XLAWithoutKernels(b), true, 64, 49152) }

func benchmark(b *testing.B, backend compute.Backend, change bool, n, size int) {
	exec, err := NewExec(backend, rounds(change))
	if err != nil {
		b.Fatal(err)
	}
	defer exec.Finalize()
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{logits: languageLike(r, size), key: sampling.RequestKey(1, uint64(i), 0), position: 7}
	}
	for _, with := range benchSettings {
		for i := range rows {
			rows[i].settings = with.Settings
		}
		args := deviceArguments(rows)
		if with.Settings.Filtered() {
			f := sampling.FiltersOf[[]float32]{TopNSigma: make([]float32, n), Typical: make([]float32, n),
				XTCProbability: make([]float32, n), XTCThreshold: make([]float32, n)}
			for i := range rows {
				sampling.SetFilters(f, i, with.Settings)
			}
			args = append(args, f.TopNSigma, f.Typical, f.XTCProbability, f.XTCThreshold)
		}
		step := func(b *testing.B) {
			out, err := exec.Exec(args...)
			if err != nil {
				b.Fatal(err)
			}
			out[0].MustFinalizeAll()
		}
		b.Run(fmt.Sprintf("%s_%dx%d", with.name, n, size), func(b *testing.B) {
			step(b) // Compiles, and brings the arguments to the device.
			before, start := cpuTime(), time.Now()
			for range b.N {
				step(b)
			}
			drawn := float64(b.N * benchRounds * n)
			b.ReportMetric(float64(time.Since(start).Microseconds())/drawn, "us/row")
			b.ReportMetric(float64((cpuTime()-before).Microseconds())/drawn, "cpu-us/row")
		})
	}
}

// BenchmarkReadLogits is what reading the logits of 64 rows takes at the least: us/row of one thread.
func BenchmarkReadLogits(b *testing.B) {
	const n, size = 64, 49152
	logits := make([]uint64, n*size/2)
	var sum uint64
	for b.Loop() {
		for i := 0; i+8 <= len(logits); i += 8 { // a cache line
			sum += logits[i]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/row")
	benchSum = sum
}

var benchSum uint64

// cpuTime is the processor time of the process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
