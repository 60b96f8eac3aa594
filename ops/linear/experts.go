package linear

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Experts are the feed-forwards of a mixture, E of them, each of two layers and all of the same shapes.
type Experts struct {
	// Up makes inner rows of a row, and Down a row of those. The formats are of one expert; Data, Scales and Factors
	// are of all, [E, ...].
	Up, Down Weight
	// UpBias and DownBias [E, Out], of the rows' dtype, are added to the products; nil for none.
	UpBias, DownBias *Node
	// Activation is what Up does to its product.
	Activation Activation
}

// Routes are the experts that each row goes to.
type Routes struct {
	// Experts i32[T, K] are their numbers, ascending. A number outside [0, E) is no expert.
	Experts *Node
	// Shares f32[T, K] are what their results are multiplied by.
	Shares *Node
}

// Apply returns for each row of x [T, In] the sum of share * Down(Up(x)) over its experts: [T, In]. Inner rows are
// rounded to x's dtype; the sums are float32 and rounded once. Of the options Rows, Residual and Float32 count.
//
// A row's result depends on no other row. Kernels add up in the order of the experts' numbers, and do not read the
// weights of experts that no row goes to; so does the plain form but for [Experts.together].
func (e Experts) Apply(x *Node, r Routes, o Options) *Node {
	g, dtype := x.Graph(), x.DType()
	experts, t, k := e.count(), r.Experts.Shape().Dimensions[0], r.Experts.Shape().Dimensions[1]
	if x.Rank() != 2 || x.Shape().Dimensions[0] != t || x.Shape().Dimensions[1] != e.Up.In ||
		e.Up.Columns() != e.Down.In || e.Down.Out != e.Up.In {
		panic(fmt.Errorf("linear: x of shape %s and experts of shape %s do not fit matrices [%d, %d] and [%d, %d]",
			x.Shape(), r.Experts.Shape(), e.Up.Out, e.Up.In, e.Down.Out, e.Down.In))
	}
	result := shapes.Make(dtype, t, e.Up.In)
	if o.Float32 {
		result.DType = dtypes.Float32
	}
	rows := o.Rows
	if rows == nil {
		rows = Scalar(g, dtypes.Int32, float64(t))
	}
	if e.Up.Packed() {
		e.Up, e.Down = e.Up.cut(), e.Down.cut()
	}
	inputs := []*Node{x, r.Experts, r.Shares, rows, e.Up.Data, e.Down.Data}
	add := func(nodes ...*Node) (has bool) {
		for _, n := range nodes {
			if n != nil {
				inputs, has = append(inputs, n), true
			}
		}
		return has
	}
	scales, bias, residual := add(e.Up.Scales, e.Down.Scales), add(e.UpBias, e.DownBias), add(o.Residual)
	if !e.Up.Packed() || !e.Activation.inKernels() {
		return e.plain(x, r, rows, o.Residual, result.DType)
	}
	attrs := map[string]any{"in": e.Up.In, "inner": e.Down.In, "gate_up": e.Up.GateUp,
		"activation": e.Activation.number(), "scales": scales, "bias": bias, "residual": residual,
		"up_blocks": e.Up.Blocks.Number(), "down_blocks": e.Down.Blocks.Number()}
	scratch := shapes.Make(dtypes.Float32, expertsScratch(t, k, experts, e.Up.In, e.Down.In))
	return control.Composite("experts", attrs, inputs, []shapes.Shape{result, scratch},
		func([]*Node) []*Node { return []*Node{e.plain(x, r, rows, o.Residual, result.DType)} })[0]
}

// expertsScratch is what the kernel needs, in float32 numbers.
func expertsScratch(t, k, experts, in, inner int) int {
	assigned := t * k
	line := func(n int) int { return ceil(n, 16) * 16 }
	packed := line(assigned+15*min(experts, assigned)) * (ceil(max(in, inner), 64)*64 + 16)
	return 2*line(assigned*in) + line(assigned*inner) + packed + line(assigned)
}

// plain gives experts rows of their own if that saves half of the arithmetic, and all rows otherwise.
func (e Experts) plain(x *Node, r Routes, rows, residual *Node, dtype dtypes.DType) *Node {
	row := Iota(x.Graph(), r.Experts.Shape().Clone(), 0)
	wanted := Where(LessThan(row, BroadcastToDims(rows, row.Shape().Dimensions...)), r.Experts,
		full(x.Graph(), -1, row.Shape().Dimensions...))
	sum := e.each
	switch {
	case e.inTiles(r):
		sum = e.tiles
	case e.isTogether(r):
		sum = e.together
	}
	y := sum(x, r, wanted)
	if residual != nil {
		y = Add(y, ConvertDType(residual, dtypes.Float32))
	}
	return ConvertDType(y, dtype)
}

// each is the sum f32[T, In] of share * Down(Up(x)) over the experts of each row. It goes through the experts that
// wanted i32[T, K] has, each with all rows: rows of other experts have a share of 0.
func (e Experts) each(x *Node, r Routes, wanted *Node) *Node {
	g := x.Graph()
	experts, t := e.count(), x.Shape().Dimensions[0]
	zero := ScalarZero(g, dtypes.Int32)
	numbers := Iota(g, shapes.Make(dtypes.Int32, experts), 0)
	all := []int{wanted.Shape().Size(), experts}
	has := ReduceMax(ConvertDType(Equal(BroadcastToDims(Reshape(wanted, all[0], 1), all...),
		BroadcastToDims(Reshape(numbers, 1, experts), all...)), dtypes.Int32), 0)
	order := Sort(Where(Equal(has, ZerosLike(has)), full(g, experts, experts), numbers), 0, true)
	count := ReduceSum(has, 0)
	shares := Transpose(e.byExpert(r, wanted), 0, 1)
	type progress struct{ At, Sum *Node }
	return control.While(progress{zero, Zeros(g, shapes.Make(dtypes.Float32, t, e.Up.In))},
		func(p progress) *Node { return LessThan(p.At, count) },
		func(p progress) progress {
			number := Reshape(oneOf(order, p.At))
			share := BroadcastToDims(InsertAxes(oneOf(shares, number), -1), t, e.Up.In)
			return progress{AddScalar(p.At, 1), Add(p.Sum, shareOf(e.one(x, number), share))}
		}).Sum
}

// byExpert returns the share of each row and expert, f32[T, E]: -Inf of an expert that the row does not go to, or whose
// row is not wanted.
func (e Experts) byExpert(r Routes, wanted *Node) *Node {
	g, all := wanted.Graph(), append(wanted.Shape().Clone().Dimensions, e.count()) // T, K, E
	is := Equal(BroadcastToDims(InsertAxes(wanted, -1), all...), Iota(g, shapes.Make(dtypes.Int32, all...), 2))
	shares := BroadcastToDims(InsertAxes(r.Shares, -1), all...)
	return ReduceMax(Where(is, shares, FillScalar(g, shares.Shape(), math.Inf(-1))), 1)
}

// shareOf is y times the shares of [Experts.byExpert], of y's shape. What is not a number in a row that does not go to
// an expert does not stay.
func shareOf(y, shares *Node) *Node {
	none := FillScalar(y.Graph(), shares.Shape(), math.Inf(-1))
	return Where(Equal(shares, none), ZerosLike(y), Mul(y, shares))
}

// one is what the expert of a number, i32[], makes of rows x: f32[T, In].
func (e Experts) one(x, number *Node) *Node {
	inner := applyTo(x, e.Up.lead(number), e.Activation, oneOf(e.UpBias, number), nil, x.DType())
	return applyTo(inner, e.Down.lead(number), None, oneOf(e.DownBias, number), nil, dtypes.Float32)
}

// count is E.
func (e Experts) count() int { return e.Up.Data.Shape().Dimensions[len(e.Up.At)] }

// oneOf is x[number] of x [E, ...], or nil of nil.
func oneOf(x, number *Node) *Node {
	if x == nil {
		return nil
	}
	return Reshape(Gather(x, Reshape(number, 1, 1)), x.Shape().Dimensions[1:]...)
}
