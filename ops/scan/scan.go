// Package scan provides what the tables are built from: prefix sums, the positions and the number of the set elements
// of a mask, and the owner of the k-th of elements that are assigned in order. All are whole-array operations without
// a serial loop, and run on every backend; for CPUs there are kernels.
//
// The forms are also chosen for short compile times. Chains of dependent steps (doubling sums, binary searches) run
// as fast on XLA:CPU, but take seconds to compile, because the compiler fuses the steps and repeats them.
package scan

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

const (
	// flat is the largest length of a vector that is summed, or searched, in one piece.
	flat = 128
	// group is the length of the pieces of a longer vector; also the bits of a word in [Positions].
	group = 32
)

// composite returns the kernel op of x, or what plain builds.
func composite(op string, x *Node, results []shapes.Shape, plain func(x *Node) []*Node) []*Node {
	return control.Composite(op, struct{}{}, []*Node{x}, results, func(in []*Node) []*Node { return plain(in[0]) })
}

func int32s(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }

// Sum returns the inclusive prefix sums of x, int32 [N] with N > 0.
func Sum(x *Node) *Node {
	return composite("prefix_sums", x, []shapes.Shape{x.Shape()}, func(x *Node) []*Node { return []*Node{sum(x)} })[0]
}

// sum is Sum. Long vectors are summed in groups, whose totals are then summed the same way.
func sum(x *Node) *Node {
	n := x.Shape().Dimensions[0]
	if n <= flat {
		return Reshape(rowSums(Reshape(x, 1, n)), n)
	}
	rows := rowSums(groups(x))
	totals := lastColumn(rows)
	all := Add(rows, BroadcastToShape(InsertAxes(Sub(sum(totals), totals), 1), rows.Shape()))
	return SliceAxis(Reshape(all, rows.Shape().Size()), 0, AxisRangeFromStart(n))
}

// Before returns the exclusive prefix sums of x, int32 [N]: element i is the sum of all elements before it.
func Before(x *Node) *Node { return Sub(Sum(x), x) }

// rowSums returns the prefix sums of each row of x [R, C], by comparing all pairs of columns.
func rowSums(x *Node) *Node {
	rows, columns := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	square := int32s(rows, columns, columns)
	g := x.Graph()
	repeated := BroadcastToShape(InsertAxes(x, 1), square)
	return ReduceSum(Where(LessOrEqual(Iota(g, square, 2), Iota(g, square, 1)), repeated, ZerosLike(repeated)), 2)
}

// groups returns x [N], padded with zeros, as one row per group.
func groups(x *Node) *Node {
	n := x.Shape().Dimensions[0]
	rows := (n + group - 1) / group
	if rows*group != n {
		x = Pad(x, ScalarZero(x.Graph(), x.DType()), compute.PadAxis{End: rows*group - n})
	}
	return Reshape(x, rows, group)
}

func lastColumn(x *Node) *Node {
	return Squeeze(SliceAxis(x, 1, AxisElem(x.Shape().Dimensions[1]-1)), 1)
}

// Positions returns the indices of the first k set elements of mask bool[N], in order, as int32 [k], and the number
// of all set elements, int32 scalar. If there are fewer than k, the remaining indices are N.
func Positions(mask *Node, k int) (positions, count *Node) {
	out := composite("positions", mask, []shapes.Shape{int32s(k), int32s()}, func(mask *Node) []*Node {
		find := searched
		if n := mask.Shape().Dimensions[0]; n <= 256 || k > n/8 {
			find = scattered
		}
		positions, count := find(mask, k)
		return []*Node{positions, count}
	})
	return out[0], out[1]
}

// Count returns how many elements of mask, bool of any shape, are set, int32 scalar.
func Count(mask *Node) *Node { return Reshape(CountRows(Reshape(mask, 1, mask.Shape().Size()))) }

// CountRows returns how many elements of each row of mask bool[R, N] are set, int32 [R].
func CountRows(mask *Node) *Node {
	return composite("count_rows", mask, []shapes.Shape{int32s(mask.Shape().Dimensions[0])},
		func(mask *Node) []*Node { return []*Node{countTrue(mask)} })[0]
}

// Owners returns which of N owners each of the first k elements belongs to, int32 [k]. ends, int32 [N], is the end
// (exclusive) of each owner's elements; the owner of an element is the first one whose end is beyond it, or N if
// there is none.
func Owners(ends *Node, k int) *Node {
	return composite("owners", ends, []shapes.Shape{int32s(k)}, func(ends *Node) []*Node {
		pairs := int32s(k, ends.Shape().Dimensions[0])
		isBefore := LessOrEqual(BroadcastToShape(InsertAxes(ends, 0), pairs), Iota(ends.Graph(), pairs, 0))
		return []*Node{countTrue(isBefore)}
	})[0]
}

// scattered is Positions by scattering the index of each set element to its rank. It costs a scatter of N elements.
func scattered(mask *Node, k int) (positions, count *Node) {
	g := mask.Graph()
	n := mask.Shape().Dimensions[0]
	set := ConvertDType(mask, dtypes.Int32)
	sums := sum(set)
	rank := SubScalar(sums, 1)
	wanted := LogicalAnd(mask, LessThan(rank, fill(rank, k)))
	to := Where(wanted, rank, ZerosLike(rank))
	index := Iota(g, int32s(n), 0)
	empty := BroadcastToDims(Scalar(g, dtypes.Int32, n), k)
	positions = ScatterSum(empty, InsertAxes(to, -1), Where(wanted, SubScalar(index, n), ZerosLike(index)), false,
		false)
	return positions, Reshape(SliceAxis(sums, 0, AxisElem(n-1)))
}

// searched is Positions by search: the mask is read once, into 32-bit words, and each of the k elements finds its
// word among the prefix sums of the words' bit counts, and then its bit in the word. The cost hardly grows with N.
func searched(mask *Node, k int) (positions, count *Node) {
	g := mask.Graph()
	n := mask.Shape().Dimensions[0]
	bits := groups(ConvertDType(mask, dtypes.Int32))
	words := ReduceSum(BitwiseShiftLeft(bits, Iota(g, bits.Shape(), 1)), 1)
	counts := BitCount(words)
	count = ReduceAllSum(counts)

	want := Iota(g, int32s(k), 0)
	word, rank := find(counts, want)
	// The bit is the one with rank set bits below it: count the prefixes of the word that have at most that many.
	lanes := int32s(k, group)
	value := BroadcastToShape(InsertAxes(gather(words, word), 1), lanes)
	drop := AddScalar(Neg(Iota(g, lanes, 1)), group-1) // Shifts out all but the lowest lane+1 bits.
	below := BitCount(BitwiseShiftLeft(value, drop))
	bit := countTrue(LessOrEqual(below, BroadcastToShape(InsertAxes(rank, 1), lanes)))
	found := LessThan(want, BroadcastToDims(count, k))
	return Where(found, Add(MulScalar(word, group), bit), fill(want, n)), count
}

// find looks up elements by rank: want, int32 [K], is a rank among all elements of buckets with counts, int32 [N],
// elements each. It returns the bucket and the rank within it; they are meaningless if there are not so many
// elements.
func find(counts, want *Node) (bucket, rank *Node) {
	n, k := counts.Shape().Dimensions[0], want.Shape().Dimensions[0]
	if n <= flat {
		sums := sum(counts)
		all := int32s(k, n)
		bucket = countTrue(LessOrEqual(BroadcastToShape(InsertAxes(sums, 0), all),
			BroadcastToShape(InsertAxes(want, 1), all)))
		return bucket, Sub(want, gather(Sub(sums, counts), bucket))
	}
	parts := groups(counts)
	sums := rowSums(parts)
	row, rest := find(lastColumn(sums), want)
	rows := gather(sums, row)
	column := countTrue(LessOrEqual(rows, BroadcastToShape(InsertAxes(rest, 1), rows.Shape())))
	bucket = Add(MulScalar(row, group), MinScalar(column, group-1))
	before := Reshape(Sub(sums, parts), parts.Shape().Size())
	return bucket, Sub(rest, gather(before, bucket))
}

// countTrue counts the set elements of each row.
func countTrue(mask *Node) *Node { return ReduceSum(ConvertDType(mask, dtypes.Int32), 1) }

// gather returns elements, or rows, of x; indices past the end return the last one.
func gather(x, indices *Node) *Node {
	return Gather(x, InsertAxes(MinScalar(indices, x.Shape().Dimensions[0]-1), -1))
}

func fill(like *Node, value int) *Node {
	return BroadcastToShape(Scalar(like.Graph(), like.DType(), value), like.Shape())
}
