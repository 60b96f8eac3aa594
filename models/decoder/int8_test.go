package decoder_test

import (
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/tokenizer"
)

// What 8-bit weights cost: the perplexity of SmolLM2 on what was this repository's documentation once, in windows of
// 512 tokens.
func TestInt8Perplexity(t *testing.T) {
	testenv.Slow(t)
	backend, ckpt := testenv.XLA(t), testenv.SmolLM2(t)
	tok, err := tokenizer.Open(ckpt.TokenizerSource())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/perplexity.txt")
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode(string(text), false)
	if err != nil {
		t.Fatal(err)
	}
	ids = ids[:min(len(ids), 16*window+1)]
	perplexity := func(s decoder.Storage) float64 {
		s.Backend = backend
		sum, n := 0.0, 0
		score := lossOf(t, ckpt, s)
		for from := 0; from+window < len(ids); from += window {
			sum += score(ids[from : from+window+1])
			n += window
		}
		return math.Exp(sum / float64(n))
	}
	full, half, small := perplexity(decoder.Storage{DType: dtypes.Float32}),
		perplexity(decoder.Storage{DType: dtypes.BFloat16}),
		perplexity(decoder.Storage{DType: dtypes.Float32, Int8: true})
	t.Logf("perplexity over %d tokens: float32 %.4f, bfloat16 %.4f, int8 %.4f (%+.2f %%)", len(ids)-1, full, half,
		small, 100*(small/full-1))
	if !(small < full*1.06) { // measured: 1.045
		t.Errorf("8-bit weights raise the perplexity from %g to %g", full, small)
	}
}

const window = 512

// lossOf returns a function that sums -log p over the tokens of a window behind its first.
func lossOf(t *testing.T, ckpt *models.Checkpoint, s decoder.Storage) func(ids []int32) float64 {
	t.Helper()
	arrays := decoder.Arrays(ckpt.Config, s)
	args := []any{nil, nil}
	for _, a := range arrays {
		buffer, err := a.Load(s.Backend, 0, ckpt)
		if err != nil {
			t.Fatal(err)
		}
		weight, err := tensors.FromBuffer(buffer)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(weight.MustFinalizeAll)
		args = append(args, weight)
	}
	exec, err := NewExec(s.Backend, func(in []*Node) *Node {
		tokens, next := in[0], in[1]
		g, w := tokens.Graph(), decoder.NewWeights(arrays, in[2:])
		rows := Scalar(g, dtypes.Int32, window)
		hidden, _ := decoder.Hidden(ckpt.Config, w, tokens, Iota(g, tokens.Shape(), 0), rows, nil, dense(ckpt.Config))
		logits := decoder.Logits(ckpt.Config, w, hidden, rows)
		chosen := Equal(Iota(g, shapes.Make(dtypes.Int32, window, ckpt.Config.VocabSize), 1),
			BroadcastToDims(InsertAxes(next, -1), window, ckpt.Config.VocabSize))
		logProbabilities := LogSoftmax(logits)
		return Neg(ReduceAllSum(Where(chosen, logProbabilities, ZerosLike(logProbabilities))))
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(ids []int32) float64 {
		args[0], args[1] = ids[:window], ids[1:]
		out, err := exec.Exec1(args...)
		if err != nil {
			t.Fatal(err)
		}
		return float64(tensors.ToScalar[float32](out))
	}
}
