package decoder

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// AttentionOptions returns a layer's options.
func AttentionOptions(cfg models.Config, layer Layer, oneTokenPerSeq bool) attention.Options {
	l := cfg.Layers[layer.Number]
	return attention.Options{Scale: l.Scale, Window: l.Window, Ahead: l.Ahead, SoftCap: l.ScoreCap,
		Sinks: layer.Sinks, OneTokenPerSeq: oneTokenPerSeq}
}

// Embedded is the input of the layers for T tokens.
type Embedded struct {
	Hidden *Node // [T, hidden]
	Layers *Node // [T, layers*n]: the embeddings of each layer; nil if the model has none
	// Short, i32[T], is 1 for tokens of sequences that use the short divisors of a longrope; nil if there are none.
	Short *Node
	// Adapters, i32[T], are the adapters of the tokens: see [Weights.Adapting]. nil if no token has one.
	Adapters *Node
}

// Embed looks up the embeddings of tokens, i32[T]. Padding may hold any token id: ids outside the vocabulary read an
// arbitrary row. adapters has the tokens' adapters, or is nil. rows is as in [Hidden].
//
// If Hidden is in a loop, call Embed before the loop. Within it XLA may fuse a scale with the following sum, which
// rounds differently.
func Embed(cfg models.Config, w Weights, tokens, adapters, rows *Node) Embedded {
	w = w.Adapting(adapters)
	split := splitOf(cfg, tokens)
	all := body{cfg: split.Local(cfg), whole: cfg, split: split, rows: rows}
	x := all.embed(w, tokens)
	return Embedded{Hidden: x, Layers: all.layerEmbeddings(w, tokens, x), Adapters: adapters}
}

// EmbedAt is [Embed] of tokens of whole texts, to which an encoder adds the embeddings learned i32[T] of positions (see
// [arch.Encoder.Learned]) and of kinds i32[T]; nil kinds are all 0.
func EmbedAt(cfg models.Config, w Weights, tokens, learned, kinds, rows *Node) Embedded {
	if !cfg.Encoder.Embeds() {
		return Embed(cfg, w, tokens, nil, rows)
	}
	all := body{cfg: cfg, whole: cfg, split: splitOf(cfg, tokens), rows: rows}
	return Embedded{Hidden: all.embedEncoder(w, tokens, learned, kinds)}
}

// Dense applies the layers that follow the pooling to f32[R, hidden].
func Dense(cfg models.Config, w Weights, x *Node) *Node {
	for i, d := range cfg.Dense {
		x = ConvertDType(x, w.dtype)
		o := linear.Options{Float32: true}
		if d.Bias {
			o.Bias = w.get(arch.NameDense(i) + biasSuffix)
		}
		matrix := w.matrix(arch.NameDense(i) + ".weight")
		switch d.Activation {
		case arch.Tanh:
			x = Tanh(linear.Apply(x, matrix, o))
		case arch.ReLU:
			x = linear.Apply(x, matrix, o)
			x = Max(x, ZerosLike(x))
		default:
			o.Activation = linear.Activation(d.Activation)
			x = linear.Apply(x, matrix, o)
		}
		if d.Norm {
			weight := w.get(arch.NameDenseNorm(i) + ".weight")
			bias := ZerosLike(weight)
			if !cfg.Norm.NoBias {
				bias = w.get(arch.NameDenseNorm(i) + biasSuffix)
			}
			all := Scalar(x.Graph(), dtypes.Int32, float64(x.Shape().Dimensions[0]))
			x = layerNorm(x, weight, bias, cfg.RMSNormEps, all)
		}
	}
	return x
}

// ScoreBias returns what a model adds to scores of attention by distance, for texts of up to tokens tokens; nil if it
// adds nothing. It is one for all layers.
func ScoreBias(cfg models.Config, w Weights, tokens int) *attention.Bias {
	e := cfg.Encoder
	if e.Buckets == 0 {
		return nil
	}
	columns := make([]int32, 2*tokens+1+attention.BiasPadding)
	for i := range columns {
		columns[i] = e.Bucket(i - tokens)
	}
	table := w.matrix(string(arch.Buckets))
	all := linear.Rows(table, Const(table.Data.Graph(), columns), nil, dtypes.Float32)
	return &attention.Bias{Scores: TransposeAllAxes(all, 1, 0), Zero: tokens}
}

// Hidden runs T tokens through the decoder. It returns the last hidden states [T, hidden], normalized, in the
// weights' dtype, and the new state.
//
// positions are i32[T]. A row's result depends on that row and on what attention returns for it. Only the first rows,
// i32[], of the T tokens are wanted: the results of the others are arbitrary.
//
// If a group of devices runs it, each device computes with its part of the weights, and the heads passed to attention
// are one device's: see [Partition]. The results are the same on all.
//
// Layers that keep states of their sequences keep them in state, too, at the place that states returns.
func Hidden(cfg models.Config, w Weights, tokens Embedded, positions, rows *Node, state []*Node,
	attention AttentionFunc, states StatesFunc) (hidden *Node, after []*Node) {
	return run(cfg, w, tokens, positions, rows, state, attention, states, nil)
}

// run is [Hidden], and notes what layers compute if notes is not nil.
func run(cfg models.Config, w Weights, tokens Embedded, positions, rows *Node, state []*Node,
	attention AttentionFunc, states StatesFunc, notes *recorder) (hidden *Node, after []*Node) {
	split := splitOf(cfg, positions)
	w = w.Adapting(tokens.Adapters)
	all := body{cfg: split.Local(cfg), whole: cfg, split: split, rows: rows,
		turns: rotary(cfg, positions, tokens.Short), firstKeys: w.nodes[firstKeysName], group: w.nodes[groupName]}
	x, state := eachLayer(cfg, w, tokens.Hidden, state, func(current Layer, w Weights, x *Node, state []*Node) (*Node,
		[]*Node) {
		b, layer := all.ofLayer(current.Number), cfg.Layers[current.Number]
		h := b.norm(w, layer.AttentionNorm.Before, arch.AttentionNorm, x)
		switch layer.Mixer {
		case arch.ShortConv:
			x, state = b.shortConv(w, current, states, h, x, state)
		case arch.Delta:
			x, state = b.deltaNet(w, current, states, h, x, state)
		case arch.Mamba:
			x, state = b.mamba(w, current, states, h, x, state)
		default:
			q, k, v, gate := b.heads(w, current.Number, h)
			if layer.Sinks {
				current.Sinks = w.get(string(arch.Sinks))
			}
			var a *Node
			a, state = attention(current, state, q, k, v)
			if layer.Latent.Rank > 0 {
				a = b.ofLatents(w, layer.Latent, a)
			} else {
				a = Reshape(a, a.Shape().Dimensions[0], b.cfg.NumHeads*b.cfg.HeadDim)
			}
			if gate != nil {
				a = gated(a, gate, rows)
			}
			x = b.add(w, arch.O, layer.OBias, layer.AttentionNorm, arch.AttentionPostNorm, a, x)
		}

		h = b.norm(w, layer.MLPNorm.Before, arch.MLPNorm, x)
		if layer.Experts.Count > 0 {
			var experts *Node
			x, experts = b.mixture(w, layer, h, x)
			state = notes.routes(state, current, experts)
		} else {
			x = b.feedForward(w, layer, h, x)
		}
		x = b.end(w, current.Number, tokens.Layers, x)
		return x, notes.output(state, current, x)
	})
	return all.norm(w, !cfg.Encoder.NoFinalNorm, arch.FinalNorm, x), state
}

// splitOf returns how the model is partitioned over the devices that run the graph.
func splitOf(cfg models.Config, x *Node) Partition {
	return NewPartition(cfg, collective.Devices(x.Graph().Backend()))
}
