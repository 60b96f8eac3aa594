package llama

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/linear"
	"github.com/quire/quire/models"
)

// Layer is the number of a layer: At, i32[], where the layers are run as a loop, else Number.
type Layer struct {
	Number int
	At     *Node
}

// AttentionFunc stores the new keys and values of a layer and attends to all of its sequence: q is [T, H, D], k and v
// are [T, KVH, D], the result [T, H, D], all of the weights' dtype. state is what it keeps of all layers, the caches;
// it returns what becomes of it.
type AttentionFunc func(layer Layer, state []*Node, q, k, v *Node) (out *Node, after []*Node)

// Hidden runs T tokens through the decoder and returns its last hidden states [T, hidden], normalized, of the weights'
// dtype, and what attention made of the state.
//
// tokens and positions are i32[T]. A row's result depends on that row and on what attention returns for it. Padding may
// hold any token id: ids outside the vocabulary read some row of it. rows, i32[], says how many of the T tokens, the
// first ones, are wanted: the results of the others may be anything.
//
// Where a group of devices runs it, each does it with its part of the weights, and heads are those of one device: see
// [Partition]. The results are the same on all.
func Hidden(cfg models.Config, w Weights, tokens, positions, rows *Node, state []*Node,
	attention AttentionFunc) (hidden *Node, after []*Node) {
	split := splitOf(cfg, tokens)
	cfg = split.Local(cfg)
	x := embed(split, w, tokens, rows)
	turn := rotary(cfg, positions)
	x, state = eachLayer(cfg.NumLayers, w, x, state, func(layer Layer, w Weights, x *Node, state []*Node) (*Node,
		[]*Node) {
		h := rmsNorm(x, w.get("attention_norm"), cfg.RMSNormEps, rows)
		var qNorm, kNorm *Node
		if cfg.QKNorm {
			qNorm, kNorm = w.get("q_norm"), w.get("k_norm")
		}
		layerTurn := turn
		if noRope(cfg, layer.Number) {
			layerTurn = nil
		}
		q, k, v := splitHeads(cfg, apply(w, "qkv", cfg.QKVBias, h, nil, rows), qNorm, kNorm, layerTurn, rows)
		a, state := attention(layer, state, q, k, v)
		a = Reshape(a, a.Shape().Dimensions[0], cfg.NumHeads*cfg.HeadDim)
		x = add(split, w, "o", cfg.OBias, a, x, rows)

		h = rmsNorm(x, w.get("mlp_norm"), cfg.RMSNormEps, rows)
		h = apply(w, "gate_up", cfg.MLPBias, h, nil, rows) // silu(gate) * up
		return add(split, w, "down", cfg.MLPBias, h, x, rows), state
	})
	return rmsNorm(x, w.get("norm"), cfg.RMSNormEps, rows), state
}

// Logits returns the scores f32[N, vocab] of the next token for hidden states [N, hidden]; rows, i32[], as in [Hidden].
func Logits(cfg models.Config, w Weights, hidden, rows *Node) *Node {
	head := "lm_head"
	if cfg.TieEmbeddings {
		head = "embed"
	}
	logits := linear.Apply(hidden, w.matrix(head), linear.Options{Rows: rows, Float32: true})
	if split := splitOf(cfg, hidden); split.Devices > 1 {
		logits = SliceAxis(collective.Concatenate(logits, 1), 1, AxisRangeFromStart(cfg.VocabSize))
	}
	return logits
}

// splitOf is how the model is cut for the devices that run the graph.
func splitOf(cfg models.Config, x *Node) Partition {
	return NewPartition(cfg, collective.Devices(x.Graph().Backend()))
}

// embed returns the embeddings of tokens [T, hidden]. A device gives those of its part of the vocabulary, and zeros for
// the others.
func embed(split Partition, w Weights, tokens, rows *Node) *Node {
	if split.Devices == 1 {
		return linear.Rows(w.matrix("embed"), tokens, rows, w.dtype)
	}
	at := Sub(tokens, BroadcastToDims(w.get(firstRowName), tokens.Shape().Dimensions...))
	x := linear.Rows(w.matrix("embed"), at, rows, w.dtype)
	g := tokens.Graph()
	here := LogicalAnd(GreaterOrEqual(at, ScalarZero(g, dtypes.Int32)),
		LessThan(at, Scalar(g, dtypes.Int32, float64(split.Vocab))))
	here = BroadcastToDims(InsertAxes(here, -1), x.Shape().Dimensions...)
	return collective.Sum(Where(here, x, ZerosLike(x)))
}

// add is the linear layer of a name plus residual, where each device has some of its inputs. Their parts are added up
// before they are rounded.
func add(split Partition, w Weights, name string, bias bool, x, residual, rows *Node) *Node {
	if split.Devices == 1 {
		return apply(w, name, bias, x, residual, rows)
	}
	y := collective.Sum(linear.Apply(x, w.matrix(name+".weight"), linear.Options{Rows: rows, Float32: true}))
	if bias {
		y = Add(y, BroadcastToDims(InsertAxes(ConvertDType(w.get(name+".bias"), dtypes.Float32), 0),
			y.Shape().Dimensions...))
	}
	return ConvertDType(Add(y, ConvertDType(residual, dtypes.Float32)), w.dtype)
}

// apply is the linear layer of a name, with its bias if the model has one, plus residual if that is not nil.
func apply(w Weights, name string, bias bool, x, residual, rows *Node) *Node {
	o := linear.Options{Rows: rows, Residual: residual}
	if name == "gate_up" {
		o.Activation = linear.SiLU
	}
	if bias {
		o.Bias = w.get(name + ".bias")
	}
	return linear.Apply(x, w.matrix(name+".weight"), o)
}

func noRope(cfg models.Config, layer int) bool {
	return layer < len(cfg.NoRope) && cfg.NoRope[layer]
}
