// Package linear is the linear layers of a model: rows times a matrix that the backend may hold in a form of its own,
// and what follows.
//
// The plain form, of ordinary operations, defines what a layer computes and runs on every backend, on packed matrices
// too; a backend with kernels replaces it ([Packer]).
package linear

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// Weight is the matrix of a layer in a graph.
type Weight struct {
	Format
	// Data is of Format.Shape.
	Data *Node
	// Scales f32[Out] are what the rows of an Int8 matrix are multiplied by; nil for other dtypes.
	Scales *Node
}

// Options are what a layer does beside its product.
type Options struct {
	// Rows, i32[], is how many rows of x are wanted, the first ones: the results of the others may be anything. nil
	// wants all.
	Rows *Node
	// Bias [Out], of x's dtype, is added to the product.
	Bias *Node
	// Activation is applied to the product, for gates and ups to the gates. "" is the same as [None].
	Activation Activation
	// Residual [T, columns], of x's dtype, is added last.
	Residual *Node
	// Float32 makes the result float32. Else it is of x's dtype.
	Float32 bool
}

// Apply returns activation(x [T, In] times the matrix transposed): [T, Out]; for gates and ups activation(gate) * up,
// [T, Out/2].
//
// All is computed in float32 and rounded once. For an Int8 matrix, each row of x is rounded to 8 bits too, at the scale
// of its own largest element: the products are integers, their sums exact.
func Apply(x *Node, w Weight, o Options) *Node {
	g, dtype := x.Graph(), x.DType()
	if x.Rank() != 2 || x.Shape().Dimensions[1] != w.In {
		panic(fmt.Errorf("linear: x of shape %s does not fit a matrix [%d, %d]", x.Shape(), w.Out, w.In))
	}
	t := x.Shape().Dimensions[0]
	result := shapes.Make(dtype, t, w.Columns())
	if o.Float32 {
		result.DType = dtypes.Float32
	}
	rows := o.Rows
	if rows == nil {
		rows = Scalar(g, dtypes.Int32, float64(t))
	}
	inputs := []*Node{x, w.Data, rows}
	add := func(n *Node) int {
		if n == nil {
			return 0
		}
		inputs = append(inputs, n)
		return len(inputs) - 1
	}
	scales, bias, residual := add(w.Scales), add(o.Bias), add(o.Residual)
	plain := func(in []*Node) []*Node {
		optional := func(i int) *Node {
			if i == 0 {
				return nil
			}
			return in[i]
		}
		held := Weight{w.Format, in[1], optional(scales)}
		y := apply(in[0], held, o.Activation, optional(bias), optional(residual))
		return []*Node{ConvertDType(y, result.DType)}
	}
	if !w.Packed() {
		return plain(inputs)[0]
	}
	attrs := map[string]any{"in": w.In, "out": w.Out, "gate_up": w.GateUp, "activation": o.Activation.number(),
		"scales": scales > 0, "bias": bias > 0, "residual": residual > 0}
	scratch := shapes.Make(dtypes.Float32, ceil(t, 16)*16, ceil(w.In, 64)*64+16)
	return control.Composite("linear", attrs, inputs, []shapes.Shape{result, scratch}, plain)[0]
}

// apply is the plain form, in float32.
func apply(x *Node, w Weight, activation Activation, bias, residual *Node) *Node {
	y := product(x, w)
	dims := y.Shape().Dimensions
	if bias != nil {
		y = Add(y, BroadcastToDims(InsertAxes(ConvertDType(bias, dtypes.Float32), 0), dims...))
	}
	if w.GateUp {
		gate, up := SliceAxis(y, 1, AxisRange(0, dims[1]/2)), SliceAxis(y, 1, AxisRange(dims[1]/2))
		y = Mul(activation.of(gate), up)
	} else {
		y = activation.of(y)
	}
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return y
}

// product is x [T, In] times the matrix transposed, in float32.
func product(x *Node, w Weight) *Node {
	matrix := unpack(w)
	times := func(x, m *Node, out dtypes.DType) *Node {
		return Dot(x, m).WithOutputDType(out).General([]int{1}, nil, []int{1}, nil)
	}
	if w.DType != dtypes.Int8 {
		return times(x, ConvertDType(matrix, x.DType()), dtypes.Float32)
	}
	x32 := ConvertDType(x, dtypes.Float32)
	largest := ReduceAndKeep(Abs(x32), ReduceMax, 1)
	zero := Equal(largest, ZerosLike(largest))
	inverse := Where(zero, largest, Div(MulScalar(OnesLike(largest), 127), largest))
	rounded := ConvertDType(Round(Mul(x32, BroadcastToDims(inverse, x32.Shape().Dimensions...))), dtypes.Int32)
	y := ConvertDType(times(rounded, ConvertDType(matrix, dtypes.Int32), dtypes.Int32), dtypes.Float32)
	// A row with what is not a number has no scale.
	scale := Add(MulScalar(largest, 1.0/127), ReduceAndKeep(Sub(x32, x32), ReduceSum, 1))
	y = Mul(y, BroadcastToDims(scale, y.Shape().Dimensions...))
	return Mul(y, BroadcastToDims(InsertAxes(w.Scales, 0), y.Shape().Dimensions...))
}

// unpack returns the matrix as [Out, In].
func unpack(w Weight) *Node {
	if !w.Packed() {
		return w.Data
	}
	d := w.Data.Shape().Dimensions
	m := Reshape(TransposeAllAxes(w.Data, 0, 2, 1, 3), d[0]*d[2], d[1]*d[3])
	m = SliceAxis(m, 1, AxisRange(0, w.In))
	if !w.GateUp {
		return SliceAxis(m, 0, AxisRange(0, w.Out))
	}
	turns := d[0] * d[2] / (2 * Turn)
	m = Reshape(TransposeAllAxes(Reshape(m, turns, 2, Turn, w.In), 1, 0, 2, 3), 2, turns*Turn, w.In)
	return Reshape(SliceAxis(m, 1, AxisRange(0, w.Out/2)), w.Out, w.In)
}

// Rows returns rows of the matrix, by their numbers ids i32[T]: [T, In] of the given dtype. Numbers that are out of
// range are those of some row. rows, i32[], is how many of the ids are wanted, the first ones; nil wants all.
func Rows(w Weight, ids, rows *Node, dtype dtypes.DType) *Node {
	g := ids.Graph()
	t := ids.Shape().Dimensions[0]
	if rows == nil {
		rows = Scalar(g, dtypes.Int32, float64(t))
	}
	ids = Min(Max(ids, ScalarZero(g, dtypes.Int32)), Scalar(g, dtypes.Int32, float64(w.Out-1)))
	inputs := []*Node{ids, w.Data, rows}
	if w.Scales != nil {
		inputs = append(inputs, w.Scales)
	}
	plain := func(in []*Node) []*Node {
		at := InsertAxes(in[0], -1)
		y := Gather(unpack(Weight{Format: w.Format, Data: in[1]}), at)
		if w.Scales != nil {
			y = ConvertDType(y, dtypes.Float32)
			y = Mul(y, BroadcastToDims(Gather(InsertAxes(in[3], -1), at), y.Shape().Dimensions...))
		}
		return []*Node{ConvertDType(y, dtype)}
	}
	if !w.Packed() {
		return plain(inputs)[0]
	}
	attrs := map[string]any{"in": w.In, "out": w.Out, "gate_up": w.GateUp, "scales": w.Scales != nil}
	return control.Composite("linear_rows", attrs, inputs, []shapes.Shape{shapes.Make(dtype, t, w.In)}, plain)[0]
}
