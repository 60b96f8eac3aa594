package linear

import (
	"errors"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Adapters are low-rank matrices, N pairs of the same shapes, of which each row of a layer may have one.
type Adapters struct {
	// Down makes rank numbers of a row, and Up the numbers that are added to the row's product. The formats are of one
	// pair; Data is of all, [N, ...].
	Down, Up Weight
	// Of i32[T] are the numbers of the rows' pairs. A row with a number outside [0, N) has none, and its result is the
	// same bytes as without adapters.
	Of *Node
}

// addends are what is added to the products of rows x [T, In], f32[T, Out]; anything for rows without a pair. Numbers
// between the two products are rounded to x's dtype. A row's addends depend on no other row.
func (a *Adapters) addends(x, rows *Node) *Node {
	t := x.Shape().Dimensions[0]
	inputs := []*Node{x, a.Of, rows, a.Down.Data, a.Up.Data}
	plain := func(in []*Node) []*Node {
		held := Adapters{Down: a.Down, Up: a.Up, Of: in[1]}
		held.Down.Data, held.Up.Data = in[3], in[4]
		return []*Node{held.each(in[0], in[2])}
	}
	if !a.Down.Packed() {
		return plain(inputs)[0]
	}
	n := a.Down.Data.Shape().Dimensions[0]
	attrs := map[string]any{"in": a.Down.In, "rank": a.Down.Out, "out": a.Up.Out}
	results := []shapes.Shape{shapes.Make(dtypes.Float32, t, a.Up.Out),
		shapes.Make(dtypes.Float32, lowRankScratch(t, n, a.Down.In, a.Down.Out, a.Up.Out))}
	return control.Composite("low_rank", attrs, inputs, results, plain)[0]
}

// lowRankScratch is what the kernel needs, in float32 numbers.
func lowRankScratch(t, n, in, rank, out int) int {
	const least = 8 // rows of a block, unless an adapter has fewer
	line := func(n int) int { return ceil(n, 16) * 16 }
	blocks := min(t/least+min(n, t)+1, t)
	packed := line(t+15*blocks) * (ceil(max(in, rank), 64)*64 + 16)
	return line(t*in) + line(t*rank) + line(t*out) + packed + 2*line(t)
}

// each goes through the pairs that rows have, each with all rows.
func (a *Adapters) each(x, rows *Node) *Node {
	g, t := x.Graph(), x.Shape().Dimensions[0]
	row := Iota(g, a.Of.Shape().Clone(), 0)
	of := Where(LessThan(row, BroadcastToDims(rows, t)), a.Of, full(g, -1, t))
	order, count := distinct(of, a.Down.Data.Shape().Dimensions[0])
	type progress struct{ At, Sum *Node }
	return control.While(progress{ScalarZero(g, dtypes.Int32), Zeros(g, shapes.Make(dtypes.Float32, t, a.Up.Out))},
		func(p progress) *Node { return LessThan(p.At, count) },
		func(p progress) progress {
			number := Reshape(oneOf(order, p.At))
			inner := applyTo(x, a.Down.lead(number), None, nil, nil, x.DType())
			y := applyTo(inner, a.Up.lead(number), None, nil, nil, dtypes.Float32)
			mine := Equal(of, BroadcastToDims(number, t))
			return progress{AddScalar(p.At, 1), Where(BroadcastToDims(InsertAxes(mine, -1), y.Shape().Dimensions...), y,
				p.Sum)}
		}).Sum
}

// distinct returns the numbers of [0, n) that are among wanted, ascending in an array i32[n], and how many there are.
func distinct(wanted *Node, n int) (order, count *Node) {
	g, all := wanted.Graph(), []int{wanted.Shape().Size(), n}
	numbers := Iota(g, shapes.Make(dtypes.Int32, n), 0)
	has := ReduceMax(ConvertDType(Equal(BroadcastToDims(Reshape(wanted, all[0], 1), all...),
		BroadcastToDims(Reshape(numbers, 1, n), all...)), dtypes.Int32), 0)
	return Sort(Where(Equal(has, ZerosLike(has)), full(g, n, n), numbers), 0, true), ReduceSum(has, 0)
}

// plus is y f32[T, Out] with addends of the rows that have any.
func (a *Adapters) plus(y, addends *Node) *Node {
	has := LogicalAnd(GreaterOrEqual(a.Of, ZerosLike(a.Of)),
		LessThan(a.Of, full(a.Of.Graph(), a.Down.Data.Shape().Dimensions[0], a.Of.Shape().Dimensions...)))
	return Where(BroadcastToDims(InsertAxes(has, -1), y.Shape().Dimensions...), Add(y, addends), y)
}

// applyAdapted is [Apply] of a weight with adapters.
func applyAdapted(x *Node, w Weight, o Options, rows *Node, result shapes.Shape) *Node {
	addends := o.Adapters.addends(x, rows)
	var y *Node
	switch {
	case w.Packed() && o.Activation.inKernels():
		return applyPacked(x, w.cut(), o, rows, result, addends)
	case w.Parts != nil:
		y = productOfParts(x, w, o.Rows)
	case w.InSlices():
		panic(errors.New("linear: adapters of a matrix in slices"))
	default:
		w = w.cut().stored()
		y = product(x, w)
	}
	return ConvertDType(finish(o.Adapters.plus(y, addends), w, o.Activation, o.Bias, o.Residual), result.DType)
}
