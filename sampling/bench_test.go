package sampling_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/sampling"
)

// benchRounds is the number of steps of a device call, as in the engine's decode loop.
const benchRounds = 16

// benchState is the state of the benchmark's loop.
type benchState struct{ Round, Tokens *Node }

// rounds samples benchRounds times in a loop on the device. Each round changes a logit, so that no pass over the logits
// can be moved out of the loop.
func rounds(in []*Node) *Node {
	g := in[0].Graph()
	start := benchState{Scalar(g, dtypes.Int32, 0), ZerosLike(in[6])}
	return control.While(start,
		func(s benchState) *Node { return LessThan(s.Round, Scalar(g, dtypes.Int32, benchRounds)) },
		func(s benchState) benchState {
			place := Iota(g, shapes.Make(dtypes.Int32, in[0].Shape().Dimensions...), 1)
			logits := Where(Equal(place, s.Round), AddScalar(in[0], 1), in[0])
			tokens, _, _ := sampling.Sample(logits, params(in[1:6]), Add(in[6], s.Round), allRows(logits))
			return benchState{AddScalar(s.Round, 1), Add(s.Tokens, tokens)}
		}).Tokens
}

// BenchmarkSample is the cost of one step's sampling on XLA:CPU, for the vocabularies of SmolLM2, Qwen and GPT-2 (which
// needs padding): ms/step by the clock, and processor time, which a busy machine disturbs less.
func BenchmarkSample(b *testing.B) {
	settings := []struct {
		name string
		sampling.Settings
	}{
		{"greedy", sampling.Settings{TopP: 1}},
		{"temperature", sampling.Settings{Temperature: 0.8, TopP: 1}},
		{"top-k", sampling.Settings{Temperature: 0.8, TopP: 1, TopK: 50}},
		{"top-p", sampling.Settings{Temperature: 0.8, TopP: 0.95}},
		{"all", sampling.Settings{Temperature: 0.8, TopP: 0.95, TopK: 50, MinP: 0.02}},
		{"hot", sampling.Settings{Temperature: 2, TopP: 0.95}},
	}
	for _, shape := range [][2]int{{64, 49152}, {16, 151936}, {64, 50257}} {
		exec, err := NewExec(testenv.XLA(b), rounds)
		if err != nil {
			b.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		rows := make([]row, shape[0])
		for i := range rows {
			rows[i] = row{logits: languageLike(r, shape[1]), key: sampling.RequestKey(1, uint64(i), 0), position: 7}
		}
		for _, with := range settings {
			for i := range rows {
				rows[i].settings = with.Settings
			}
			args := deviceArguments(rows)
			step := func(b *testing.B) {
				out, err := exec.Exec(args...)
				if err != nil {
					b.Fatal(err)
				}
				out[0].MustFinalizeAll()
			}
			b.Run(fmt.Sprintf("%s_%dx%d", with.name, shape[0], shape[1]), func(b *testing.B) {
				step(b) // Compiles, and brings the arguments to the device.
				before, start := cpuTime(), time.Now()
				for range b.N {
					step(b)
				}
				steps := float64(b.N * benchRounds)
				b.ReportMetric(float64(time.Since(start).Microseconds())/1000/steps, "ms/step")
				b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/steps, "cpu-ms/step")
			})
		}
		exec.Finalize()
	}
}

// cpuTime is the processor time of the process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
