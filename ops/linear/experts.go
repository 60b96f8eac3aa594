package linear

import (
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

// each is the sum f32[T, In] of share * Down(Up(x)) over the experts of each row. It goes through the experts that
// wanted i32[T, K] has, each with all rows: rows of other experts have a share of 0.
func (e Experts) each(x *Node, r Routes, wanted *Node) *Node {
	g := x.Graph()
	experts, t := e.count(), x.Shape().Dimensions[0]
	zero := ScalarZero(g, dtypes.Int32)
	order, count := distinct(wanted, experts)
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
	isExpert := Equal(BroadcastToDims(InsertAxes(wanted, -1), all...), Iota(g, shapes.Make(dtypes.Int32, all...), 2))
	shares := BroadcastToDims(InsertAxes(r.Shares, -1), all...)
	return ReduceMax(Where(isExpert, shares, FillScalar(g, shares.Shape(), math.Inf(-1))), 1)
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

// full is i32[dims...] of n.
func full(g *Graph, n int, dims ...int) *Node {
	return BroadcastToDims(Scalar(g, dtypes.Int32, float64(n)), dims...)
}
