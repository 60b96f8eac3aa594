package llama

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// rmsNorm is x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32 as transformers does it.
func rmsNorm(x, weight *Node, eps float64) *Node {
	x32 := ConvertDType(x, dtypes.Float32)
	mean := ReduceAndKeep(Square(x32), ReduceMean, -1)
	x32 = Mul(x32, Rsqrt(AddScalar(mean, eps)))
	for weight.Rank() < x.Rank() {
		weight = InsertAxes(weight, 0)
	}
	y := ConvertDType(x32, x.DType())
	return Mul(y, BroadcastToDims(ConvertDType(weight, x.DType()), y.Shape().Dimensions...))
}
