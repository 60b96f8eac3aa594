package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
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

// normAllHeads normalizes queries and keys in qkv [T, (H+2*KVH)*D], each over all of their heads, including those that
// other devices have.
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
