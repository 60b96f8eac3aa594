package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/control"
)

// rotation holds the cosines and sines f32[T, half] of a rotary embedding's angles, for 2*half numbers of each head.
type rotation struct{ cos, sin *Node }

// rotary returns the rotations of tokens at positions i32[T], indexed like cfg.Ropes. short i32[T] is as in
// [Embedded].
func rotary(cfg models.Config, positions, short *Node) []*rotation {
	turns := rotations(cfg, positions)
	if short == nil {
		return turns
	}
	for i, other := range rotations(cfg.WithShortRope(), positions) {
		is := BroadcastToDims(InsertAxes(Equal(short, OnesLike(short)), -1), other.cos.Shape().Dimensions...)
		turns[i] = &rotation{Where(is, other.cos, turns[i].cos), Where(is, other.sin, turns[i].sin)}
	}
	return turns
}

func rotations(cfg models.Config, positions *Node) []*rotation {
	turns := make([]*rotation, len(cfg.Ropes))
	t := positions.Shape().Dimensions[0]
	for i := range turns {
		frequencies, factor := cfg.RopeFrequencies(i)
		half := len(frequencies)
		angles := Mul(
			BroadcastToDims(InsertAxes(ConvertDType(positions, dtypes.Float32), -1), t, half),
			BroadcastToDims(InsertAxes(Const(positions.Graph(), frequencies), 0), t, half))
		turns[i] = &rotation{MulScalar(Cos(angles), factor), MulScalar(Sin(angles), factor)}
	}
	return turns
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

// rotate rotates the pairs (x[i], x[i+half]) of [T, heads, D] by their angles, in float32. Numbers from 2*half on are
// unchanged.
func rotate(x, cos, sin *Node) *Node {
	dims, half := x.Shape().Dimensions, cos.Shape().Dimensions[1]
	if 2*half < dims[2] {
		return Concatenate([]*Node{rotate(SliceAxis(x, 2, AxisRangeFromStart(2*half)), cos, sin),
			SliceAxis(x, 2, AxisRange(2*half))}, 2)
	}
	x32 := ConvertDType(x, dtypes.Float32)
	a, b := SliceAxis(x32, 2, AxisRange(0, half)), SliceAxis(x32, 2, AxisRange(half))
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 1), dims[0], dims[1], half) }
	c, s := wide(cos), wide(sin)
	return ConvertDType(Concatenate([]*Node{Sub(Mul(a, c), Mul(b, s)), Add(Mul(b, c), Mul(a, s))}, 2), x.DType())
}
