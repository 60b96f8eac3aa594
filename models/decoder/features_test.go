package decoder_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/decoder"
)

// switches turn features off. One that leaves a config as it is does not apply to the model.
var switches = map[string]func(*models.Config){
	"sliding window":             ofLayers(func(_ models.Config, l *arch.Layer) { l.Window = 0 }),
	"layers without a window":    windowsEverywhere,
	"norms of queries and keys":  ofLayers(func(_ models.Config, l *arch.Layer) { l.QKNorm = arch.NoNorm }),
	"norms behind attention":     ofLayers(func(_ models.Config, l *arch.Layer) { l.AttentionNorm.After = false }),
	"norms behind feed-forwards": ofLayers(func(_ models.Config, l *arch.Layer) { l.MLPNorm.After = false }),
	"scale of scores":            ofLayers(usualScale),
	"activation":                 ofLayers(func(_ models.Config, l *arch.Layer) { l.Activation = arch.SiLU }),
	"rope in some layers only": ofLayers(func(c models.Config, l *arch.Layer) {
		if l.Mixer == arch.Attention && len(c.Ropes) > 0 {
			l.Rope = max(l.Rope, 0)
		}
	}),
	"rope of layers with a window": ofLayers(func(c models.Config, l *arch.Layer) {
		if l.Rope > 0 && c.RopeDims(l.Rope) == c.RopeDims(0) {
			l.Rope = 0
		}
	}),
	"rope theta":                  ofRopes(func(r *arch.Rope) { r.Theta /= 3 }),
	"rope scaling":                ofRopes(func(r *arch.Rope) { r.Scaling = nil }),
	"1 added to weights of norms": func(c *models.Config) { c.Norm.Offset = 0 },
	"scale of embeddings":         func(c *models.Config) { c.EmbeddingScale = 0 },
	"soft cap of logits":          func(c *models.Config) { c.LogitCap = 0 },
	"soft cap of scores":          ofLayers(func(_ models.Config, l *arch.Layer) { l.ScoreCap = 0 }),
	"sinks":                       ofLayers(func(_ models.Config, l *arch.Layer) { l.Sinks = false }),
	"norms of values":             ofLayers(func(_ models.Config, l *arch.Layer) { l.ValueNorm = false }),
	"scale of layers":             ofLayers(func(_ models.Config, l *arch.Layer) { l.Scaled = false }),
	"embeddings of layers":        func(c *models.Config) { c.LayerEmbedding = 0 },
	"biases of queries":           ofLayers(func(_ models.Config, l *arch.Layer) { l.QKVBias = false }),
	"biases of outputs":           ofLayers(func(_ models.Config, l *arch.Layer) { l.OBias = false }),
	"biases of feed-forwards":     ofLayers(func(_ models.Config, l *arch.Layer) { l.MLPBias = false }),
	"an expert of each token":     ofExperts(func(e *arch.Experts) { e.Chosen-- }),
	"shares that add up to 1": ofExperts(func(e *arch.Experts) {
		if !e.Apart { // then a norm of what the experts give undoes a factor of all shares
			e.Renormalize = !e.Renormalize
		}
	}),
	"shares by sigmoid":          ofExperts(func(e *arch.Experts) { e.Sigmoid = false }),
	"scale of shares":            ofExperts(func(e *arch.Experts) { e.Scale = 0 }),
	"what experts are chosen by": ofExperts(func(e *arch.Experts) { e.Choice = false }),
	"groups of experts":          ofExperts(func(e *arch.Experts) { e.ChosenGroups = e.Groups }),
	"the shared expert": ofExperts(func(e *arch.Experts) {
		if !e.Apart { // then it is a side of its own
			e.Shared, e.SharedGate = 0, false
		}
	}),
	"the least step of Mamba-2":   ofLayers(func(_ models.Config, l *arch.Layer) { l.Mamba.MinStep = 0 }),
	"the largest step of Mamba-2": ofLayers(func(_ models.Config, l *arch.Layer) { l.Mamba.MaxStep = 0 }),
	"rotation of neighbours":      ofLayers(func(_ models.Config, l *arch.Layer) { l.Latent.Interleaved = false }),
	"scale of what layers add":    func(c *models.Config) { c.ResidualScale = 0 },
	"divisor of logits":           func(c *models.Config) { c.LogitDivisor = 0 },
}

// sameOrder are the switches that leave the largest logit the largest.
var sameOrder = []string{"divisor of logits", "soft cap of logits"}

func ofLayers(change func(models.Config, *arch.Layer)) func(*models.Config) {
	return func(c *models.Config) {
		for i := range c.Layers {
			change(c.OfLayer(i), &c.Layers[i])
		}
	}
}

func ofExperts(change func(e *arch.Experts)) func(*models.Config) {
	return ofLayers(func(_ models.Config, l *arch.Layer) {
		if l.Experts.Count > 0 {
			change(&l.Experts)
		}
	})
}

func ofRopes(change func(*arch.Rope)) func(*models.Config) {
	return func(c *models.Config) {
		for i := range c.Ropes {
			if slices.ContainsFunc(c.Layers, func(l arch.Layer) bool { return l.Rope == i }) {
				change(&c.Ropes[i])
			}
		}
	}
}

func windowsEverywhere(c *models.Config) {
	window := 0
	for _, l := range c.Layers {
		window = max(window, l.Window)
	}
	ofLayers(func(_ models.Config, l *arch.Layer) {
		if l.Mixer == arch.Attention {
			l.Window = window
		}
	})(c)
}

func usualScale(c models.Config, l *arch.Layer) {
	if usual := 1 / math.Sqrt(float64(c.HeadDim)); l.Mixer == arch.Attention && math.Abs(usual-l.Scale) > 1e-6 {
		l.Scale = usual
	}
}

// Goldens depend on the features of a config: a model without one generates different greedy tokens, or has different
// scores if the feature keeps their order. scripts/oracle switches off the features of all families when it makes the
// goldens.
func TestFeaturesChangeTokens(t *testing.T) {
	fast := []string{"gemma3"}
	for _, family := range testenv.Families(t) {
		t.Run(family, func(t *testing.T) {
			if !slices.Contains(fast, family) {
				testenv.Slow(t)
			}
			ckpt := testenv.Model(t, family)
			whole := ckpt.Config
			if tokens, logits := differences(t, family, ckpt, 1e-4); tokens || logits {
				t.Fatalf("with all features: other tokens %t, other logits %t", tokens, logits)
			}
			for name, off := range switches {
				ckpt.Config = whole
				ckpt.Config.Layers, ckpt.Config.Ropes = slices.Clone(whole.Layers), slices.Clone(whole.Ropes)
				off(&ckpt.Config)
				if reflect.DeepEqual(ckpt.Config, whole) {
					continue
				}
				tokens, logits := differences(t, family, ckpt, 0.01)
				if !logits || !tokens && !slices.Contains(sameOrder, name) {
					t.Errorf("without %s: other tokens %t, other logits %t", name, tokens, logits)
				}
			}
		})
	}
}

// differences reports whether greedy tokens differ from transformers', and logits by so much. Tokens are the ones
// that the model generates after each of transformers' own: up to the first difference they are what it generates by
// itself.
func differences(t *testing.T, family string, ckpt *models.Checkpoint, by float64) (tokens, logits bool) {
	t.Helper()
	var golden testenv.Golden
	testenv.ReadGolden(t, family, &golden)
	score := allScores(t, ckpt)
	for _, c := range golden.Cases {
		if len(c.Prompt)+len(c.Tokens) > padded {
			continue
		}
		rows := score(slices.Concat(c.Prompt, c.Tokens))
		for i, want := range c.Tokens {
			row := rows[(len(c.Prompt)+i-1)*len(c.Logits):][:len(c.Logits)]
			tokens = tokens || slices.Index(row, slices.Max(row)) != int(want)
			for k := range row {
				logits = logits || i == 0 && math.Abs(float64(row[k]-c.Logits[k])) > by
			}
		}
	}
	return tokens, logits
}

// allScores returns a function that runs the decoder over tokens and returns the scores after each of them.
func allScores(t *testing.T, ckpt *models.Checkpoint) func(tokens []int32) []float32 {
	t.Helper()
	b := testenv.XLA(t)
	arrays := decoder.Arrays(ckpt.Config, decoder.Storage{Backend: b, DType: dtypes.Float32})
	args := []any{nil}
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
		g, weights := in[0].Graph(), decoder.NewWeights(arrays, in[1:])
		rows := Scalar(g, dtypes.Int32, padded)
		hidden, _ := decoder.Hidden(ckpt.Config, weights, decoder.Embed(ckpt.Config, weights, in[0], nil, rows),
			Iota(g, in[0].Shape(), 0), rows, states(g, ckpt.Config), dense(ckpt.Config), oneSequence(g))
		return decoder.Logits(ckpt.Config, weights, hidden, rows)
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(prompt []int32) []float32 {
		args[0] = append(slices.Clone(prompt), make([]int32, padded-len(prompt))...)
		out, err := exec.Exec1(args...)
		if err != nil {
			t.Fatal(err)
		}
		return tensors.MustCopyFlatData[float32](out)
	}
}
