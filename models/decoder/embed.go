package decoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// embed returns the embeddings of tokens [T, hidden].
func (b body) embed(w Weights, tokens *Node) *Node {
	x := lookUp(b.split, w, arch.Embedding, tokens, b.rows)
	if b.cfg.EmbeddingScale > 0 {
		x = MulScalar(x, b.cfg.EmbeddingScale)
	}
	return x
}

// embedEncoder returns the embeddings of an encoder's tokens: see [EmbedAt].
func (b body) embedEncoder(w Weights, tokens, learned, kinds *Node) *Node {
	e, x := b.cfg.Encoder, b.embed(w, tokens)
	switch {
	case e.Types > 0 && kinds != nil:
		x = Add(x, linear.Rows(w.matrix(string(arch.Types)), kinds, b.rows, w.dtype))
	case e.Types > 0:
		first := Zeros(x.Graph(), shapes.Make(dtypes.Int32, 1))
		kind := linear.Rows(w.matrix(string(arch.Types)), first, nil, w.dtype)
		x = Add(x, BroadcastToDims(kind, x.Shape().Dimensions...))
	}
	if e.Positions > 0 {
		x = Add(x, linear.Rows(w.matrix(string(arch.Positions)), learned, b.rows, w.dtype))
	}
	return b.norm(w, e.EmbeddingNorm, arch.EmbeddingNorm, x)
}

// lookUp returns rows of an embedding matrix, with their adapters. Each device returns the rows of its part of the
// vocabulary, and zeros for the others.
func lookUp(split Partition, w Weights, part arch.Part, tokens, rows *Node) *Node {
	here := func(tokens *Node) *Node {
		x := linear.Rows(w.matrix(string(part)), tokens, rows, w.dtype)
		if a := w.adaptersOf(string(part)); a != nil {
			x = a.Rows(x, tokens, rows)
		}
		return x
	}
	if split.Devices == 1 {
		return here(tokens)
	}
	local := Sub(tokens, BroadcastToDims(w.get(firstRowName), tokens.Shape().Dimensions...))
	x := here(local)
	g := tokens.Graph()
	mine := LogicalAnd(GreaterOrEqual(local, ScalarZero(g, dtypes.Int32)),
		LessThan(local, Scalar(g, dtypes.Int32, float64(split.Vocab))))
	mine = BroadcastToDims(InsertAxes(mine, -1), x.Shape().Dimensions...)
	return collective.Sum(Where(mine, x, ZerosLike(x)))
}

// layerEmbeddings returns the additional inputs of each layer for the tokens, [T, layers*n]: made from the token's
// own embedding and its first hidden states x. It is nil if the model has none.
func (b body) layerEmbeddings(w Weights, tokens, x *Node) *Node {
	t, layers, n := tokens.Shape().Dimensions[0], b.cfg.NumLayers, b.cfg.LayerEmbedding
	if n == 0 {
		return nil
	}
	own := MulScalar(lookUp(b.split, w, arch.LayerEmbedding, tokens, b.rows), math.Sqrt(float64(n)))
	y := apply(w, string(arch.LayerContext), false, x, linear.Options{Rows: b.rows})
	y = Reshape(MulScalar(y, 1/math.Sqrt(float64(b.cfg.HiddenSize))), t, layers, n)
	y = Reshape(b.norm(w, true, arch.LayerContextNorm, y), t, layers*n)
	return MulScalar(Add(y, own), math.Sqrt(0.5))
}

// end returns a layer's output: x plus what the layer makes of its embeddings, times its scale.
func (b body) end(w Weights, number int, embeddings, x *Node) *Node {
	if embeddings != nil {
		n := b.cfg.LayerEmbedding
		mine := SliceAxis(embeddings, 1, AxisRange(number*n, (number+1)*n))
		activation := linear.Activation(b.cfg.Layers[number].Activation)
		h := apply(w, string(arch.LayerGate), false, x, linear.Options{Rows: b.rows, Activation: activation})
		h = apply(w, string(arch.LayerOut), false, Mul(h, mine), linear.Options{Rows: b.rows})
		x = Add(x, b.norm(w, true, arch.LayerOutNorm, h))
	}
	if b.cfg.Layers[number].Scaled {
		x = Mul(x, BroadcastToDims(InsertAxes(w.get(string(arch.LayerScale)), 0), x.Shape().Dimensions...))
	}
	return x
}
