package decoder

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
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
		isShort := BroadcastToDims(InsertAxes(Equal(short, OnesLike(short)), -1), other.cos.Shape().Dimensions...)
		turns[i] = &rotation{Where(isShort, other.cos, turns[i].cos), Where(isShort, other.sin, turns[i].sin)}
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
