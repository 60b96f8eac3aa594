// Package scan holds the two parallel primitives that the tables are built from: prefix sums, and the positions of the set
// elements of a mask. Both are made of whole-array operations, with no serial loop, and run on every backend.
package scan

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// blocked is the length from which Sum works in blocks: below it the plain doubling form is the fastest on XLA:CPU.
const (
	blocked   = 1024
	blockSize = 32
)

// Sum returns the inclusive prefix sums of x, an integer vector [N] with N > 0.
//
// It adds x to itself shifted by 1, 2, 4, ... (Hillis and Steele, "Data parallel algorithms", 1986); long vectors are summed in
// blocks, whose totals are then summed the same way.
func Sum(x *Node) *Node {
	n := x.Shape().Dimensions[0]
	if n <= blocked {
		return rowSums(x)
	}
	blocks := (n + blockSize - 1) / blockSize
	padded := Pad(x, ScalarZero(x.Graph(), x.DType()), compute.PadAxis{End: blocks*blockSize - n})
	inner := rowSums(Reshape(padded, blocks, blockSize))
	totals := Reshape(SliceAxis(inner, 1, AxisElem(blockSize-1)), blocks)
	before := Sub(Sum(totals), totals)
	all := Add(inner, BroadcastToDims(InsertAxes(before, 1), blocks, blockSize))
	return SliceAxis(Reshape(all, blocks*blockSize), 0, AxisRangeFromStart(n))
}

// Before returns the exclusive prefix sums of x, an integer vector [N]: element i is the sum of those before it.
func Before(x *Node) *Node { return Sub(Sum(x), x) }

// rowSums is the doubling form along the last axis.
func rowSums(x *Node) *Node {
	axis := x.Rank() - 1
	zero := ScalarZero(x.Graph(), x.DType())
	n := x.Shape().Dimensions[axis]
	for shift := 1; shift < n; shift *= 2 {
		pads := make([]compute.PadAxis, x.Rank())
		pads[axis] = compute.PadAxis{Start: shift}
		x = Add(x, Pad(SliceAxis(x, axis, AxisRangeFromStart(n-shift)), zero, pads...))
	}
	return x
}

// Positions returns the indices of the first k set elements of mask bool[N], in order, as int32 [k], and their number in all,
// int32 scalar. Where there are fewer than k, the rest is N.
//
// The mask is read once, into words of 32 bits; the k-th set bit is then found by a binary search over the prefix sums of the
// words' bit counts and another within the word. So a long mask costs one pass.
func Positions(mask *Node, k int) (positions, count *Node) {
	g := mask.Graph()
	n := mask.Shape().Dimensions[0]
	words := (n + 31) / 32
	bits := ConvertDType(mask, dtypes.Int32)
	if words*32 != n {
		bits = Pad(bits, ScalarZero(g, dtypes.Int32), compute.PadAxis{End: words*32 - n})
	}
	lanes := Iota(g, shapes.Make(dtypes.Int32, words, 32), 1)
	word := ReduceSum(BitwiseShiftLeft(Reshape(bits, words, 32), lanes), 1)
	sums := Sum(BitCount(word))
	count = Reshape(SliceAxis(sums, 0, AxisElem(words-1)))

	want := Iota(g, shapes.Make(dtypes.Int32, k), 0) // Rank looked for, from 0.
	// w: number of words whose prefix sum is <= want, that is, the word that holds the bit.
	w := ZerosLike(want)
	for step := highestPower(words); step >= 1; step /= 2 {
		next := AddScalar(w, step)
		sum := Gather(sums, InsertAxes(MinScalar(AddScalar(next, -1), words-1), -1))
		w = Where(LogicalAnd(LessOrEqual(next, fill(want, words)), LessOrEqual(sum, want)), next, w)
	}
	found := LessThan(w, fill(want, words))
	at := InsertAxes(MinScalar(w, words-1), -1)
	value := Gather(word, at)
	rank := Sub(want, Sub(Gather(sums, at), BitCount(value))) // Rank within the word.
	bit := ZerosLike(want)
	for step := 16; step >= 1; step /= 2 {
		next := AddScalar(bit, step)
		below := BitCount(BitwiseAnd(value, AddScalar(BitwiseShiftLeft(OnesLike(next), next), -1)))
		bit = Where(LessOrEqual(below, rank), next, bit)
	}
	positions = Where(found, Add(MulScalar(w, 32), bit), fill(want, n))
	return positions, count
}

// highestPower returns the largest power of two that is at most n.
func highestPower(n int) int {
	p := 1
	for p*2 <= n {
		p *= 2
	}
	return p
}

func fill(like *Node, value int) *Node {
	return BroadcastToShape(Scalar(like.Graph(), like.DType(), value), like.Shape())
}
