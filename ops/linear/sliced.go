package linear

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/ops/control"
)

// applySlices is apply of a matrix in slices, in the given dtype.
func applySlices(x *Node, w Weight, activation Activation, bias, residual *Node, result dtypes.DType) *Node {
	// Once, as it is stored: slices cut from a stack within two loops made XLA for TPUs copy all of the stack.
	w = w.cut()
	g, t := x.Graph(), x.Shape().Dimensions[0]
	held := result
	if residual != nil {
		held = dtypes.Float32 // the sum is rounded
	}
	type progress struct{ At, Y *Node }
	start := progress{ScalarZero(g, dtypes.Int32), Zeros(g, shapes.Make(held, t, w.slices()*w.slice))}
	end := control.While(start,
		func(p progress) *Node { return LessThan(p.At, Scalar(g, dtypes.Int32, float64(w.slices()))) },
		func(p progress) progress {
			y := ConvertDType(w.ofSlice(x, p.At, activation, bias), held)
			to := []*Node{ScalarZero(g, dtypes.Int32), MulScalar(p.At, w.slice)}
			return progress{AddScalar(p.At, 1), DynamicUpdateSlice(p.Y, y, to)}
		})
	y := SliceAxis(end.Y, 1, AxisRange(0, w.Columns()))
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return ConvertDType(y, result)
}

// ofSlice is apply of a slice of the matrix, and of the bias [Out], which may be nil. Gates and ups are products of
// their own: the scales of both together would be in an order of their own, to which XLA for TPUs turns around all.
func (w Weight) ofSlice(x, index *Node, activation Activation, bias *Node) *Node {
	zero, sets := ScalarZero(index.Graph(), dtypes.Int32), 1
	if w.GateUp {
		sets = 2
	}
	one := w
	one.Out, one.slice = sets*w.slice, 0
	var products []*Node
	for set := range sets {
		part := func(x *Node) *Node {
			if x == nil {
				return nil
			}
			from, dims := []*Node{index, zero, zero}, slices.Clone(x.Shape().Dimensions)
			if w.GateUp {
				from, dims[0] = append([]*Node{Scalar(x.Graph(), dtypes.Int32, float64(set))}, from...), 1
			}
			dims[len(dims)-3] = 1
			y := DynamicSlice(x, from, dims)
			if x == w.Data || x.Shape().Dim(-1) < lanes {
				y = asStored(y)
			}
			return Reshape(y, w.slice, x.Shape().Dim(-1))
		}
		sliced := Weight{Format: one.Format, Data: part(w.Data), Scales: part(w.Scales), Factors: part(w.Factors)}
		sliced.Out, sliced.GateUp = w.slice, false
		products = append(products, product(x, sliced))
	}
	if bias != nil {
		filled := Pad(Reshape(bias, sets, w.Columns()), ScalarZero(bias.Graph(), bias.DType()), PadAxis{},
			PadAxis{End: w.slices()*w.slice - w.Columns()})
		bias = Reshape(DynamicSlice(filled, []*Node{zero, MulScalar(index, w.slice)}, []int{sets, w.slice}), one.Out)
	}
	return finish(Concatenate(products, 1), one, activation, bias, nil)
}

// asStored is a matrix or slice of a plane as TPUs hold the plane: row-major, or with rows last in memory if that pads
// less. They pad the last axis to lanes, and the one before it to 8 numbers of 4 bytes, 16 of 2 or 32 of 1.
func asStored(x *Node) *Node {
	turned := func(x *Node) *Node { return Transpose(x, -2, -1) }
	rows, width, high := x.Shape().Dim(-2), x.Shape().Dim(-1), 32/x.DType().Size()
	padded := func(high, wide, n, m int) int { return ceil(n, high) * high * ceil(m, wide) * wide }
	if padded(high, lanes, width, rows) < padded(high, lanes, rows, width) {
		return turned(control.RowMajor(turned(x)))
	}
	return control.RowMajor(x)
}

// lead is one of the matrices that planes hold, by its position on their first axis after At.
func (w Weight) lead(index *Node) Weight {
	w.At = append(w.At[:len(w.At):len(w.At)], index)
	return w
}

// cut takes the matrix out of planes that hold several.
func (w Weight) cut() Weight {
	if len(w.At) == 0 {
		return w
	}
	part := func(x *Node) *Node {
		if !backend.Of(w.Data.Graph().Backend()).IsDynamic || x == nil {
			for _, index := range w.At { // GoMLX's own backend has no dynamic slices
				x = oneOf(x, index)
			}
			return x
		}
		dims, lead := x.Shape().Clone().Dimensions, len(w.At)
		start := w.At[:lead:lead]
		for i := range dims {
			if i < lead {
				dims[i] = 1
			} else {
				start = append(start, ScalarZero(x.Graph(), dtypes.Int32))
			}
		}
		return Reshape(DynamicSlice(x, start, dims), dims[lead:]...)
	}
	w.Data, w.Scales, w.Factors, w.At = part(w.Data), part(w.Scales), part(w.Factors), nil
	return w
}

// allRows are the rows of a plane, of all slices.
func allRows(plane *Node) *Node {
	d := plane.Shape().Dimensions
	if len(d) == 2 {
		return plane
	}
	return Reshape(plane, d[0]*d[1], d[2])
}

// oneOf is x[number] of x [E, ...], or nil of nil.
func oneOf(x, number *Node) *Node {
	if x == nil {
		return nil
	}
	return Reshape(Gather(x, Reshape(number, 1, 1)), x.Shape().Dimensions[1:]...)
}
