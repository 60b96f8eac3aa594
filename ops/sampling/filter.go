package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// oneBits is the bit pattern of the float32 1, the largest e. The bit patterns of non-negative floats are ordered
// like the floats, so thresholds are searched for among the bit patterns.
const oneBits = 0x3f800000

// asFloat returns the float32 number of a bit pattern.
func asFloat(bits *Node) *Node { return Bitcast(bits, dtypes.Float32) }

// threshold returns the smallest e that all filters keep: f32[S]. It calls e only if it has to search.
func (v *vocabulary) threshold(e func() *Node, p Params, greedy *Node) *Node {
	lowest := BroadcastToDims(v.int32(int(smallestWeight)), v.rows)
	sampled := Not(greedy)
	limited := And(sampled, And(GreaterThan(p.TopK, v.int32(0)), LessThan(p.TopK, v.int32(v.size))))
	nucleus := And(sampled, LessThan(p.TopP, v.float32(1)))
	searched := when(ReduceLogicalOr(Or(limited, nucleus)), lowest, func(lowest *Node) *Node {
		likely := v.likelyBlocks(e())
		return v.topP(likely, p.TopP, nucleus, v.topK(likely, p.TopK, limited, lowest))
	})
	minP := Min(p.MinP, v.float32(1))
	minP = Where(And(sampled, GreaterThan(minP, v.float32(0))), minP, ZerosLike(minP))
	return Max(asFloat(searched), minP)
}

// topK finds for each enabled row the largest threshold that keeps at least k tokens; lowest if there is none.
func (v *vocabulary) topK(likely likelyBlocks, k, enabled, lowest *Node) *Node {
	return v.search(likely, searchFor{
		enabled: enabled,
		lowest:  lowest,
		need:    ConvertDType(k, dtypes.Int64),
		whole:   BroadcastToDims(Scalar(v.g, dtypes.Int64, v.size), v.rows),
		amount: func(e, threshold *Node) *Node {
			kept := ConvertDType(GreaterOrEqual(e, threshold), dtypes.Float32)
			return ConvertDType(ReduceSum(ReduceSum(kept, -1), -1), dtypes.Int64)
		},
		least: func(threshold *Node) *Node { return ConvertDType(OnesLike(threshold), dtypes.Int64) },
	})
}

// topP finds for each enabled row the largest threshold, not below lowest, that keeps at least topP of the weight at or
// above lowest.
func (v *vocabulary) topP(likely likelyBlocks, topP, enabled, lowest *Node) *Node {
	amount := func(e, threshold *Node) *Node { return ReduceSum(sumWeightsFrom(e, threshold), -1) }
	return when(ReduceLogicalOr(enabled), lowest, func(lowest *Node) *Node {
		whole := amount(likely.all, wide(asFloat(lowest)))
		fraction := Where(enabled, Mul(topP, v.float32(1<<32)), ZerosLike(topP))
		need := mulHigh32(ConvertDType(fraction, dtypes.Int64), whole)
		return v.search(likely, searchFor{
			enabled: enabled,
			lowest:  lowest,
			need:    Max(need, OnesLike(need)),
			whole:   whole,
			amount:  amount,
			least:   weights,
		})
	})
}

// when returns f(value) if pred holds, else value. f must return value if pred does not hold: the branch only saves
// time.
func when(pred, value *Node, f func(*Node) *Node) *Node {
	return control.If(pred, func() *Node { return f(value) }, func() *Node { return value })
}

// mulHigh32 returns floor(u * total / 2^32) for 0 <= u <= 2^32 and 0 <= total < 2^62, exactly.
func mulHigh32(u, total *Node) *Node {
	g := total.Graph()
	half := Scalar(g, dtypes.Int64, 32)
	mask := Scalar(g, dtypes.Int64, uint32(0xffffffff))
	upper := Mul(u, BitwiseShiftRightLogical(total, half))
	lower := BitwiseShiftRightLogical(Mul(u, BitwiseAnd(total, mask)), half)
	return Add(upper, lower)
}
