package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// searchedBlocks is the number of blocks of each row that a threshold is searched in first. Unless the language model
// is unsure, they contain all tokens that a filter keeps.
const searchedBlocks = 128

// likelyBlocks are the blocks with the likeliest tokens of each row.
type likelyBlocks struct {
	all    *Node // f32[S, blocks, block], e
	e      *Node // f32[S, min(blocks, searchedBlocks), block], e of the likely blocks
	border *Node // i32[S], bit pattern: all tokens above it are in likely blocks; nil if all blocks are likely
}

func (v *vocabulary) likelyBlocks(e *Node) likelyBlocks {
	blocks := e.Shape().Dimensions[1]
	// On a TPU a pass over the whole vocabulary takes some microseconds, whereas sorts are slow, and take libtpu 20
	// seconds to compile.
	if blocks <= searchedBlocks || onTPU(v.g.Backend()) {
		return likelyBlocks{all: e, e: e}
	}
	// Combine the largest e of each block and the block's number in one integer.
	best := ConvertDType(Bitcast(ReduceMax(e, -1), dtypes.Int32), dtypes.Int64)
	number := Iota(v.g, best.Shape(), 1)
	packed := Add(Mul(best, Scalar(v.g, dtypes.Int64, 1<<32)), number)
	packed = Slice(Sort(packed, -1, false), AxisRange(), AxisRange(0, searchedBlocks+1))
	number = ConvertDType(BitwiseAnd(packed, Scalar(v.g, dtypes.Int64, 1<<32-1)), dtypes.Int32)
	best = ConvertDType(BitwiseShiftRightLogical(packed, Scalar(v.g, dtypes.Int64, 32)), dtypes.Int32)
	likely := Slice(number, AxisRange(), AxisRange(0, searchedBlocks))
	row := Mul(Iota(v.g, likely.Shape(), 0), v.int32(blocks))
	flat := Reshape(e, v.rows*blocks, v.block)
	return likelyBlocks{
		all:    e,
		e:      Gather(flat, InsertAxes(Add(likely, row), -1)),
		border: Reshape(Slice(best, AxisRange(), AxisElem(searchedBlocks)), v.rows),
	}
}

// searchFor defines the threshold that is searched for: the largest one at or above which there is at least the
// needed amount.
type searchFor struct {
	enabled *Node // bool[S], the rows to search in; the result for other rows is lowest
	// i32[S], bit pattern of the lowest threshold, which is the result if even that has less than needed
	lowest *Node
	need   *Node // i64[S], at least 1
	whole  *Node // i64[S], the amount at or above lowest, or more

	// amount returns the sum over the tokens of e [S, ., .] at or above a threshold f32[S, 1, 1]: i64[S].
	amount func(e, threshold *Node) *Node
	// least returns the smallest amount of a token at or above a threshold f32[S]: i64[S].
	least func(threshold *Node) *Node
}

// bounds is the state of a search: for each row the interval of bit patterns that contains the threshold.
//
// A row is active while Low + 1 < High, and unchanged afterwards, so its result does not depend on how many rounds
// other rows need.
type bounds struct {
	Low, High             *Node // i32[S]; at or above Low is enough, at or above High too little
	LowAmount, HighAmount *Node // i64[S], the amounts at or above Low and High
}

func (b bounds) working() *Node {
	return GreaterThan(Sub(b.High, b.Low), Scalar(b.Low.Graph(), dtypes.Int32, 1))
}

// search finds the thresholds, i32[S] bit patterns. The result is exact, and the same whether a row's threshold is
// found in its likely blocks, which is quick, or by the second loop over the whole vocabulary.
func (v *vocabulary) search(likely likelyBlocks, want searchFor) *Node {
	top := BroadcastToDims(v.int32(oneBits+1), v.rows)
	nothing := ZerosLike(want.need)
	if likely.border == nil {
		start := bounds{Low: want.lowest, High: Where(want.enabled, top, want.lowest), LowAmount: want.whole,
			HighAmount: nothing}
		return v.bisect(likely.all, start, want).Low
	}
	border := Max(want.lowest, Add(likely.border, v.int32(1)))
	atBorder := want.amount(likely.e, wide(asFloat(border)))
	above := And(want.enabled, GreaterOrEqual(atBorder, want.need))
	quick := v.bisect(likely.e, bounds{Low: border, High: Where(above, top, border), LowAmount: atBorder,
		HighAmount: nothing}, want).Low
	rest := bounds{Low: want.lowest, High: border, LowAmount: want.whole, HighAmount: atBorder}
	return v.bisectRows(likely.all, And(want.enabled, Not(above)), rest, want, Where(above, quick, want.lowest))
}

// rowGroup is the number of rows that are searched together over the whole vocabulary. It is small, so that only rows
// that need it cost time, and their e stays in the processor's cache.
const rowGroup = 8

// rowSearch is the state of bisectRows.
type rowSearch struct {
	Pending *Node // bool[S], the rows yet to be searched
	Found   *Node // i32[S], the results
}

// bisectRows searches the whole vocabulary for the pending rows, a group of rows at a time, and returns found with
// their results.
func (v *vocabulary) bisectRows(e, pendingRows *Node, start bounds, want searchFor, found *Node) *Node {
	group := min(rowGroup, v.rows)
	anyPending := func(s rowSearch) *Node { return ReduceLogicalOr(s.Pending) }
	end := control.While(rowSearch{pendingRows, found}, anyPending, func(s rowSearch) rowSearch {
		// The pending rows come first; if there are fewer than a group, other rows fill it and stay unchanged.
		rows := Iota(v.g, int32Vector(v.rows), 0)
		order := Sort(Where(s.Pending, rows, Add(rows, v.int32(v.rows))), 0, true)
		order = Slice(order, AxisRange(0, group))
		isPending := LessThan(order, v.int32(v.rows))
		index := InsertAxes(Where(isPending, order, Sub(order, v.int32(v.rows))), -1)
		pick := func(x *Node) *Node { return Gather(x, index) }

		part := want
		part.need = pick(want.need)
		low := pick(start.Low)
		answers := v.bisect(pick(e), bounds{
			Low:        low,
			High:       Where(isPending, pick(start.High), low),
			LowAmount:  pick(start.LowAmount),
			HighAmount: pick(start.HighAmount),
		}, part).Low

		same := Equal(InsertAxes(rows, -1), InsertAxes(order, 0))
		answers = BroadcastToDims(InsertAxes(answers, 0), v.rows, group)
		mine := ReduceLogicalOr(same, -1)
		return rowSearch{
			Pending: And(s.Pending, Not(mine)),
			Found:   Where(mine, ReduceSum(Where(same, answers, ZerosLike(answers)), -1), s.Found),
		}
	})
	return end.Found
}

// probesOnTPU is how many thresholds of each row are tried in a pass on a TPU, because a pass is bound by memory.
const probesOnTPU = 3

// bisect halves the bounds of all active rows until the kept tokens are known: when there is exactly the needed
// amount, or when less than twice a token's smallest amount, so at most one token, or no bit pattern, is between the
// bounds. On a TPU it quarters them.
func (v *vocabulary) bisect(e *Node, start bounds, want searchFor) bounds {
	probes := 1
	if onTPU(v.g.Backend()) {
		probes = probesOnTPU
	}
	start = start.endFound(want)
	return control.While(start, func(b bounds) *Node { return ReduceLogicalOr(b.working()) }, func(b bounds) bounds {
		between, next := Sub(b.High, b.Low), b
		for i := 1; i <= probes; i++ {
			probe := Add(b.Low, Div(Mul(between, v.int32(i)), v.int32(probes+1)))
			amount := want.amount(e, wide(asFloat(probe)))
			enough := GreaterOrEqual(amount, want.need)
			raise := And(b.working(), enough)
			next.Low, next.LowAmount = Where(raise, probe, next.Low), Where(raise, amount, next.LowAmount)
			// Amounts decrease from probe to probe, so the first probe that is too little ends the rest.
			lower := And(And(b.working(), Not(enough)), LessThan(probe, next.High))
			next.High, next.HighAmount = Where(lower, probe, next.High), Where(lower, amount, next.HighAmount)
		}
		return next.endFound(want)
	})
}

// endFound ends the search of rows whose Low already keeps the right tokens.
func (b bounds) endFound(want searchFor) bounds {
	two := Scalar(b.LowAmount.Graph(), dtypes.Int64, 2)
	single := LessThan(Sub(b.LowAmount, b.HighAmount), Mul(want.least(asFloat(b.Low)), two))
	b.High = Where(And(b.working(), Or(single, Equal(b.LowAmount, want.need))), b.Low, b.High)
	return b
}
