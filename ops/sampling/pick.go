package sampling

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// uniformBits returns the 64 random bits of each row, high word first: u32[S] each.
func uniformBits(key, positions *Node) (high, low *Node) {
	rows := key.Shape().Dimensions[0]
	word := func(i int) *Node { return Reshape(Slice(key, AxisRange(), AxisElem(i)), rows) }
	counter := Bitcast(positions, dtypes.Uint32)
	return threefryGraph(word(0), word(1), counter, ZerosLike(counter))
}

// mulHigh returns floor(u * total / 2^64) for the 64-bit number u = (high, low) and 0 < total < 2^62, exactly: a
// number in [0, total).
func mulHigh(high, low, total *Node) *Node {
	g := total.Graph()
	half := Scalar(g, dtypes.Int64, 32)
	mask := Scalar(g, dtypes.Int64, uint32(0xffffffff))
	shift := func(x *Node) *Node { return BitwiseShiftRightLogical(x, half) }
	high, low = ConvertDType(high, dtypes.Int64), ConvertDType(low, dtypes.Int64)
	a, b := shift(total), BitwiseAnd(total, mask)
	// high * total = upper * 2^32 + lower, if the product of two 32-bit words is read as unsigned.
	hb := Mul(high, b)
	upper, lower := Add(Mul(high, a), shift(hb)), BitwiseAnd(hb, mask)
	carry := Add(Mul(low, a), shift(Mul(low, b)))
	return Add(upper, shift(Add(lower, carry)))
}

// The most entries that pick compares at once; longer rows are picked in two levels. On a TPU each operation takes at
// least a microsecond, and comparing all pairs of a block takes little more.
const (
	widestPick      = 16
	widestPickOnTPU = blockSizeOfTPU
)

// pick inverts the cumulative sums of integer weights w i64[S, N]: it returns for each row the index i32[S] of the
// entry that contains target, the first i with w[0] + ... + w[i] > target, and the rest of target inside that entry,
// i64[S]. If 0 <= target < sum(w), the entry's weight is not 0.
func pick(w, target *Node) (index, rest *Node) {
	rows, n := w.Shape().Dimensions[0], w.Shape().Dimensions[1]
	if n == 1 {
		return Zeros(w.Graph(), int32Vector(rows)), target
	}
	if n <= widestPick || n <= widestPickOnTPU && onTPU(w.Graph().Backend()) {
		return pickFlat(w, target)
	}
	chunk := 8
	for chunk*chunk < n {
		chunk += 8
	}
	chunks := (n + chunk - 1) / chunk
	if padding := chunks*chunk - n; padding > 0 {
		w = Pad(w, Scalar(w.Graph(), dtypes.Int64, 0), compute.PadAxis{}, compute.PadAxis{End: padding})
	}
	w = Reshape(w, rows, chunks, chunk)
	outer, target := pick(ReduceSum(w, -1), target)
	inner, rest := pick(takeRows(w, outer), target)
	return Add(Mul(outer, Scalar(w.Graph(), dtypes.Int32, chunk)), inner), rest
}

func pickFlat(w, target *Node) (index, rest *Node) {
	g := w.Graph()
	rows, n := w.Shape().Dimensions[0], w.Shape().Dimensions[1]
	zero := Scalar(g, dtypes.Int64, 0)
	square := shapes.Make(dtypes.Int32, 1, n, n)
	upTo := LessOrEqual(Iota(g, square, 2), Iota(g, square, 1))
	upTo = BroadcastToDims(upTo, rows, n, n)
	each := BroadcastToDims(Reshape(w, rows, 1, n), rows, n, n)
	prefix := ReduceSum(Where(upTo, each, zero), -1)
	before := LessOrEqual(prefix, Reshape(target, rows, 1))
	index = ReduceSum(ConvertDType(before, dtypes.Int32), -1)
	// Clamped for rows without a distribution, whose target is meaningless.
	index = Min(index, Scalar(g, dtypes.Int32, n-1))
	return index, Sub(target, ReduceMax(Where(before, prefix, zero), -1))
}

// takeRows returns x[s, index[s]] of x [S, N, M], for index i32[S]: [S, M].
func takeRows(x, index *Node) *Node {
	g := x.Graph()
	rows, n, m := x.Shape().Dimensions[0], x.Shape().Dimensions[1], x.Shape().Dimensions[2]
	if onTPU(g.Backend()) { // a gather would rewrite all of x in a different memory order
		return Gather(x, Stack([]*Node{Iota(g, int32Vector(rows), 0), index}, -1))
	}
	flat := Add(index, Mul(Iota(g, int32Vector(rows), 0), Scalar(g, dtypes.Int32, n)))
	return Gather(Reshape(x, rows*n, m), InsertAxes(flat, -1))
}

// takeElements returns x[s, index[s]] of x [S, N], for index i32[S]: [S].
func takeElements(x, index *Node) *Node {
	rows, n := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	return Reshape(takeRows(Reshape(x, rows, n, 1), index), rows)
}

func int32Vector(n int) shapes.Shape { return shapes.Make(dtypes.Int32, n) }
