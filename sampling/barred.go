package sampling

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// SampleBarred is [Sample] where rows may not draw some tokens. barred i32[S, K] are those of each row, each of them
// once; what is not of the vocabulary is none.
//
// A row draws as if the logits of its barred tokens were -Inf, and its processed log-probabilities are so too. Its
// logprobs are those of all of its logits, to the bit, as [Sample] gives them. Where no row bars a token nothing passes
// over the logits.
func SampleBarred(logits *Node, p Params, positions, rows, barred *Node) (tokens, logprobs, processed *Node) {
	g := logits.Graph()
	size := logits.Shape().Dimensions[0]
	if barred.Rank() != 2 || barred.DType() != dtypes.Int32 || barred.Shape().Dimensions[0] != size {
		panic(fmt.Errorf("sampling.SampleBarred: barred must be i32[%d, tokens], got %s", size, barred.Shape()))
	}
	if logits.Shape().Size() > math.MaxInt32 {
		panic(fmt.Errorf("sampling.SampleBarred: logits %s are more than can be indexed", logits.Shape()))
	}
	isBarred := LogicalAnd(GreaterOrEqual(barred, ZerosLike(barred)),
		LessThan(barred, FillScalar(g, barred.Shape(), float64(logits.Shape().Dimensions[1]))))
	bars := ReduceLogicalOr(isBarred, -1)
	scores := shapes.Make(dtypes.Float32, size)
	type state struct {
		Logits *Node
		Top    *Node // i32[S]: the most likely of all tokens; -1 where there is none
		Max    *Node // f32[S]: its logit
		Base   *Node // f32[S]: its log-probability
		Todo   *Node // bool[]
	}
	all := state{Logits: logits, Top: Zeros(g, shapes.Make(dtypes.Int32, size)), Max: Zeros(g, scores),
		Base: Zeros(g, scores), Todo: ReduceLogicalOr(bars)}
	// A loop that runs once or no time: a branch would copy the logits.
	left := control.While(all, func(s state) *Node { return s.Todo }, func(s state) state {
		greedy := p
		greedy.Temperature = ZerosLike(p.Temperature)
		s.Top, s.Base, _ = Sample(s.Logits, greedy, positions, rows)
		s.Max = logitsOf(s.Logits, s.Top)
		s.Logits = bar(s.Logits, barred, isBarred)
		s.Todo = LogicalNot(s.Todo)
		return s
	})
	tokens, logprobs, processed = Sample(left.Logits, p, positions, rows)
	valid := LogicalAnd(GreaterOrEqual(tokens, ZerosLike(tokens)), GreaterOrEqual(left.Top, ZerosLike(tokens)))
	ofAll := Add(Sub(logitsOf(left.Logits, tokens), left.Max), left.Base)
	tokens = Where(LogicalAnd(bars, LogicalNot(valid)), FillScalar(g, tokens.Shape(), -1), tokens)
	zero := ZerosLike(logprobs)
	logprobs = Where(bars, Where(valid, ofAll, zero), logprobs)
	processed = Where(LogicalOr(LogicalNot(bars), valid), processed, zero)
	return tokens, logprobs, processed
}

// logitsOf returns the logit of a token of each row, f32[S]; that of token 0 for a negative one.
func logitsOf(logits, tokens *Node) *Node {
	at := Stack([]*Node{Iota(logits.Graph(), tokens.Shape(), 0), Max(tokens, ZerosLike(tokens))}, -1)
	return ConvertDType(Gather(logits, at), dtypes.Float32)
}

// bar sets the logits of the barred tokens to -Inf.
func bar(logits, barred, isBarred *Node) *Node {
	g := logits.Graph()
	size, vocabulary := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	row := Iota(g, barred.Shape(), 0)
	place := Where(isBarred, Add(MulScalar(row, float64(vocabulary)), barred), FillScalar(g, barred.Shape(), -1))
	place = Reshape(place, barred.Shape().Size())
	none := FillScalar(g, shapes.Make(logits.DType(), place.Shape().Size()), math.Inf(-1))
	return Reshape(control.ScatterSet(Reshape(logits, size*vocabulary), place, none), size, vocabulary)
}
