package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// SampleBarred is [SampleMasked] with tokens that rows must not sample. barred i32[S, K] lists each row's tokens,
// each token once; ids outside the vocabulary are ignored.
//
// A row samples as if the logits of its barred tokens were -Inf, and its processed log-probabilities are computed
// likewise. Its logprobs are computed from all of its logits, bit for bit. Rows without barred tokens sample as by
// [Sample], bit for bit.
//
// The barred logits are overwritten in place, so nothing else may use the logits.
func SampleBarred(logits *Node, m Masks, p Params, positions, rows, barred *Node) (tokens, logprobs,
	processed *Node) {
	return sampleBarred(logits, m, nil, p, positions, rows, barred)
}

// sampleBarred is SampleBarred for rows with filters, which apply to the tokens that are neither masked nor barred; f
// may be nil.
func sampleBarred(logits *Node, m Masks, f *Filters, p Params, positions, rows, barred *Node) (tokens, logprobs,
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
	raw := rawOf(logits, p, positions, rows, ReduceLogicalOr(bars))
	// In place, because nothing reads the logits of all tokens afterwards. The indices depend on raw, so that raw is
	// computed first.
	never := GreaterThan(raw.Sum, FillScalar(g, raw.Sum.Shape(), math.Inf(1)))
	never = BroadcastToDims(InsertAxes(never, -1), barred.Shape().Dimensions...)
	masked := forbidAfter(logits, barred, ConvertDType(never, dtypes.Int32))
	tokens, logprobs, processed = sampleFiltered(masked, m, f, p, positions, rows)

	zero := ZerosLike(logprobs)
	drawn := Squeeze(logitsAt(masked, InsertAxes(tokens, -1)), -1)
	some := GreaterOrEqual(tokens, ZerosLike(tokens))
	valid := LogicalAnd(some, GreaterOrEqual(raw.Best, ZerosLike(tokens))) // a NaN is never barred
	tokens = Where(LogicalAnd(bars, LogicalNot(valid)), FillScalar(g, tokens.Shape(), -1), tokens)
	logprobs = Where(bars, Where(valid, Add(Sub(drawn, raw.Top), raw.Sum), zero), logprobs)
	processed = Where(LogicalOr(LogicalNot(bars), valid), processed, zero)
	return tokens, logprobs, processed
}

// raw has what log-probabilities under all logits are computed from: log softmax(logits)[i] is logits[i] - Top + Sum,
// bit for bit as in [Sample].
type raw struct {
	Best *Node // i32[S]: the likeliest token, -1 without a distribution
	Top  *Node // f32[S]: its logit
	Sum  *Node // f32[S]: its log-probability
}

// rawOf computes raw if wanted, bool[], holds.
func rawOf(logits *Node, p Params, positions, rows, wanted *Node) raw {
	return control.If(wanted, func() (r raw) {
		greedy := p
		greedy.Temperature = ZerosLike(p.Temperature)
		r.Best, r.Sum, _ = Sample(logits, greedy, positions, rows)
		r.Top = Squeeze(logitsAt(logits, InsertAxes(r.Best, -1)), -1)
		return r
	}, func() raw {
		none := ZerosLike(p.Temperature)
		return raw{Best: ZerosLike(positions), Top: none, Sum: none}
	})
}

// logitsAt returns the logits of some tokens of each row, f32[S, K] for tokens i32[S, K]; for ids outside the
// vocabulary it returns token 0's logit.
func logitsAt(logits, tokens *Node) *Node {
	size := float64(logits.Shape().Dimensions[1])
	ok := LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)), LessThan(tokens, AddScalar(ZerosLike(tokens), size)))
	indices := Stack([]*Node{Iota(logits.Graph(), tokens.Shape(), 0), Where(ok, tokens, ZerosLike(tokens))}, -1)
	return ConvertDType(Gather(logits, indices), dtypes.Float32)
}

// isToken reports which of tokens i32[S, K] are in the vocabulary.
func isToken(logits, tokens *Node) *Node {
	size := FillScalar(tokens.Graph(), tokens.Shape(), float64(logits.Shape().Dimensions[1]))
	return LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)), LessThan(tokens, size))
}

// forbidAfter sets the logits of the barred tokens to -Inf, after after, i32[S, K] of zeros, was computed. On a TPU it
// compares all tokens: overwriting some would rewrite all logits in a different memory order.
func forbidAfter(logits, barred, after *Node) *Node {
	g := logits.Graph()
	if onTPU(g.Backend()) {
		token := Iota(g, shapes.Make(dtypes.Int32, logits.Shape().Dimensions...), 1)
		for k := range barred.Shape().Dimensions[1] {
			one := BroadcastToDims(SliceAxis(barred, 1, AxisElem(k)), token.Shape().Dimensions...)
			logits = Where(Equal(token, one), FillScalar(g, logits.Shape(), math.Inf(-1)), logits)
		}
		return logits
	}
	isBarred := isToken(logits, barred)
	size, vocabulary := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	row := Iota(g, barred.Shape(), 0)
	place := Where(isBarred, Add(MulScalar(row, float64(vocabulary)), barred), FillScalar(g, barred.Shape(), -1))
	place = Reshape(Add(place, after), barred.Shape().Size())
	none := FillScalar(g, shapes.Make(logits.DType(), place.Shape().Size()), math.Inf(-1))
	return Reshape(control.ScatterSet(Reshape(logits, size*vocabulary), place, none), size, vocabulary)
}
