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
	// Down makes ranks of a row. Its format is of one pair; Data is of all, [N, ...].
	Down Weight
	// Up [N, ranks, Out], of the rows' dtype, makes of the ranks what is added to a row's product.
	Up *Node
	// Parts are the outputs of the matrices that the layer's matrix is concatenated from, at most 3: the first has the
	// first share of the ranks, and so on. Up is 0 elsewhere.
	Parts []int
	// Of i32[T] are the numbers of the rows' pairs. A row with a number outside [0, N) has none, and its result is the
	// same bytes as without adapters.
	Of *Node
}

// MaxAdapterParts bounds [Adapters].Parts.
const MaxAdapterParts = 3

// inner are the ranks that rows x [T, In] make, f32[T, ranks]; anything for rows without a pair.
func (a *Adapters) inner(x, rows *Node) *Node {
	t, n := x.Shape().Dimensions[0], a.count()
	plain := func(in []*Node) []*Node {
		held := Adapters{Down: a.Down, Of: in[1]}
		held.Down.Data = in[3]
		return []*Node{held.each(in[2], a.Down.Out, func(number *Node) *Node {
			return applyTo(in[0], held.Down.lead(number), None, nil, nil, dtypes.Float32)
		})}
	}
	inputs := []*Node{x, a.Of, rows, a.Down.Data}
	if !a.Down.Packed() {
		return plain(inputs)[0]
	}
	results := []shapes.Shape{shapes.Make(dtypes.Float32, t, a.Down.Out),
		shapes.Make(dtypes.Float32, lowRankScratch(t, n, a.Down.In, a.Down.Out))}
	return control.Composite("low_rank", map[string]any{"in": a.Down.In, "rank": a.Down.Out}, inputs, results, plain)[0]
}

// Rows is x [T, In], rows of a matrix by their numbers ids i32[T] (see [Rows]), plus what pairs add to the rows that
// have one: the same row of Up, which is [N, Out, ranks] here, times Down, whose format is of [In, ranks].
func (a *Adapters) Rows(x, ids, rows *Node) *Node {
	g, t, n, out := x.Graph(), x.Shape().Dimensions[0], a.count(), a.Up.Shape().Dimensions[1]
	if rows == nil {
		rows = Scalar(g, dtypes.Int32, float64(t))
	}
	zeros := ZerosLike(a.Of)
	has := LogicalAnd(GreaterOrEqual(a.Of, zeros), LessThan(a.Of, full(g, n, t)))
	place := Add(MulScalar(a.Of, float64(out)), Min(Max(ids, zeros), full(g, out-1, t)))
	ranks := Gather(Reshape(a.Up, n*out, a.Down.In), InsertAxes(Where(has, place, zeros), -1))
	y := ConvertDType(Add(ConvertDType(x, dtypes.Float32), a.inner(ranks, rows)), x.DType())
	return Where(BroadcastToDims(InsertAxes(has, -1), x.Shape().Dimensions...), y, x)
}

// lowRankScratch is what the kernel needs, in float32 numbers.
func lowRankScratch(t, n, in, rank int) int {
	const least = 8 // rows of a block, unless an adapter has fewer
	line := func(n int) int { return ceil(n, 16) * 16 }
	blocks := min(t/least+min(n, t)+1, t)
	packed := line(t+15*blocks) * (ceil(in, 64)*64 + 16)
	return line(t*in) + line(t*rank) + packed + 2*line(t)
}

func (a *Adapters) count() int { return a.Down.Data.Shape().Dimensions[0] }

// each is what of makes of rows with a pair, [T, width], for all pairs that rows have; of takes a pair's number, i32[],
// and makes it of all rows.
func (a *Adapters) each(rows *Node, width int, of func(number *Node) *Node) *Node {
	g, t := rows.Graph(), a.Of.Shape().Dimensions[0]
	row := Iota(g, a.Of.Shape().Clone(), 0)
	pairs := Where(LessThan(row, BroadcastToDims(rows, t)), a.Of, full(g, -1, t))
	order, count := distinct(pairs, a.count())
	type progress struct{ At, Y *Node }
	return control.While(progress{ScalarZero(g, dtypes.Int32), Zeros(g, shapes.Make(dtypes.Float32, t, width))},
		func(p progress) *Node { return LessThan(p.At, count) },
		func(p progress) progress {
			number := Reshape(oneOf(order, p.At))
			mine := BroadcastToDims(InsertAxes(Equal(pairs, BroadcastToDims(number, t)), -1), t, width)
			return progress{AddScalar(p.At, 1), Where(mine, of(number), p.Y)}
		}).Y
}

// distinct returns the numbers of [0, n) that are among wanted, ascending in an array i32[n], and how many there are.
func distinct(wanted *Node, n int) (order, count *Node) {
	g, all := wanted.Graph(), []int{wanted.Shape().Size(), n}
	numbers := Iota(g, shapes.Make(dtypes.Int32, n), 0)
	has := ReduceMax(ConvertDType(Equal(BroadcastToDims(Reshape(wanted, all[0], 1), all...),
		BroadcastToDims(Reshape(numbers, 1, n), all...)), dtypes.Int32), 0)
	return Sort(Where(Equal(has, ZerosLike(has)), full(g, n, n), numbers), 0, true), ReduceSum(has, 0)
}

// plus is y f32[T, columns], of the columns from first on, with what pairs make of inner for the rows that have one.
func (a *Adapters) plus(y, inner, rows *Node, first int) *Node {
	columns := y.Shape().Dimensions[1]
	addends := a.each(rows, columns, func(number *Node) *Node {
		up := SliceAxis(oneOf(a.Up, number), 1, AxisRange(first, first+columns))
		return Dot(inner, ConvertDType(up, dtypes.Float32)).Product()
	})
	has := LogicalAnd(GreaterOrEqual(a.Of, ZerosLike(a.Of)),
		LessThan(a.Of, full(a.Of.Graph(), a.count(), a.Of.Shape().Dimensions...)))
	return Where(BroadcastToDims(InsertAxes(has, -1), y.Shape().Dimensions...), Add(y, addends), y)
}

// adapted is what a layer knows of its rows' adapters.
type adapted struct {
	*Adapters
	ranks *Node // f32[T, ranks]: see inner
	first int   // the column of Up that belongs to the layer's first
}

// inputs are the operands of the kernel.
func (a *adapted) inputs() []*Node { return []*Node{a.ranks, a.Of, a.Up} }

// addTo adds the attributes of the kernel.
func (a *adapted) addTo(attrs map[string]any) {
	cuts, sum := [MaxAdapterParts - 1]int{}, 0
	for i := range cuts {
		if sum += a.part(i); sum > 0 {
			cuts[i] = sum
		}
	}
	attrs["first"], attrs["cut1"], attrs["cut2"] = a.first, cuts[0], cuts[1]
}

func (a *adapted) part(i int) int {
	if i < len(a.Parts) {
		return a.Parts[i]
	}
	return 0
}

// applyAdapted is [Apply] of a weight with adapters.
func applyAdapted(x *Node, w Weight, o Options, rows *Node, result shapes.Shape) *Node {
	a := &adapted{Adapters: o.Adapters, ranks: o.Adapters.inner(x, rows)}
	var y *Node
	switch {
	case w.Packed() && o.Activation.inKernels():
		return applyPacked(x, w.cut(), o, rows, result, a)
	case w.Parts != nil:
		var all []*Node
		for _, p := range w.Parts {
			all = append(all, a.product(x, p, rows))
			a.first += p.Out
		}
		return ConvertDType(finish(Concatenate(all, 1), w, o.Activation, o.Bias, o.Residual), result.DType)
	case w.InSlices():
		panic(errors.New("linear: adapters of a matrix in slices"))
	}
	w = w.cut().stored()
	y = a.plus(product(x, w), a.ranks, rows, 0)
	return ConvertDType(finish(y, w, o.Activation, o.Bias, o.Residual), result.DType)
}

// product is the product of a weight that is a part of another one, with its adapters, in float32.
func (a *adapted) product(x *Node, w Weight, rows *Node) *Node {
	result := shapes.Make(dtypes.Float32, x.Shape().Dimensions[0], w.Out)
	if w.Packed() {
		part := *a
		return applyPacked(x, w.cut(), Options{Float32: true}, rows, result, &part)
	}
	w = w.cut().stored()
	return a.plus(product(x, w), a.ranks, rows, a.first)
}
