package sampling_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// row is one row of a batch.
type row struct {
	logits   []float32
	settings sampling.Settings
	key      [2]uint32
	position int32
}

// drawn is the result of one row.
type drawn struct {
	token              int32
	logprob, processed float32
}

// sampler runs Sample on one backend.
type sampler struct{ exec *Exec }

func newSampler(t testing.TB, backend compute.Backend) sampler {
	t.Helper()
	return sampler{newExec(t, backend, func(in []*Node) (tokens, logprobs, processed *Node) {
		return sampling.Sample(in[0], params(in[1:6]), in[6], allRows(in[0]))
	})}
}

// newExec prepares a graph that samples.
func newExec(t testing.TB, backend compute.Backend, graph func(in []*Node) (tokens, logprobs, processed *Node)) *Exec {
	t.Helper()
	exec, err := NewExec(backend, graph)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return exec
}

// onEach runs a test in Go, in XLA's own operations, with the CPU's kernels, and, if slow tests run, in the form for
// TPUs.
func onEach(t *testing.T, test func(*testing.T, compute.Backend)) {
	plain := testenv.XLAWithoutKernels(t)
	for name, backend := range map[string]compute.Backend{"go": testenv.Go(t), "xla": plain, "tpu": likeTPU{plain},
		"kernel": testenv.XLA(t)} {
		t.Run(name, func(t *testing.T) {
			if name == "tpu" {
				testenv.Slow(t)
			}
			test(t, backend)
		})
	}
}

func params(in []*Node) sampling.Params {
	return sampling.Params{Temperature: in[0], TopP: in[1], MinP: in[2], TopK: in[3], Key: in[4]}
}

func arguments(rows []row) []any {
	var (
		logits                  [][]float32
		temperature, topP, minP []float32
		topK, positions         []int32
		keys                    [][]uint32
	)
	for _, r := range rows {
		logits = append(logits, r.logits)
		temperature = append(temperature, float32(r.settings.Temperature))
		topP = append(topP, float32(r.settings.TopP))
		minP = append(minP, float32(r.settings.MinP))
		topK = append(topK, int32(r.settings.TopK))
		keys = append(keys, r.key[:])
		positions = append(positions, r.position)
	}
	return []any{logits, temperature, topP, minP, topK, keys, positions}
}

// deviceArguments are arguments as tensors, which go to the device once.
func deviceArguments(rows []row) []any {
	args := arguments(rows)
	for i := range args {
		args[i] = tensors.MustFromAnyValue(args[i])
	}
	return args
}

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}

func (s sampler) draw(t tester, rows []row) []drawn {
	t.Helper()
	out, err := s.exec.Exec(arguments(rows)...)
	if err != nil {
		t.Fatal(err)
	}
	tokens, logprobs, processed := out[0].Value().([]int32), out[1].Value().([]float32), out[2].Value().([]float32)
	results := make([]drawn, len(rows))
	for i := range results {
		results[i] = drawn{tokens[i], logprobs[i], processed[i]}
	}
	return results
}

// onBackends runs a test on GoMLX's own backend and on XLA:CPU, there with the kernel and without.
func onBackends(t *testing.T, test func(t *testing.T, s sampler)) {
	onEach(t, func(t *testing.T, backend compute.Backend) { test(t, newSampler(t, backend)) })
}

// onXLA runs a test of many rows with the kernel, and leaves the plain form to the slow tests.
func onXLA(t *testing.T, test func(t *testing.T, s sampler)) {
	t.Run("kernel", func(t *testing.T) { test(t, newSampler(t, testenv.XLA(t))) })
	t.Run("xla", func(t *testing.T) {
		testenv.Slow(t)
		test(t, newSampler(t, testenv.XLAWithoutKernels(t)))
	})
}

// languageLike returns logits as a language model's: a few likely tokens and a long tail.
func languageLike(r *rand.Rand, size int) []float32 {
	logits := make([]float32, size)
	for i := range logits {
		logits[i] = float32(r.NormFloat64() * 2.5)
	}
	for range 20 {
		logits[r.IntN(size)] += float32(6 + 6*r.Float64())
	}
	return logits
}

var negativeInfinity = float32(math.Inf(-1))

// allRows asks for all rows of logits.
func allRows(logits *Node) *Node {
	return Scalar(logits.Graph(), dtypes.Int32, logits.Shape().Dimensions[0])
}
