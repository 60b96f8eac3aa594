package linear

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// ApplyHeads returns for each row and head of x [T, H, In] its product with the head's matrix, transposed: [T, H, Out]
// of x's dtype. The format of w is of one matrix, of floats; Data is of all, [H, ...]. rows, i32[], is how many of the
// T rows are wanted, the first ones.
//
// Products are in float32 and rounded once. A row's result depends on no other row.
func ApplyHeads(x *Node, w Weight, rows *Node) *Node {
	d := x.Shape().Dimensions
	if x.Rank() != 3 || d[2] != w.In || w.Data.Shape().Dimensions[0] != d[1] || !w.DType.IsFloat() {
		panic(fmt.Errorf("linear: x of shape %s does not fit the heads' matrices %s, each %s [%d, %d]", x.Shape(),
			w.Data.Shape(), w.Form(), w.Out, w.In))
	}
	result := shapes.Make(x.DType(), d[0], d[1], w.Out)
	plain := func(in []*Node) []*Node {
		m := ConvertDType(headMatrices(w, in[1]), in[0].DType())
		y := Dot(in[0], m).WithOutputDType(dtypes.Float32).General([]int{2}, []int{1}, []int{2}, []int{0})
		return []*Node{ConvertDType(TransposeAllAxes(y, 1, 0, 2), result.DType)}
	}
	inputs := []*Node{x, w.Data, rows}
	if !w.Packed() {
		return plain(inputs)[0]
	}
	attrs := map[string]any{"in": w.In, "out": w.Out}
	return control.Composite("linear_heads", attrs, inputs, []shapes.Shape{result}, plain)[0]
}

// headMatrices returns the matrices of all heads as [H, Out, In].
func headMatrices(w Weight, data *Node) *Node {
	switch {
	case w.Packed():
	case w.rowWidth() > w.In:
		return SliceAxis(data, 2, AxisRange(0, w.In))
	default:
		return data
	}
	d := data.Shape().Dimensions
	m := Reshape(TransposeAllAxes(data, 0, 1, 3, 2, 4), d[0], d[1]*d[3], d[2]*d[4])
	return SliceAxis(SliceAxis(m, 1, AxisRange(0, w.Out)), 2, AxisRange(0, w.In))
}
