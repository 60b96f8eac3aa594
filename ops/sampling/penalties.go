package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// PenaltiesOf has the penalties of n rows, declared once for the device and for the host.
type PenaltiesOf[Floats any] struct {
	// Repetition f32[n] divides the positive logits of tokens in the prompt and the completion, and multiplies their
	// other logits. 0 marks a row without penalties, for which the other fields are ignored; 1 changes nothing.
	Repetition Floats
	// Frequency f32[n] is subtracted from the logit of a token for each time that it occurs in the completion.
	Frequency Floats
	// Presence f32[n] is subtracted once from the logits of tokens that occur in the completion.
	Presence Floats
}

// Penalties are the penalties of rows on the device.
type Penalties = PenaltiesOf[*Node]

// The occurrences of a token that matter for a row's penalties are one number, i32: [InPrompt] if it is in the
// prompt, plus [OneDrawn] for each time that it occurs in the completion.
const (
	InPrompt = 1
	OneDrawn = 2
)

// Penalized returns which rows have penalties, bool[n].
func Penalized(p Penalties) *Node { return GreaterThan(p.Repetition, ZerosLike(p.Repetition)) }

// Penalize returns the logits f32[n, V] after the penalties, given the occurrences of tokens, seen i32[n, V]. Rows
// without penalties keep their logits, bit for bit.
//
// The formulas are vLLM's apply_penalties, with the repetition penalty of transformers'
// RepetitionPenaltyLogitsProcessor: first that, then the frequency penalty, then the presence penalty.
func Penalize(logits *Node, p Penalties, seen *Node) *Node {
	g := logits.Graph()
	like := logits.Shape().Dimensions
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), like...) }
	number := func(x int) *Node { return Scalar(g, dtypes.Int32, x) }
	isPositive := GreaterThan(logits, ZerosLike(logits))
	repetition := wide(p.Repetition)
	after := Where(isPositive, Div(logits, repetition), Mul(logits, repetition))
	after = Where(GreaterThan(seen, ZerosLike(seen)), after, logits)

	times := ConvertDType(BitwiseShiftRightArithmetic(seen, number(1)), dtypes.Float32)
	less := Sub(Sub(after, Mul(wide(p.Frequency), times)), wide(p.Presence))
	after = Where(GreaterOrEqual(seen, number(OneDrawn)), less, after)
	return Where(wide(Penalized(p)), after, logits)
}
