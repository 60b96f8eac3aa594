package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// PenaltiesOf are the penalties of n rows, declared once for the device and for the host.
type PenaltiesOf[Floats any] struct {
	// Repetition f32[n] divides the positive logits of tokens of the prompt and of the completion, and multiplies their
	// other ones. 0 is a row without penalties, whatever the others are; 1 changes nothing.
	Repetition Floats
	// Frequency f32[n] is taken from the logit of a token for each time that the completion has it.
	Frequency Floats
	// Presence f32[n] is taken once from the logits of tokens that the completion has.
	Presence Floats
}

// Penalties are the penalties of rows on the device.
type Penalties = PenaltiesOf[*Node]

// What is known of a token of the vocabulary for the penalties of a row is one number, i32: [InPrompt] where the prompt
// has it, and [OneDrawn] for each time that the completion has it.
const (
	InPrompt = 1
	OneDrawn = 2
)

// Penalized says which rows have penalties, bool[n].
func Penalized(p Penalties) *Node { return GreaterThan(p.Repetition, ZerosLike(p.Repetition)) }

// Penalize returns the logits f32[n, V] after the penalties, for what is known of the tokens, seen i32[n, V]. Rows
// without penalties keep theirs, to the bit.
//
// The formulas are those of vLLM's apply_penalties, with the repetition penalty of transformers'
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
