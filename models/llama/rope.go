package llama

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
)

// rotary returns the cosines and sines f32[T, 1, D/2] of the rotary embedding at positions i32[T].
func rotary(cfg models.Config, positions *Node) (cos, sin *Node) {
	g := positions.Graph()
	frequencies, factor := cfg.RopeFrequencies()
	t, half := positions.Shape().Dimensions[0], len(frequencies)
	angles := Mul(
		BroadcastToDims(InsertAxes(ConvertDType(positions, dtypes.Float32), -1), t, half),
		BroadcastToDims(InsertAxes(Const(g, frequencies), 0), t, half))
	scale := func(x *Node) *Node { return InsertAxes(MulScalar(x, factor), 1) }
	return scale(Cos(angles)), scale(Sin(angles))
}

// rotate turns the pairs (x[i], x[i+D/2]) of [T, heads, D] by their angles, in float32.
func rotate(x, cos, sin *Node) *Node {
	dims := x.Shape().Dimensions
	half := dims[2] / 2
	x32 := ConvertDType(x, dtypes.Float32)
	a, b := SliceAxis(x32, 2, AxisRange(0, half)), SliceAxis(x32, 2, AxisRange(half))
	wide := shapes.Make(dtypes.Float32, dims[0], dims[1], half).Dimensions
	c, s := BroadcastToDims(cos, wide...), BroadcastToDims(sin, wide...)
	return ConvertDType(Concatenate([]*Node{Sub(Mul(a, c), Mul(b, s)), Add(Mul(b, c), Mul(a, s))}, 2), x.DType())
}
