package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// oneBits is the bit pattern of the float32 1, the largest e.
const oneBits = 0x3f800000

// search is the state of a threshold search: for each row the interval of bit patterns of e that holds the threshold.
// The bit patterns of non-negative floats are ordered as the floats are.
//
// A row is at work while Low + 1 < High, and left alone from then on, so its result doesn't depend on how many rounds
// other rows need.
type search struct {
	Low  *Node // i32[S], enough tokens are at or above it
	High *Node // i32[S], too few tokens are
}

func (s search) working() *Node {
	return GreaterThan(Sub(s.High, s.Low), Scalar(s.Low.Graph(), dtypes.Int32, 1))
}

func (s search) anyWorking() *Node {
	return ReduceLogicalOr(s.working())
}

// asFloat is the float32 number of a bit pattern.
func asFloat(bits *Node) *Node { return Bitcast(bits, dtypes.Float32) }

// threshold is the least e that all filters keep: f32[S].
func (v *vocabulary) threshold(e *Node, p Params, greedy *Node) *Node {
	lowest := BroadcastToDims(v.int32(int(smallestWeight)), v.rows)
	sampled := Not(greedy)

	limited := And(sampled, And(GreaterThan(p.TopK, v.int32(0)), LessThan(p.TopK, v.int32(v.size))))
	threshold := v.topK(e, p.TopK, limited, lowest)
	nucleus := And(sampled, LessThan(p.TopP, v.float32(1)))
	threshold = v.topP(e, p.TopP, nucleus, threshold)
	minP := Min(p.MinP, v.float32(1))
	minP = Where(And(sampled, GreaterThan(minP, v.float32(0))), minP, ZerosLike(minP))
	return Max(asFloat(threshold), minP)
}

// start is the search of the enabled rows from their lowest threshold; in the other rows that is the answer.
func (v *vocabulary) start(enabled, lowest *Node) search {
	return search{Low: lowest, High: Where(enabled, BroadcastToDims(v.int32(oneBits+1), v.rows), lowest)}
}

// topK finds for each enabled row the largest threshold that keeps at least k tokens; lowest where there is none.
func (v *vocabulary) topK(e, k, enabled, lowest *Node) *Node {
	end := control.While(v.start(enabled, lowest), search.anyWorking, func(s search) search {
		middle := v.middle(s)
		kept := ConvertDType(GreaterOrEqual(e, v.wide(asFloat(middle))), dtypes.Float32)
		count := ConvertDType(ReduceSum(ReduceSum(kept, -1), -1), dtypes.Int32)
		// With exactly k tokens the set is found, whatever the threshold between its last token and the next.
		return s.narrow(middle, GreaterOrEqual(count, k), Equal(count, k))
	})
	return end.Low
}

// nucleusSearch is the state of the search of top-p.
type nucleusSearch struct {
	Bounds   search
	LowMass  *Node // i64[S], the weight at or above Low
	HighMass *Node // i64[S], the weight at or above High
	Need     *Node // i64[S], the weight to keep; 0 until the first round has found the whole
}

// topP finds for each enabled row the largest threshold, not below lowest, that keeps at least topP of the weight at or
// above lowest.
func (v *vocabulary) topP(e, topP, enabled, lowest *Node) *Node {
	fraction := Mul(topP, v.float32(1<<32))
	fraction = ConvertDType(Where(enabled, fraction, ZerosLike(fraction)), dtypes.Int64)
	none := ConvertDType(ZerosLike(lowest), dtypes.Int64)
	one := Scalar(v.g, dtypes.Int64, 1)
	initial := nucleusSearch{Bounds: v.start(enabled, lowest), LowMass: none, HighMass: none, Need: none}
	end := control.While(initial, func(s nucleusSearch) *Node { return s.Bounds.anyWorking() }, func(s nucleusSearch) nucleusSearch {
		first := Equal(s.Need, none)
		middle := Where(first, s.Bounds.Low, v.middle(s.Bounds))
		mass := ReduceSum(sumWeights(masked(e, v.wide(asFloat(middle)))), -1)
		working := s.Bounds.working()

		need := Where(first, Max(mulHigh32(fraction, mass), one), s.Need)
		enough := GreaterOrEqual(mass, need)
		lowMass := Where(And(working, enough), mass, s.LowMass)
		highMass := Where(And(working, Not(enough)), mass, s.HighMass)
		next := s.Bounds.narrow(middle, enough, And(enough, Not(enough)))
		// Each token between the bounds weighs at least as much as Low does. If they weigh less than two of those
		// together, there is one token (or none), and no threshold between the bounds changes what is kept.
		lowWeight := weights(asFloat(next.Low))
		single := LessThan(Sub(lowMass, highMass), Mul(lowWeight, Scalar(v.g, dtypes.Int64, 2)))
		next.High = Where(And(working, single), next.Low, next.High)
		return nucleusSearch{Bounds: next, LowMass: lowMass, HighMass: highMass, Need: need}
	})
	return end.Bounds.Low
}

// middle is between the bounds, and different from both in rows at work.
func (v *vocabulary) middle(s search) *Node {
	return Add(s.Low, BitwiseShiftRightArithmetic(Sub(s.High, s.Low), v.int32(1)))
}

// narrow moves Low to middle in the rows at work with enough tokens at or above it, High in the others, and ends the
// search of rows that are found.
func (s search) narrow(middle, enough, found *Node) search {
	working := s.working()
	low := Where(And(working, enough), middle, s.Low)
	high := Where(And(working, Not(enough)), middle, s.High)
	return search{Low: low, High: Where(And(working, found), low, high)}
}

// mulHigh32 is floor(u * total / 2^32) for 0 <= u <= 2^32 and 0 <= total < 2^62, exactly.
func mulHigh32(u, total *Node) *Node {
	g := total.Graph()
	half := Scalar(g, dtypes.Int64, 32)
	mask := Scalar(g, dtypes.Int64, uint32(0xffffffff))
	upper := Mul(u, BitwiseShiftRightLogical(total, half))
	lower := BitwiseShiftRightLogical(Mul(u, BitwiseAnd(total, mask)), half)
	return Add(upper, lower)
}
