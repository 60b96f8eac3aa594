package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/recurrence"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// Layer is a layer of a graph. In a [Loop], Number is the layer's number in the first turn, and Turn, i32[], is the
// number of the turn. Otherwise Turn is nil.
type Layer struct {
	Number int
	Turn   *Node
	Sinks  *Node // f32[H] of the layer's attention; nil if it has none
}

// AttentionFunc stores a layer's new keys and values and attends to the layer's whole sequence. q is [T, H, D], k and
// v are [T, KVH, D], and the result is [T, H, D], all in the weights' dtype. k and v are nil if the layer attends to
// the keys and values of another layer, its KVFrom. state is the state of all layers, the caches; the new state is
// returned. [AttentionOptions] has the layer's options.
type AttentionFunc func(layer Layer, state []*Node, q, k, v *Node) (out *Node, after []*Node)

// StatesFunc returns the location of a layer's states: the array, among those of all layers, and the rows that the
// tokens belong to, with pages as they are numbered in that array.
type StatesFunc func(layer Layer) (array int, sequences recurrence.Rows)

// AttentionOptions returns a layer's options.
func AttentionOptions(cfg models.Config, layer Layer, oneTokenPerSeq bool) attention.Options {
	l := cfg.Layers[layer.Number]
	return attention.Options{Scale: l.Scale, Window: l.Window, SoftCap: l.ScoreCap, Sinks: layer.Sinks,
		OneTokenPerSeq: oneTokenPerSeq}
}

// Embedded is the input of the layers for T tokens.
type Embedded struct {
	Hidden *Node // [T, hidden]
	Layers *Node // [T, layers*n]: the embeddings of each layer; nil if the model has none
	// Short, i32[T], is 1 for tokens of sequences that use the short divisors of a longrope; nil if there are none.
	Short *Node
}

// Embed looks up the embeddings of tokens, i32[T]. Padding may hold any token id: ids outside the vocabulary read an
// arbitrary row. rows is as in [Hidden].
//
// If Hidden is in a loop, call Embed before the loop. Within it XLA may fuse a scale with the following sum, which
// rounds differently.
func Embed(cfg models.Config, w Weights, tokens, rows *Node) Embedded {
	split := splitOf(cfg, tokens)
	all := body{cfg: split.Local(cfg), whole: cfg, split: split, rows: rows}
	x := all.embed(w, tokens)
	return Embedded{Hidden: x, Layers: all.layerEmbeddings(w, tokens, x)}
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
	split := splitOf(cfg, positions)
	all := body{cfg: split.Local(cfg), whole: cfg, split: split, rows: rows,
		turns: rotary(cfg, positions, tokens.Short), firstKeys: w.nodes[firstKeysName], group: w.nodes[groupName]}
	x, state := eachLayer(cfg, w, tokens.Hidden, state, func(at Layer, w Weights, x *Node, state []*Node) (*Node,
		[]*Node) {
		b, layer := all.ofLayer(at.Number), cfg.Layers[at.Number]
		h := b.norm(w, layer.AttentionNorm.Before, arch.AttentionNorm, x)
		switch layer.Mixer {
		case arch.ShortConv:
			x, state = b.shortConv(w, at, states, h, x, state)
		case arch.Delta:
			x, state = b.deltaNet(w, at, states, h, x, state)
		case arch.Mamba:
			x, state = b.mamba(w, at, states, h, x, state)
		default:
			q, k, v, gate := b.heads(w, at.Number, h)
			if layer.Sinks {
				at.Sinks = w.get(string(arch.Sinks))
			}
			var a *Node
			a, state = attention(at, state, q, k, v)
			if layer.Latent.Rank > 0 {
				a = b.ofLatents(w, layer.Latent, a)
			} else {
				a = Reshape(a, a.Shape().Dimensions[0], b.cfg.NumHeads*b.cfg.HeadDim)
			}
			if gate != nil {
				a = gated(a, gate, rows)
			}
			x = b.add(w, arch.O, layer.OBias, layer.AttentionNorm.After, arch.AttentionPostNorm, a, x)
		}

		h = b.norm(w, layer.MLPNorm.Before, arch.MLPNorm, x)
		if layer.Experts.Count > 0 {
			x = b.mixture(w, layer, h, x)
		} else {
			x = b.feedForward(w, layer, h, x)
		}
		return b.end(w, at.Number, tokens.Layers, x), state
	})
	return all.norm(w, true, arch.FinalNorm, x), state
}

// Logits returns the scores f32[N, vocab] of the next token for hidden states [N, hidden]; rows, i32[], as in [Hidden].
func Logits(cfg models.Config, w Weights, hidden, rows *Node) *Node {
	head := arch.Head
	if cfg.TieEmbeddings {
		head = arch.Embedding
	}
	logits := linear.Apply(hidden, w.matrix(string(head)), linear.Options{Rows: rows, Float32: true})
	if split := splitOf(cfg, hidden); split.Devices > 1 {
		logits = SliceAxis(collective.Concatenate(logits, 1), 1, AxisRangeFromStart(cfg.VocabSize))
	}
	if cfg.LogitDivisor > 0 {
		logits = DivScalar(logits, cfg.LogitDivisor)
	}
	if cfg.LogitCap > 0 {
		logits = MulScalar(Tanh(DivScalar(logits, cfg.LogitCap)), cfg.LogitCap)
	}
	return logits
}

// splitOf returns how the model is partitioned over the devices that run the graph.
func splitOf(cfg models.Config, x *Node) Partition {
	return NewPartition(cfg, collective.Devices(x.Graph().Backend()))
}

// body has what all layers share.
type body struct {
	cfg, whole models.Config // the config of one device's part, and of the whole model
	split      Partition
	rows       *Node
	turns      []*rotation // rotations of cfg.Ropes
	firstKeys  *Node       // the array firstKeys
	group      *Node       // the array expertGroup; nil if all devices have all experts
}

// ofLayer returns the body with the sizes of a layer.
func (b body) ofLayer(number int) body {
	b.whole = b.whole.OfLayer(number)
	b.split = NewPartition(b.whole, b.split.Devices)
	b.cfg = b.split.Local(b.whole)
	return b
}

// feedForward returns x plus the feed-forward of h.
func (b body) feedForward(w Weights, layer arch.Layer, h, x *Node) *Node {
	up := "up"
	if layer.Gated {
		up = "gate_up" // activation(gate) * up
	}
	h = apply(w, up, layer.MLPBias, h, linear.Options{Rows: b.rows, Activation: linear.Activation(layer.Activation)})
	return b.add(w, arch.Down, layer.MLPBias, layer.MLPNorm.After, arch.MLPPostNorm, h, x)
}

// embed returns the embeddings of tokens [T, hidden].
func (b body) embed(w Weights, tokens *Node) *Node {
	x := lookUp(b.split, w, arch.Embedding, tokens, b.rows)
	if b.cfg.EmbeddingScale > 0 {
		x = MulScalar(x, b.cfg.EmbeddingScale)
	}
	return x
}

// lookUp returns rows of an embedding matrix. Each device returns the rows of its part of the vocabulary, and zeros
// for the others.
func lookUp(split Partition, w Weights, of arch.Part, tokens, rows *Node) *Node {
	if split.Devices == 1 {
		return linear.Rows(w.matrix(string(of)), tokens, rows, w.dtype)
	}
	at := Sub(tokens, BroadcastToDims(w.get(firstRowName), tokens.Shape().Dimensions...))
	x := linear.Rows(w.matrix(string(of)), at, rows, w.dtype)
	g := tokens.Graph()
	here := LogicalAnd(GreaterOrEqual(at, ScalarZero(g, dtypes.Int32)),
		LessThan(at, Scalar(g, dtypes.Int32, float64(split.Vocab))))
	here = BroadcastToDims(InsertAxes(here, -1), x.Shape().Dimensions...)
	return collective.Sum(Where(here, x, ZerosLike(x)))
}

// norm applies the norm of a part, if there is one.
func (b body) norm(w Weights, is bool, part arch.Part, x *Node) *Node {
	switch {
	case !is:
		return x
	case b.cfg.Norm.Layer:
		return layerNorm(x, w.get(string(part)), w.get(string(part)+biasSuffix), b.cfg.RMSNormEps, b.rows)
	}
	return rmsNorm(x, w.get(string(part)), b.cfg.RMSNormEps, b.rows)
}

// heads returns the queries, keys and values of a layer, which are nil if it has none of its own, and the gates [T,
// H*D] of the heads' outputs, nil if it has none.
func (b body) heads(w Weights, number int, h *Node) (q, k, v, gate *Node) {
	layer := b.cfg.Layers[number]
	if layer.Latent.Rank > 0 {
		q, k, v = b.latentHeads(w, number, h)
		return q, k, v, nil
	}
	qkv := apply(w, "qkv", layer.QKVBias, h, linear.Options{Rows: b.rows})
	if layer.Gate {
		qkv, gate = b.takeGates(qkv)
	}
	var turn *rotation
	if layer.Rope != arch.NoRope {
		turn = b.turns[layer.Rope]
	}
	var qNorm, kNorm *Node
	switch layer.QKNorm {
	case arch.EachHead:
		qNorm = w.get(string(arch.QNorm))
		if b.cfg.Owns(number) {
			kNorm = w.get(string(arch.KNorm))
		}
	case arch.AllHeads:
		qkv = normAllHeads(b, w, qkv)
	}
	if layer.QKVClip > 0 {
		limit := MulScalar(OnesLike(qkv), layer.QKVClip)
		qkv = Max(Min(qkv, limit), Neg(limit))
	}
	if !b.cfg.Owns(number) {
		return queriesOnly(b, qkv, qNorm, turn), nil, nil, nil
	}
	if layer.KeysAreValues {
		qkv = Concatenate([]*Node{qkv, SliceAxis(qkv, 1, AxisRange(b.cfg.NumHeads*b.cfg.HeadDim))}, 1)
	}
	q, k, v = splitHeads(b.cfg, qkv, qNorm, kNorm, turn, b.rows)
	if layer.ValueNorm {
		v = rmsNorm(v, Ones(v.Graph(), shapes.Make(dtypes.Float32, b.cfg.HeadDim)), b.cfg.RMSNormEps, b.rows)
	}
	return q, k, v, gate
}

// add returns x plus the linear layer of a name, or plus its norm, scaled by the residual scale. If the layer's
// inputs are divided among devices, the partial sums are added before they are rounded.
func (b body) add(w Weights, name arch.Part, bias, normed bool, norm arch.Part, h, x *Node) *Node {
	if !normed && b.cfg.ResidualScale == 0 {
		return b.sum(w, string(name), bias, h, x)
	}
	y := b.norm(w, normed, norm, b.sum(w, string(name), bias, h, nil))
	if b.cfg.ResidualScale > 0 {
		y = MulScalar(y, b.cfg.ResidualScale)
	}
	return Add(x, y)
}

// sum returns the linear layer of a name, plus residual if that is not nil.
func (b body) sum(w Weights, name string, bias bool, h, residual *Node) *Node {
	if b.split.Devices == 1 {
		return apply(w, name, bias, h, linear.Options{Rows: b.rows, Residual: residual})
	}
	y := collective.Sum(linear.Apply(h, w.matrix(name+".weight"), linear.Options{Rows: b.rows, Float32: true}))
	if bias {
		y = Add(y, BroadcastToDims(InsertAxes(ConvertDType(w.get(name+biasSuffix), dtypes.Float32), 0),
			y.Shape().Dimensions...))
	}
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return ConvertDType(y, w.dtype)
}

// apply applies the linear layer of a name, with its bias if the model has one.
func apply(w Weights, name string, bias bool, x *Node, o linear.Options) *Node {
	if bias {
		o.Bias = w.get(name + biasSuffix)
	}
	return linear.Apply(x, w.matrix(name+".weight"), o)
}
