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

	"github.com/quire/quire/backend"
	"github.com/quire/quire/ops/control"
)

// Weight is the matrix of a layer in a graph.
type Weight struct {
	Format
	// Data has the shape Format.Shape.
	Data *Node
	// Scales f32[Out] are what the rows of an Int8 matrix are multiplied by, or the second of [Format.Planes] of a
	// matrix in blocks, whose third is Factors; else nil.
	Scales, Factors *Node
	// At, i32[] each, are the place of the matrix in planes that hold several: on as many axes in front.
	At []*Node
	// Parts are matrices that follow each other, if the matrices of one layer are held in several formats. Then only
	// Out, In and GateUp are set in addition.
	Parts []Weight
}

// NewWeight returns the weight of a format whose planes are the nodes of their suffixes.
func NewWeight(f Format, plane func(suffix string) *Node) Weight {
	w := Weight{Format: f}
	for i, p := range f.Planes() {
		switch n := plane(p.Suffix); {
		case i == 0:
			w.Data = n
		case p.Suffix == scalesSuffix:
			w.Scales = n
		default:
			w.Factors = n
		}
	}
	return w
}

// NewParts returns the weight of matrices that lie one after the other, of gates and of ups if gateUp.
func NewParts(parts []Weight, gateUp bool) Weight {
	w := Weight{Parts: parts}
	w.In, w.GateUp = parts[0].In, gateUp
	for _, p := range parts {
		w.Out += p.Out
	}
	return w
}

// Options are what a layer does in addition to its product.
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
	// Float32 makes the result float32. Otherwise it has x's dtype.
	Float32 bool
	// Adapters add to the products of rows, before everything else; nil for none.
	Adapters *Adapters
}

// Apply returns activation(x [T, In] times the matrix transposed): [T, Out]; for gates and ups activation(gate) * up,
// [T, Out/2].
//
// All is computed in float32 and rounded once. For an Int8 matrix, each row of x is rounded to 8 bits too, at the scale
// of its own largest element: the products are integers, their sums exact. For a matrix in blocks the kernels round
// each 32 numbers of x so; the plain form does not, and rounds the matrix to x's dtype instead.
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
	if o.Activation.limit() > 0 && !w.GateUp {
		panic(fmt.Errorf("linear: activation %q of a matrix [%d, %d] without gates", o.Activation, w.Out, w.In))
	}
	switch {
	case o.Adapters != nil:
		return applyAdapted(x, w, o, rows, result)
	case w.Parts != nil:
		return applyParts(x, w, o, result.DType)
	case w.Packed():
		w = w.cut()
	}
	return applyPacked(x, w, o, rows, result, nil)
}

// applyPacked is Apply as a composite if the weight is packed, and its plain form otherwise. adapters, which are nil
// without, are of a packed weight.
func applyPacked(x *Node, w Weight, o Options, rows *Node, result shapes.Shape, adapters *adapted) *Node {
	t := x.Shape().Dimensions[0]
	inputs := []*Node{x, w.Data, rows}
	add := func(n *Node) int {
		if n == nil {
			return 0
		}
		inputs = append(inputs, n)
		return len(inputs) - 1
	}
	scales, bias, residual, factors := add(w.Scales), add(o.Bias), add(o.Residual), add(w.Factors)
	plain := func(in []*Node) []*Node {
		optional := func(i int) *Node {
			if i == 0 {
				return nil
			}
			return in[i]
		}
		held := Weight{Format: w.Format, Data: in[1], Scales: optional(scales), Factors: optional(factors), At: w.At}
		if adapters == nil {
			return []*Node{applyTo(in[0], held, o.Activation, optional(bias), optional(residual), result.DType)}
		}
		last := in[len(in)-3:]
		given := Adapters{Down: adapters.Down, Up: last[2], Of: last[1]}
		y := finish(given.plus(product(in[0], held), last[0], in[2], adapters.first), w, o.Activation, optional(bias),
			optional(residual))
		return []*Node{ConvertDType(y, result.DType)}
	}
	if !w.Packed() || !o.Activation.inKernels() {
		return plain(inputs)[0]
	}
	attrs := map[string]any{"in": w.In, "out": w.Out, "gate_up": w.GateUp, "activation": o.Activation.number(),
		"scales": scales > 0, "bias": bias > 0, "residual": residual > 0, "blocks": w.Blocks.Number()}
	scratch := shapes.Make(dtypes.Float32, ceil(t, 16)*16, ceil(w.In, 64)*64+16)
	op := "linear"
	if adapters != nil {
		op, inputs = "linear_adapted", append(inputs, adapters.inputs()...)
		adapters.addTo(attrs)
	}
	return control.Composite(op, attrs, inputs, []shapes.Shape{result, scratch}, plain)[0]
}

// applyParts is Apply of a weight in parts: the products side by side, and then what follows them.
func applyParts(x *Node, w Weight, o Options, result dtypes.DType) *Node {
	var all []*Node
	for _, p := range w.Parts {
		all = append(all, Apply(x, p, Options{Rows: o.Rows, Float32: true}))
	}
	return ConvertDType(finish(Concatenate(all, 1), w, o.Activation, o.Bias, o.Residual), result)
}

// applyTo is the plain form, in the given dtype.
func applyTo(x *Node, w Weight, activation Activation, bias, residual *Node, result dtypes.DType) *Node {
	if w.InSlices() {
		return applySlices(x, w, activation, bias, residual, result)
	}
	return ConvertDType(apply(x, w, activation, bias, residual), result)
}

// apply is the plain form of a matrix that is not in slices, in float32.
func apply(x *Node, w Weight, activation Activation, bias, residual *Node) *Node {
	w = w.cut().stored()
	return finish(product(x, w), w, activation, bias, residual)
}

// stored has the bytes of blocks as they are stored.
func (w Weight) stored() Weight {
	if w.Blocks.Is() && !w.Packed() {
		w.Data = asStored(w.Data)
	}
	return w
}

// finish is what follows the product.
func finish(y *Node, w Weight, activation Activation, bias, residual *Node) *Node {
	dims := y.Shape().Dimensions
	if bias != nil {
		y = Add(y, BroadcastToDims(InsertAxes(ConvertDType(bias, dtypes.Float32), 0), dims...))
	}
	if w.GateUp {
		gate, up := SliceAxis(y, 1, AxisRange(0, dims[1]/2)), SliceAxis(y, 1, AxisRange(dims[1]/2))
		y = activation.pair(gate, up)
	} else {
		y = activation.plain(y)
	}
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return y
}

// product is x [T, In] times the matrix transposed, in float32.
func product(x *Node, w Weight) *Node {
	times := func(x, m *Node, out dtypes.DType) *Node {
		return Dot(x, m).WithOutputDType(out).General([]int{1}, nil, []int{1}, nil)
	}
	if w.Blocks.Is() {
		return times(x, ConvertDType(w.numbers(), x.DType()), dtypes.Float32)
	}
	matrix := unpack(w)
	if !w.Packed() {
		x = w.wide(x)
	}
	if w.DType != dtypes.Int8 {
		return times(x, ConvertDType(matrix, x.DType()), dtypes.Float32)
	}
	rounded, scale := toBytes(x)
	y := ConvertDType(times(rounded, ConvertDType(matrix, rounded.DType()), dtypes.Int32), dtypes.Float32)
	y = Mul(y, BroadcastToDims(scale, y.Shape().Dimensions...))
	return Mul(y, BroadcastToDims(InsertAxes(w.Scales, 0), y.Shape().Dimensions...))
}

// toBytes rounds the rows of x [..., N] to 8 bits, each at the scale f32[..., 1] of its largest number. They are int8
// on devices that multiply bytes and would widen the matrix first, else int32.
func toBytes(x *Node) (rounded, scale *Node) {
	x = ConvertDType(x, dtypes.Float32)
	largest := ReduceAndKeep(Abs(x), ReduceMax, -1)
	zero := Equal(largest, ZerosLike(largest))
	inverse := Where(zero, largest, Div(MulScalar(OnesLike(largest), 127), largest))
	factors := dtypes.Int32
	if backend.Of(x.Graph().Backend()).MultipliesBytes {
		factors = dtypes.Int8
	}
	rounded = ConvertDType(Round(Mul(x, BroadcastToDims(inverse, x.Shape().Dimensions...))), factors)
	// A row with what is not a number has no scale.
	return rounded, Add(MulScalar(largest, 1.0/127), ReduceAndKeep(Sub(x, x), ReduceSum, -1))
}

// wide is x [..., In] with zeros after each row, as many as the matrix has after each of its rows.
func (w Weight) wide(x *Node) *Node {
	behind := w.rowWidth() - w.In
	if behind == 0 {
		return x
	}
	axes := make([]PadAxis, x.Rank())
	axes[x.Rank()-1].End = behind
	return Pad(x, ScalarZero(x.Graph(), x.DType()), axes...)
}

// unpack returns the matrix as [Out, In].
func unpack(w Weight) *Node {
	if !w.Packed() {
		return w.Data
	}
	d := w.Data.Shape().Dimensions
	m := Reshape(TransposeAllAxes(w.Data, 0, 2, 1, 3), d[0]*d[2], d[1]*d[3])
	return w.inOrder(SliceAxis(m, 1, AxisRange(0, w.In)))
}

// inOrder puts the rows of panels, [rows, width], into the order of the matrix: [Out, width].
func (w Weight) inOrder(m *Node) *Node {
	if !w.GateUp {
		return SliceAxis(m, 0, AxisRange(0, w.Out))
	}
	rows, width := m.Shape().Dimensions[0], m.Shape().Dimensions[1]
	turns := rows / (2 * Turn)
	m = SliceAxis(m, 0, AxisRange(0, turns*2*Turn))
	m = Reshape(TransposeAllAxes(Reshape(m, turns, 2, Turn, width), 1, 0, 2, 3), 2, turns*Turn, width)
	return Reshape(SliceAxis(m, 1, AxisRange(0, w.Out/2)), w.Out, width)
}

// Rows returns rows of the matrix, by their numbers ids i32[T]: [T, In] of the given dtype. An id that is out of range
// returns some row. rows, i32[], is how many of the ids are wanted, the first ones; nil wants all.
func Rows(w Weight, ids, rows *Node, dtype dtypes.DType) *Node {
	w = w.cut()
	g := ids.Graph()
	t := ids.Shape().Dimensions[0]
	if rows == nil {
		rows = Scalar(g, dtypes.Int32, float64(t))
	}
	ids = Min(Max(ids, ScalarZero(g, dtypes.Int32)), Scalar(g, dtypes.Int32, float64(w.Out-1)))
	inputs := []*Node{ids, w.Data, rows}
	for _, plane := range []*Node{w.Scales, w.Factors} {
		if plane != nil {
			inputs = append(inputs, plane)
		}
	}
	plain := func(in []*Node) []*Node {
		ids, held := InsertAxes(in[0], -1), Weight{Format: w.Format, Data: in[1]}
		if w.Scales != nil {
			held.Scales = in[3]
		}
		if w.Factors != nil {
			held.Factors = in[4]
		}
		if w.Blocks.Is() {
			return []*Node{ConvertDType(held.rowsOf(ids), dtype)}
		}
		y := Gather(unpack(held), ids)
		if held.rowWidth() > held.In && !held.Packed() {
			y = SliceAxis(y, 1, AxisRange(0, held.In))
		}
		if w.Scales != nil {
			y = ConvertDType(y, dtypes.Float32)
			y = Mul(y, BroadcastToDims(Gather(InsertAxes(in[3], -1), ids), y.Shape().Dimensions...))
		}
		return []*Node{ConvertDType(y, dtype)}
	}
	if !w.Packed() {
		return plain(inputs)[0]
	}
	attrs := map[string]any{"in": w.In, "out": w.Out, "gate_up": w.GateUp, "scales": w.Scales != nil,
		"blocks": w.Blocks.Number()}
	result := shapes.Make(dtype, t, w.In)
	if w.DType.IsFloat() {
		result.DType = w.DType // rows are copied
	}
	return ConvertDType(control.Composite("linear_rows", attrs, inputs, []shapes.Shape{result},
		func(in []*Node) []*Node { return []*Node{ConvertDType(plain(in)[0], result.DType)} })[0], dtype)
}
