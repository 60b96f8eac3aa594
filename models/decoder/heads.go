package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/linear"
)

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

// splitHeads cuts the fused projection qkv [T, (H+2*KVH)*D] into queries [T, H, D], keys and values [T, KVH, D].
// Queries and keys are normalized with the weights qNorm and kNorm [D], as [rmsNorm] does, if those are not nil, and
// then rotated if turn is not nil. rows, i32[], is as in [Hidden].
func splitHeads(cfg models.Config, qkv, qNorm, kNorm *Node, turn *rotation, rows *Node) (q, k, v *Node) {
	t, dtype := qkv.Shape().Dimensions[0], qkv.DType()
	inputs := []*Node{qkv}
	if turn != nil {
		inputs = append(inputs, turn.cos, turn.sin)
	}
	if qNorm != nil {
		inputs = append(inputs, qNorm, kNorm)
	}
	attrs := map[string]any{"heads": cfg.NumHeads, "kv_heads": cfg.NumKVHeads, "rotate": turn != nil,
		"norm": qNorm != nil, "eps": cfg.RMSNormEps}
	kv := shapes.Make(dtype, t, cfg.NumKVHeads, cfg.HeadDim)
	out := control.Composite("rope", attrs, append(inputs, rows),
		[]shapes.Shape{shapes.Make(dtype, t, cfg.NumHeads, cfg.HeadDim), kv, kv},
		func(in []*Node) []*Node {
			q, k, v := splitPlain(cfg, in[0])
			rest := in[1:]
			if qNorm != nil {
				norms := rest[len(rest)-3:]
				q, k = rmsNormPlain(q, norms[0], cfg.RMSNormEps), rmsNormPlain(k, norms[1], cfg.RMSNormEps)
			}
			if turn != nil {
				q, k = rotate(q, rest[0], rest[1]), rotate(k, rest[0], rest[1])
			}
			return []*Node{q, k, v}
		})
	return out[0], out[1], out[2]
}

// queriesOnly returns the heads q [T, H*D] of a layer that has no keys: [T, H, D], normalized and rotated as by
// [splitHeads].
func queriesOnly(b body, q, norm *Node, turn *rotation) *Node {
	q = Reshape(q, q.Shape().Dimensions[0], b.cfg.NumHeads, b.cfg.HeadDim)
	if norm != nil {
		q = rmsNorm(q, norm, b.cfg.RMSNormEps, b.rows)
	}
	if turn != nil {
		q = rotate(q, turn.cos, turn.sin)
	}
	return q
}

func splitPlain(cfg models.Config, qkv *Node) (q, k, v *Node) {
	t, head := qkv.Shape().Dimensions[0], cfg.HeadDim
	part := func(from, heads int) *Node {
		return Reshape(SliceAxis(qkv, 1, AxisRange(from*head, (from+heads)*head)), t, heads, head)
	}
	return part(0, cfg.NumHeads), part(cfg.NumHeads, cfg.NumKVHeads), part(cfg.NumHeads+cfg.NumKVHeads, cfg.NumKVHeads)
}

// takeGates splits the projection of a layer with gates, in which each query is followed by its gate, into the
// projection of a layer without gates and the gates [T, H*D].
func (b body) takeGates(qkv *Node) (plain, gate *Node) {
	t, heads, dim := qkv.Shape().Dimensions[0], b.cfg.NumHeads, b.cfg.HeadDim
	both := Reshape(SliceAxis(qkv, 1, AxisRangeFromStart(2*heads*dim)), t, heads, 2*dim)
	part := func(from int) *Node {
		return Reshape(SliceAxis(both, 2, AxisRange(from, from+dim)), t, heads*dim)
	}
	return Concatenate([]*Node{part(0), SliceAxis(qkv, 1, AxisRange(2*heads*dim))}, 1), part(dim)
}

// gated returns x times the sigmoid of gate, which is rounded to their dtype. rows, i32[], is as in [Hidden].
func gated(x, gate, rows *Node) *Node {
	return control.Composite("gate", struct{}{}, []*Node{x, gate, rows}, []shapes.Shape{x.Shape()},
		func(in []*Node) []*Node {
			return []*Node{Mul(in[0], ConvertDType(Sigmoid(ConvertDType(in[1], dtypes.Float32)), in[0].DType()))}
		})[0]
}

// normAllHeads normalizes queries and keys in qkv [T, (H+2*KVH)*D], each over all of their heads, including heads on
// other devices.
func normAllHeads(b body, w Weights, qkv *Node) *Node {
	queries, keys, head := b.cfg.NumHeads*b.cfg.HeadDim, b.cfg.NumKVHeads*b.cfg.HeadDim, b.cfg.HeadDim
	q := SliceAxis(qkv, 1, AxisRange(0, queries))
	k := SliceAxis(qkv, 1, AxisRange(queries, queries+keys))
	v := SliceAxis(qkv, 1, AxisRange(queries+keys))
	qNorm, kNorm, eps := w.get(string(arch.QNorm)), w.get(string(arch.KNorm)), b.cfg.RMSNormEps
	if b.split.Devices == 1 {
		return Concatenate([]*Node{rmsNorm(q, qNorm, eps, b.rows), rmsNorm(k, kNorm, eps, b.rows), v}, 1)
	}
	square := func(x *Node, heads int) *Node { // for each head, [T, heads]
		x = Reshape(ConvertDType(x, dtypes.Float32), x.Shape().Dimensions[0], heads, head)
		return ReduceSum(Square(x), 2)
	}
	ofKeys := square(k, b.cfg.NumKVHeads)
	// count each head once
	ofKeys = Mul(ofKeys, BroadcastToDims(InsertAxes(b.firstKeys, 0), ofKeys.Shape().Dimensions...))
	sums := collective.Sum(Concatenate([]*Node{ReduceAndKeep(square(q, b.cfg.NumHeads), ReduceSum, 1),
		ReduceAndKeep(ofKeys, ReduceSum, 1)}, 1))
	mean := func(i, heads int) *Node {
		return DivScalar(SliceAxis(sums, 1, AxisRange(i, i+1)), float64(heads*head))
	}
	q = scaleNorm(q, mean(0, b.whole.NumHeads), qNorm, eps)
	return Concatenate([]*Node{q, scaleNorm(k, mean(1, b.whole.NumKVHeads), kNorm, eps), v}, 1)
}

// latentHeads returns the queries, keys and values of a layer with latent attention. For all heads the key is the
// latent followed by the rotated part, and the value is the same.
func (b body) latentHeads(w Weights, number int, h *Node) (q, k, v *Node) {
	layer := b.cfg.Layers[number]
	m, t, turn := layer.Latent, h.Shape().Dimensions[0], b.turns[layer.Rope]
	o := linear.Options{Rows: b.rows}
	in := apply(w, "latent_in", layer.QKVBias, h, o)
	cut := func(from, n int) *Node { return SliceAxis(in, 1, AxisRange(from, from+n)) }
	first := m.QueryRank // the start of the latent
	if first > 0 {
		q = apply(w, string(arch.QueryUp), false,
			rmsNorm(cut(0, first), w.get(string(arch.QueryNorm)), m.Eps, b.rows), o)
	} else {
		first = b.cfg.NumHeads * m.QueryDim()
		q = cut(0, first)
	}
	q = Reshape(q, t, b.cfg.NumHeads, m.QueryDim())
	toLatent := linear.ApplyHeads(SliceAxis(q, 2, AxisRangeFromStart(m.KeyDim)), w.matrix(keysOfLatents), b.rows)
	latent := rmsNorm(cut(first, m.Rank), w.get(string(arch.LatentNorm)), m.Eps, b.rows)
	turned := func(x *Node) *Node {
		if m.Interleaved {
			x = halves(x)
		}
		return rotate(x, turn.cos, turn.sin)
	}
	q = Concatenate([]*Node{toLatent, turned(SliceAxis(q, 2, AxisRange(m.KeyDim)))}, 2)
	k = Concatenate([]*Node{InsertAxes(latent, 1), turned(InsertAxes(cut(first+m.Rank, m.RopeDim), 1))}, 2)
	return q, k, k
}

// ofLatents returns the values that heads read, [T, H*ValueDim], given the latents that they read, [T, H, Width].
func (b body) ofLatents(w Weights, m arch.Latent, a *Node) *Node {
	values := linear.ApplyHeads(SliceAxis(a, 2, AxisRangeFromStart(m.Rank)), w.matrix(valuesOfLatents), b.rows)
	return Reshape(values, a.Shape().Dimensions[0], b.cfg.NumHeads*m.ValueDim)
}

// halves moves the first of each pair of neighbours in [T, heads, D] before all second ones.
func halves(x *Node) *Node {
	all := AxisRange()
	return Concatenate([]*Node{Slice(x, all, all, AxisRange().Stride(2)), Slice(x, all, all,
		AxisRange(1).Stride(2))}, 2)
}
