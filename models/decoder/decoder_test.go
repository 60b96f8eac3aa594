package decoder_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// dense is attention over one whole sequence at once: the textbook form.
func dense(cfg models.Config) decoder.AttentionFunc {
	return func(layer decoder.Layer, state []*Node, q, k, v *Node) (*Node, []*Node) {
		g := q.Graph()
		t, group := q.Shape().Dimensions[0], cfg.NumHeads/cfg.NumKVHeads
		q = Reshape(q, t, cfg.NumKVHeads, group, cfg.HeadDim)
		options := decoder.AttentionOptions(cfg, layer.Number, false)
		scores := MulScalar(Einsum("skgd,tkd->kgst", q, k), options.Scale)
		if c := options.SoftCap; c > 0 {
			scores = MulScalar(Tanh(DivScalar(scores, c)), c)
		}
		square := shapes.Make(dtypes.Int32, t, t)
		from, to := Iota(g, square, 0), Iota(g, square, 1)
		seen := LessOrEqual(to, from)
		if w := options.Window; w > 0 {
			seen = LogicalAnd(seen, GreaterThan(to, SubScalar(from, float64(w))))
		}
		mask := BroadcastToDims(InsertAxes(seen, 0, 0), scores.Shape().Dimensions...)
		scores = Where(mask, scores, FillScalar(g, scores.Shape(), -1e30))
		return Reshape(Einsum("kgst,tkd->skgd", Softmax(scores), v), t, cfg.NumHeads, cfg.HeadDim), state
	}
}

// padded is the length that every prompt is padded to: attention is causal, so that what comes behind a prompt is not
// seen.
const padded = 128

// scorer returns a function that runs the decoder over a prompt and returns the scores behind its last token.
func scorer(t *testing.T, b compute.Backend, ckpt *models.Checkpoint) func(prompt []int32) []float32 {
	t.Helper()
	arrays := decoder.Arrays(ckpt.Config, decoder.Storage{Backend: b, DType: dtypes.Float32})
	args := []any{nil, nil}
	for _, a := range arrays {
		buffer, err := a.Load(b, 0, ckpt)
		if err != nil {
			t.Fatal(err)
		}
		weight, err := tensors.FromBuffer(buffer)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, weight)
	}
	exec, err := NewExec(b, func(in []*Node) *Node {
		tokens, last := in[0], in[1]
		local := decoder.NewPartition(ckpt.Config, collective.Devices(b)).Local(ckpt.Config)
		hidden, _ := decoder.Hidden(ckpt.Config, decoder.NewWeights(arrays, in[2:]), tokens,
			Iota(tokens.Graph(), tokens.Shape(), 0), Scalar(tokens.Graph(), dtypes.Int32, padded), nil, dense(local))
		return decoder.Logits(ckpt.Config, decoder.NewWeights(arrays, in[2:]), Gather(hidden, Reshape(last, 1, 1)),
			Scalar(last.Graph(), dtypes.Int32, 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(prompt []int32) []float32 {
		args[0], args[1] = append(slices.Clone(prompt), make([]int32, padded-len(prompt))...), int32(len(prompt)-1)
		out, err := exec.Exec1(args...)
		if err != nil {
			t.Fatal(err)
		}
		return tensors.MustCopyFlatData[float32](out)
	}
}

// The decoder's scores are transformers', for every family and prompt length.
func TestLogitsEqualTransformers(t *testing.T) {
	for _, family := range testenv.Families(t) {
		t.Run(family, func(t *testing.T) {
			ckpt := testenv.Model(t, family)
			var golden testenv.Golden
			testenv.ReadGolden(t, family, &golden)
			for name, backend := range map[string]compute.Backend{"kernels": testenv.XLA(t),
				"plain": testenv.XLAWithoutKernels(t)} {
				score := scorer(t, backend, ckpt)
				for _, c := range golden.Cases {
					got := score(c.Prompt)
					worst := 0.0
					for i := range c.Logits {
						worst = max(worst, math.Abs(float64(got[i]-c.Logits[i])))
					}
					if worst > 1e-4 || math.IsNaN(worst) {
						t.Errorf("%s, prompt of %d tokens: logits differ by up to %g, want 1e-4", name, len(c.Prompt),
							worst)
					}
				}
			}
		})
	}
}
