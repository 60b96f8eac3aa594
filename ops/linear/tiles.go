package linear

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

// tileRows is how many rows go through an expert at once in [Experts.tiles]: as many as a TPU multiplies at once.
const tileRows = 128

// inTiles reports whether many rows have so few experts each that it saves at least half of the arithmetic to give an
// expert its own rows alone. For fewer rows the weights are read once in either form, and are what takes the time.
func (e Experts) inTiles(r Routes) bool {
	t, k := r.Experts.Shape().Dimensions[0], r.Experts.Shape().Dimensions[1]
	// GoMLX's own backend has no dynamic slices.
	return backend.Of(r.Experts.Graph().Backend()).IsDynamic && saveInTiles(t, k, e.count())
}

// saveInTiles is inTiles of t rows that go to k of so many experts each.
func saveInTiles(t, k, experts int) bool {
	used := min(experts, t*k)
	return 2*(t*k+tileRows*used) < used*t
}

// MeanTiles returns the tiles that so many pairs of a row and one of its experts take on average.
func MeanTiles(pairs, experts float64) float64 { return pairs/tileRows + experts/2 }

// tiles is the sum f32[T, In] of share * Down(Up(x)) over the experts of each row. Pairs of a row and one of its
// experts are sorted by expert; a tile is tileRows consecutive pairs, from one of an expert's on. What a tile computes
// beyond its expert's last pair is overwritten by the next tile.
func (e Experts) tiles(x *Node, r Routes, wanted *Node) *Node {
	g, experts := x.Graph(), e.count()
	t, k := wanted.Shape().Dimensions[0], wanted.Shape().Dimensions[1]
	pairs := t * k
	isExpert := And(GreaterOrEqual(wanted, ZerosLike(wanted)), LessThan(wanted, full(g, experts, t, k)))
	order, place := sorted(Reshape(Where(isExpert, wanted, full(g, experts, t, k)), pairs))

	// First pair and tiles of each expert, i32[E].
	pairsOf := ReduceSum(ConvertDType(Equal(
		BroadcastToDims(Reshape(wanted, pairs, 1), pairs, experts),
		Iota(g, shapes.Make(dtypes.Int32, pairs, experts), 1)), dtypes.Int32), 0)
	first, tilesOf := scan.Before(pairsOf), DivScalar(AddScalar(pairsOf, tileRows-1), tileRows)
	end := scan.Sum(tilesOf)
	count := Reshape(SliceAxis(end, 0, AxisElem(experts-1)))

	// Expert and first pair of each tile, i32[most].
	most := (pairs + (tileRows-1)*min(experts, pairs)) / tileRows
	number := Iota(g, shapes.Make(dtypes.Int32, most), 0)
	expert := ReduceSum(ConvertDType(LessOrEqual(BroadcastToDims(InsertAxes(end, 0), most, experts),
		BroadcastToDims(InsertAxes(number, 1), most, experts)), dtypes.Int32), 1)
	expert = MinScalar(expert, experts-1) // for tiles that do not exist
	byTile := func(x *Node) *Node { return Gather(x, InsertAxes(expert, -1)) }
	from := Add(byTile(first), MulScalar(Sub(number, byTile(Sub(end, tilesOf))), tileRows))
	if backend.Of(g.Backend()).CountsLoops { // go through as many tiles as there may be
		from = Where(LessThan(number, BroadcastToDims(count, most)), from, full(g, pairs, most))
		count = Scalar(g, dtypes.Int32, float64(most))
	}

	order = Pad(DivScalar(order, k), ScalarZero(g, dtypes.Int32), compute.PadAxis{End: tileRows})
	rows := Gather(x, InsertAxes(order, -1)) // rows of all pairs: a tile reads its own in order
	type progress struct{ At, Y *Node }
	done := control.While(
		progress{ScalarZero(g, dtypes.Int32), Zeros(g, shapes.Make(dtypes.Float32, pairs+tileRows, e.Up.In))},
		func(p progress) *Node { return LessThan(p.At, count) },
		func(p progress) progress {
			zero := ScalarZero(g, dtypes.Int32)
			number := Reshape(DynamicSlice(expert, []*Node{p.At}, []int{1}))
			start := Reshape(DynamicSlice(from, []*Node{p.At}, []int{1}))
			y := e.one(DynamicSlice(rows, []*Node{start, zero}, []int{tileRows, e.Up.In}), number)
			return progress{AddScalar(p.At, 1), DynamicUpdateSlice(p.Y, y, []*Node{start, zero})}
		})
	place = Reshape(place, t, k)
	sum := Zeros(g, shapes.Make(dtypes.Float32, t, e.Up.In))
	column := func(x *Node, j int) *Node { return SliceAxis(x, 1, AxisElem(j)) } // [T, 1]
	for j := range k {
		y := Gather(done.Y, column(place, j))
		y = Mul(y, BroadcastToDims(column(r.Shares, j), y.Shape().Dimensions...))
		chosen := BroadcastToDims(column(isExpert, j), y.Shape().Dimensions...)
		sum = Add(sum, Where(chosen, y, ZerosLike(y)))
	}
	return sum
}

// sorted returns the indices of numbers i32[N] in ascending order of the numbers, of equal ones the lower first, and
// the place of each index among them.
func sorted(numbers *Node) (order, place *Node) {
	g, n := numbers.Graph(), numbers.Shape().Dimensions[0]
	less := func() *Function {
		return NewClosure(g, func(g *Graph) []*Node {
			var p [4]*Node
			for i := range p {
				p[i] = Parameter(g, g.UniqueName("sorted"), shapes.Make(dtypes.Int32))
			}
			return []*Node{LessThan(p[0], p[1])}
		})
	}
	index := Iota(g, shapes.Make(dtypes.Int32, n), 0)
	order = SortFunc(less(), 0, true, numbers, index)[1]
	return order, SortFunc(less(), 0, true, order, index)[1]
}
