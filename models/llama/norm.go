package llama

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// rmsNorm is x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32 as transformers does it: x [T, ..., H]
// of any float dtype, weight [H]. rows, i32[], as in [Hidden].
func rmsNorm(x, weight *Node, eps float64, rows *Node) *Node {
	inputs := []*Node{x, ConvertDType(weight, x.DType()), rows}
	return control.Composite("rms_norm", map[string]float64{"eps": eps}, inputs, []shapes.Shape{x.Shape()},
		func(in []*Node) []*Node { return []*Node{rmsNormPlain(in[0], in[1], eps)} })[0]
}

func rmsNormPlain(x, weight *Node, eps float64) *Node {
	x32 := ConvertDType(x, dtypes.Float32)
	mean := ReduceAndKeep(Square(x32), ReduceMean, -1)
	x32 = Mul(x32, Rsqrt(AddScalar(mean, eps)))
	for weight.Rank() < x.Rank() {
		weight = InsertAxes(weight, 0)
	}
	y := ConvertDType(x32, x.DType())
	return Mul(y, BroadcastToDims(weight, y.Shape().Dimensions...))
}
