package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// rmsNorm is x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32: x is [T, ..., H] of any float dtype,
// weight [H]. With a weight of x's dtype the quotient is rounded before the product, with one of float32 only the
// product is. rows, i32[], as in [Hidden].
func rmsNorm(x, weight *Node, eps float64, rows *Node) *Node {
	inputs := []*Node{x, weight, rows}
	return control.Composite("rms_norm", map[string]float64{"eps": eps}, inputs, []shapes.Shape{x.Shape()},
		func(in []*Node) []*Node { return []*Node{rmsNormPlain(in[0], in[1], eps)} })[0]
}

// layerNorm is (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last axis, in float32: x is [T, ..., H] of
// any float dtype, weight and bias are f32[H]. rows, i32[], as in [Hidden].
func layerNorm(x, weight, bias *Node, eps float64, rows *Node) *Node {
	inputs := []*Node{x, weight, bias, rows}
	return control.Composite("layer_norm", map[string]float64{"eps": eps}, inputs, []shapes.Shape{x.Shape()},
		func(in []*Node) []*Node {
			y := ConvertDType(in[0], dtypes.Float32)
			wide := func(v *Node) *Node {
				for v.Rank() < y.Rank() {
					v = InsertAxes(v, 0)
				}
				return BroadcastToDims(v, y.Shape().Dimensions...)
			}
			y = Sub(y, BroadcastToDims(ReduceAndKeep(y, ReduceMean, -1), y.Shape().Dimensions...))
			scale := Rsqrt(AddScalar(ReduceAndKeep(Square(y), ReduceMean, -1), eps))
			y = Mul(Mul(y, BroadcastToDims(scale, y.Shape().Dimensions...)), wide(in[1]))
			return []*Node{ConvertDType(Add(y, wide(in[2])), in[0].DType())}
		})[0]
}

func rmsNormPlain(x, weight *Node, eps float64) *Node {
	return scaleNorm(x, ReduceAndKeep(Square(ConvertDType(x, dtypes.Float32)), ReduceMean, -1), weight, eps)
}

// scaleNorm is rmsNorm, given the mean of x^2.
func scaleNorm(x, mean, weight *Node, eps float64) *Node {
	y := Mul(ConvertDType(x, dtypes.Float32), Rsqrt(AddScalar(mean, eps)))
	for weight.Rank() < x.Rank() {
		weight = InsertAxes(weight, 0)
	}
	y = ConvertDType(y, weight.DType())
	return ConvertDType(Mul(y, BroadcastToDims(weight, y.Shape().Dimensions...)), x.DType())
}
