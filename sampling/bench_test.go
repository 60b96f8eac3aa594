package sampling_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/sampling"
)

// BenchmarkSample is the cost of one step's sampling on XLA:CPU, for the vocabulary of SmolLM2 and of Qwen.
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
		s := newSampler(b, testenv.XLA(b))
		r := rand.New(rand.NewPCG(1, 2))
		rows := make([]row, shape[0])
		for i := range rows {
			rows[i] = row{logits: languageLike(r, shape[1]), key: sampling.RequestKey(1, uint64(i), 0), position: 7}
		}
		for _, with := range settings {
			for i := range rows {
				rows[i].settings = with.Settings
			}
			args := arguments(rows)
			for i := range args {
				args[i] = tensors.MustFromAnyValue(args[i])
			}
			b.Run(fmt.Sprintf("%s_%dx%d", with.name, shape[0], shape[1]), func(b *testing.B) {
				before := cpuTime()
				for b.Loop() {
					out, err := s.exec.Exec(args...)
					if err != nil {
						b.Fatal(err)
					}
					for _, o := range out {
						o.MustFinalizeAll()
					}
				}
				b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// cpuTime is the processor time of the process so far, which other processes on the machine disturb less than the clock.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
