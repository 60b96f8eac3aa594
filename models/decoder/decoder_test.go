package decoder_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/models/recurrence"
)

// dense is attention over one whole sequence at once: the textbook form.
func dense(cfg models.Config) decoder.AttentionFunc {
	stored := map[int][2]*Node{} // keys and values, by layer
	return func(layer decoder.Layer, state []*Node, q, k, v *Node) (*Node, []*Node) {
		if k == nil {
			from := stored[cfg.Layers[layer.Number].KVFrom]
			k, v = from[0], from[1]
		}
		stored[layer.Number] = [2]*Node{k, v}
		g := q.Graph()
		t, heads, dim, kvHeads := q.Shape().Dimensions[0], q.Shape().Dimensions[1], q.Shape().Dimensions[2],
			k.Shape().Dimensions[1]
		group := heads / kvHeads
		q = Reshape(q, t, kvHeads, group, dim)
		options := decoder.AttentionOptions(cfg, layer, false)
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
		if options.Sinks == nil {
			return Reshape(Einsum("kgst,tkd->skgd", Softmax(scores), v), t, heads, dim), state
		}
		sinks := Reshape(ConvertDType(options.Sinks, q.DType()), kvHeads, group, 1, 1)
		sinks = BroadcastToDims(sinks, kvHeads, group, t, 1)
		weights := SliceAxis(Softmax(Concatenate([]*Node{scores, sinks}, 3)), 3, AxisRange(0, t))
		return Reshape(Einsum("kgst,tkd->skgd", weights, v), t, heads, dim), state
	}
}

// states are one page of each layer that keeps a state.
func states(g *Graph, cfg models.Config) []*Node {
	list := make([]*Node, cfg.NumLayers)
	for i := range list {
		if n := cfg.StateSize(i); n > 0 {
			list[i] = Zeros(g, attention.ContiguousLayout(1, padded, 1, 1, dtypes.Float32).StateLayout(n).Shape())
		}
	}
	return list
}

// oneSequence has the states of layers by their numbers, and all tokens as one sequence.
func oneSequence(g *Graph) decoder.StatesFunc {
	return func(l decoder.Layer) (int, recurrence.Rows) { return l.Number, recurrence.One(g, padded) }
}

// padded is the length that every prompt is padded to: attention is causal, so what comes after a prompt is not seen.
const padded = 128

// scorer returns a function that runs the decoder over a prompt and returns the scores after its last token.
func scorer(t *testing.T, b compute.Backend, ckpt *models.Checkpoint) func(prompt []int32) []float32 {
	return scorerOf(t, ckpt, decoder.Storage{Backend: b, DType: dtypes.Float32})
}

func scorerOf(t *testing.T, ckpt *models.Checkpoint, s decoder.Storage) func(prompt []int32) []float32 {
	t.Helper()
	b, arrays := s.Backend, decoder.Arrays(ckpt.Config, s)
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
		tokens, last, w := in[0], in[1], decoder.NewWeights(arrays, in[2:])
		rows := Scalar(tokens.Graph(), dtypes.Int32, padded)
		hidden, _ := decoder.Hidden(ckpt.Config, w, decoder.Embed(ckpt.Config, w, tokens, nil, rows),
			Iota(tokens.Graph(), tokens.Shape(), 0), rows, states(tokens.Graph(), ckpt.Config), dense(ckpt.Config),
			oneSequence(tokens.Graph()))
		return decoder.Logits(ckpt.Config, w, Gather(hidden, Reshape(last, 1, 1)),
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

// The decoder's scores are transformers', for every family and prompt length. Without kernels the fast tests have one
// family of each kind of layer.
func TestLogitsEqualTransformers(t *testing.T) {
	kinds := []string{"llama3", "qwen35", "gemma4", "deepseek-v3"}
	for _, family := range testenv.Families(t) {
		t.Run(family, func(t *testing.T) {
			ckpt := testenv.Model(t, family)
			t.Run("kernels", func(t *testing.T) { logitsEqualTransformers(t, family, testenv.XLA(t), ckpt) })
			t.Run("plain", func(t *testing.T) {
				if !slices.Contains(kinds, family) {
					testenv.Slow(t)
				}
				logitsEqualTransformers(t, family, testenv.XLAWithoutKernels(t), ckpt)
			})
		})
	}
}

func logitsEqualTransformers(t *testing.T, family string, backend compute.Backend, ckpt *models.Checkpoint) {
	t.Helper()
	var golden testenv.Golden
	testenv.ReadGolden(t, family, &golden)
	score, within := scorer(t, backend, ckpt), 1e-4
	if b, ok := backend.(interface{ NumDevices() int }); ok && b.NumDevices() > 1 {
		within = 2e-4 // sums of parts are rounded more often
	}
	for _, c := range golden.Cases {
		got := score(c.Prompt)
		worst := 0.0
		for i := range c.Logits {
			worst = max(worst, math.Abs(float64(got[i]-c.Logits[i])))
		}
		if worst > within || math.IsNaN(worst) {
			t.Errorf("prompt of %d tokens: logits differ by up to %g, want %g", len(c.Prompt), worst, within)
		}
	}
}

// weightKinds are the kinds of weights that hold fewer bits than float32, with the error that scores may have with
// each. If adjacent rows of int8 matrices swapped their scales, errors would be above 0.3.
var weightKinds = []struct {
	name    string
	storage decoder.Storage
	error   float64
	fast    []string // families of the fast tests
}{
	{"bfloat16", decoder.Storage{DType: dtypes.BFloat16}, 0.08, []string{"gemma4"}},
	{"float16", decoder.Storage{DType: dtypes.Float16}, 0.02, []string{"llama3"}},
	{"int8", decoder.Storage{DType: dtypes.Float32, Int8: true}, 0.12, []string{"deepseek-v3"}},
	{"Q8_0", decoder.Storage{DType: dtypes.BFloat16, Blocks: func(string) blocks.Format { return blocks.Q8_0 }}, 0.13,
		[]string{"gpt-oss"}},
}

// Held in 16 bits or 8, models score as in float32 but for rounding, which is about the same with kernels and without.
func TestLogitsOfFewerBits(t *testing.T) {
	for _, family := range testenv.Families(t) {
		for _, kind := range weightKinds {
			t.Run(family+" "+kind.name, func(t *testing.T) {
				if !slices.Contains(kind.fast, family) {
					testenv.Slow(t)
				}
				most, ratio := kind.error, 1.5
				if kind.storage.Blocks != nil { // the kernels round activations too
					ratio = 2
				}
				switch config := testenv.Model(t, family).Config; {
				case config.LayerEmbedding > 0: // transformers' error in bfloat16 is 0.13
					most *= 2.5
				case config.HasStates(): // which carry the errors of all tokens before
					most *= 1.75
				}
				kernels := errorsOfScores(t, family, kind.storage, testenv.XLA(t))
				plain := errorsOfScores(t, family, kind.storage, testenv.XLAWithoutKernels(t))
				layers := testenv.Model(t, family).Config.Layers
				if slices.ContainsFunc(layers, func(l arch.Layer) bool { return l.Experts.Count > 0 }) {
					// Rounding decides between experts with nearly equal scores: another expert is an error of 0.1.
					if a, b := together(kernels), together(plain); !(a < most+0.1 && b < most+0.1) {
						t.Errorf("errors are %g with kernels, %g without, want less than %g", a, b, most+0.1)
					}
					kernels, plain = withoutWorst(kernels), withoutWorst(plain)
				}
				if a, b := together(kernels), together(plain); !(a < most && b < most) {
					t.Errorf("errors are %g with kernels, %g without, want less than %g", a, b, most)
				}
				a, b := together(kernels), together(plain)
				t.Logf("errors are %.4f with kernels, %.4f without", a, b)
				if !(a < ratio*b) {
					t.Errorf("errors are %g with kernels, want less than %g times %g", a, ratio, b)
				}
			})
		}
	}
}

// scoresError returns how a prompt's scores differ from transformers', in sums of squares.
type scoresError struct{ wrong, all float64 }

// together is the root mean square of the difference of all scores, by their spread.
func together(prompts []scoresError) float64 {
	var sum scoresError
	for _, p := range prompts {
		sum.wrong += p.wrong
		sum.all += p.all
	}
	return math.Sqrt(sum.wrong / sum.all)
}

// withoutWorst leaves out the tenth of the prompts that differ most.
func withoutWorst(prompts []scoresError) []scoresError {
	sorted := slices.SortedFunc(slices.Values(prompts), func(a, b scoresError) int {
		return cmp.Compare(a.wrong/a.all, b.wrong/b.all)
	})
	return sorted[:len(sorted)-len(sorted)/10]
}

// errorsOfScores has an item for each golden prompt.
func errorsOfScores(t *testing.T, family string, s decoder.Storage, backend compute.Backend) []scoresError {
	t.Helper()
	var golden testenv.Golden
	testenv.ReadGolden(t, family, &golden)
	s.Backend = backend
	score := scorerOf(t, testenv.Model(t, family), s)
	var errors []scoresError
	for _, c := range golden.Cases {
		got, e := score(c.Prompt), scoresError{}
		for i, want := range c.Logits {
			e.wrong += math.Pow(float64(got[i]-want), 2)
			e.all += math.Pow(float64(want), 2)
		}
		errors = append(errors, e)
	}
	return errors
}
