package decoder_test

import (
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/text/tokenizer"
)

// What fewer bits cost: the perplexity of SmolLM2 on what was this repository's documentation once, in windows of 512
// tokens. The file has Q4_1 and Q8_0: what it is rounded to begins there.
func TestPerplexity(t *testing.T) {
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
	full := perplexity(decoder.Storage{DType: dtypes.Float32})
	t.Logf("perplexity over %d tokens in float32 is %.4f", len(ids)-1, full)
	as := func(f blocks.Format) func(string) blocks.Format { return func(string) blocks.Format { return f } }
	for _, c := range []struct {
		name string
		s    decoder.Storage
		most float64 // by float32's
	}{
		{"bfloat16", decoder.Storage{DType: dtypes.BFloat16}, 1.005},
		{"as stored, float32", decoder.Storage{DType: dtypes.Float32, Blocks: ckpt.Blocks}, 1.005},
		{"as stored, bfloat16", decoder.Storage{DType: dtypes.BFloat16, Blocks: ckpt.Blocks}, 1.005},
		{"Q8_0, float32", decoder.Storage{DType: dtypes.Float32, Blocks: as(blocks.Q8_0)}, 1.005},
		{"Q8_0, bfloat16", decoder.Storage{DType: dtypes.BFloat16, Blocks: as(blocks.Q8_0)}, 1.005},
		{"Q4_0, float32", decoder.Storage{DType: dtypes.Float32, Blocks: as(blocks.Q4_0)}, 1.5},
		{"int8, float32", decoder.Storage{DType: dtypes.Float32, Int8: true}, 1.06},
	} {
		got := perplexity(c.s)
		t.Logf("%s: %.4f (%+.2f %%)", c.name, got, 100*(got/full-1))
		if !(got < full*c.most) {
			t.Errorf("%s raises the perplexity from %g to %g, more than %g times", c.name, full, got, c.most)
		}
	}
}

const window = 512

// lossOf returns a function that sums -log p over the tokens of a window after its first.
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
		hidden, _ := decoder.Hidden(ckpt.Config, w, decoder.Embed(ckpt.Config, w, tokens, nil, rows),
			Iota(g, tokens.Shape(), 0), rows, nil, dense(ckpt.Config), nil)
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
