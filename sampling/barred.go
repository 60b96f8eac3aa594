package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// SampleBarred is [SampleMasked] where rows may not draw some tokens. barred i32[S, K] are those of each row, each of
// them once; what is not of the vocabulary is none.
//
// A row draws as if the logits of its barred tokens were -Inf, and its processed log-probabilities are so too. Its
// logprobs are those of all of its logits, but for rounding. Rows that bar no token draw as by [Sample], to the bit.
//
// The barred logits are overwritten in place, so that the logits must not be used by anything else.
func SampleBarred(logits *Node, m Masks, p Params, positions, rows, barred *Node) (tokens, logprobs,
	processed *Node) {
	g := logits.Graph()
	size := logits.Shape().Dimensions[0]
	if barred.Rank() != 2 || barred.DType() != dtypes.Int32 || barred.Shape().Dimensions[0] != size {
		panic(fmt.Errorf("sampling.SampleBarred: barred must be i32[%d, tokens], got %s", size, barred.Shape()))
	}
	if logits.Shape().Size() > math.MaxInt32 {
		panic(fmt.Errorf("sampling.SampleBarred: logits %s are more than can be indexed", logits.Shape()))
	}
	isBarred := isToken(logits, barred)
	bars := ReduceLogicalOr(isBarred, -1)
	held := logitsAt(logits, barred)
	infinity := FillScalar(g, held.Shape(), math.Inf(1))
	// In place, since nothing reads the logits of all tokens any more: so that held is read first, the places depend on
	// it.
	masked := barAfter(logits, barred, ConvertDType(GreaterThan(held, infinity), dtypes.Int32))
	tokens, logprobs, processed = SampleMasked(masked, m, p, positions, rows)

	// What the barred tokens add to the sum of exp(logit), as logarithms of the share of the others' sum. They are
	// taken from the drawn token's logit first: the difference of large logits is exact.
	zero := ZerosLike(logprobs)
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), held.Shape().Dimensions...) }
	drawn := Squeeze(logitsAt(masked, InsertAxes(tokens, -1)), -1)
	shares := Where(isBarred, Add(Sub(held, wide(drawn)), wide(logprobs)), FillScalar(g, held.Shape(), math.Inf(-1)))
	most := Max(ReduceMax(shares, -1), zero)
	more := Add(Log(Add(ReduceSum(Exp(Sub(shares, wide(most))), -1), Exp(Neg(most)))), most)
	valid := LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)), GreaterOrEqual(more, zero)) // no NaN is barred
	tokens = Where(LogicalAnd(bars, LogicalNot(valid)), FillScalar(g, tokens.Shape(), -1), tokens)
	logprobs = Where(bars, Where(valid, Sub(logprobs, more), zero), logprobs)
	processed = Where(LogicalOr(LogicalNot(bars), valid), processed, zero)
	return tokens, logprobs, processed
}

// logitsAt returns the logits of some tokens of each row, f32[S, K] for tokens i32[S, K]; that of token 0 for those
// that are not of the vocabulary.
func logitsAt(logits, tokens *Node) *Node {
	size := float64(logits.Shape().Dimensions[1])
	ok := LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)), LessThan(tokens, AddScalar(ZerosLike(tokens), size)))
	at := Stack([]*Node{Iota(logits.Graph(), tokens.Shape(), 0), Where(ok, tokens, ZerosLike(tokens))}, -1)
	return ConvertDType(Gather(logits, at), dtypes.Float32)
}

// isToken says which of tokens i32[S, K] are of the vocabulary.
func isToken(logits, tokens *Node) *Node {
	size := FillScalar(tokens.Graph(), tokens.Shape(), float64(logits.Shape().Dimensions[1]))
	return LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)), LessThan(tokens, size))
}

// bar sets the logits of the barred tokens to -Inf.
func bar(logits, barred *Node) *Node { return barAfter(logits, barred, ZerosLike(barred)) }

// barAfter is bar once after, i32[S, K] of zeros, is there.
func barAfter(logits, barred, after *Node) *Node {
	g := logits.Graph()
	isBarred := isToken(logits, barred)
	size, vocabulary := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	row := Iota(g, barred.Shape(), 0)
	place := Where(isBarred, Add(MulScalar(row, float64(vocabulary)), barred), FillScalar(g, barred.Shape(), -1))
	place = Reshape(Add(place, after), barred.Shape().Size())
	none := FillScalar(g, shapes.Make(logits.DType(), place.Shape().Size()), math.Inf(-1))
	return Reshape(control.ScatterSet(Reshape(logits, size*vocabulary), place, none), size, vocabulary)
}
