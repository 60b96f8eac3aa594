package sampling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Processors change the logits of rows before a token is sampled. A program has the ones that its features need; the
// other fields are nil. They apply in the order of the fields: see "Order" in the package documentation.
type Processors struct {
	Biases    *Biases
	Penalties *Penalties
	Seen      *Node // i32[S, V]: see Penalize
	DRY       *DRY
	NoRepeat  *NoRepeat
	Forced    *Node // i32[S]: the only token that is allowed, -1 for none
	// Masks are not applied by Apply, because neither biases nor penalties change which tokens they allow.
	Masks   Masks
	Filters *Filters
}

// Changes returns which rows have logits that may be changed, or filters, bool[S]; nil if there are no processors.
func (p Processors) Changes() *Node {
	var changes *Node
	also := func(rows *Node) {
		if changes == nil {
			changes = rows
		} else {
			changes = Or(changes, rows)
		}
	}
	if p.Biases != nil {
		also(p.Biases.Has)
	}
	if p.Penalties != nil {
		also(Penalized(*p.Penalties))
	}
	if p.DRY != nil {
		also(HasDRY(p.DRY.DRYOf))
	}
	if p.NoRepeat != nil {
		also(p.NoRepeat.isOn())
	}
	if p.Filters != nil {
		also(Filtered(*p.Filters))
	}
	if p.Forced != nil {
		also(isForced(p.Forced))
	}
	return changes
}

// Apply returns the logits after biases, penalties, DRY, forbidden repetitions and forced tokens, f32[S, V]. Rows
// without any of them keep their logits, bit for bit.
func (p Processors) Apply(logits *Node) *Node {
	logits = ConvertDType(logits, dtypes.Float32)
	if p.Biases != nil {
		logits = AddBiases(logits, *p.Biases)
	}
	if p.Penalties != nil {
		logits = Penalize(logits, *p.Penalties, p.Seen)
	}
	if p.DRY != nil {
		logits = p.DRY.penalizeRepeats(logits)
	}
	if p.NoRepeat != nil {
		logits = p.NoRepeat.forbid(logits, p.Forced)
	}
	if p.Forced != nil {
		logits = force(logits, p.Forced)
	}
	return logits
}

// SampleProcessed is [SampleBarred] after processors; there must be at least one. Rows that use none of them sample as
// by SampleBarred, bit for bit. For other rows, logprobs are exactly log softmax(logits)[token] of the logits before
// the processors, and processed is computed from the distribution that was sampled from. Filters apply to the tokens
// that are neither masked nor barred, after biases and penalties.
func SampleProcessed(logits *Node, by Processors, p Params, positions, rows, barred *Node) (tokens, logprobs,
	processed *Node) {
	g := logits.Graph()
	if only := (Processors{Masks: by.Masks, Filters: by.Filters}); only == by {
		return sampleBarred(logits, by.Masks, by.Filters, p, positions, rows, barred)
	}
	// Greedy rows have a logprob of 0 - log(sum of exp(logit - max)).
	greedy := p
	greedy.Temperature = ZerosLike(p.Temperature)
	best, sum, _ := Sample(logits, greedy, positions, rows)
	tokens, logprobs, processed = sampleBarred(by.Apply(logits), by.Masks, by.Filters, p, positions, rows, barred)

	logitOf := func(tokens *Node) *Node { return Squeeze(logitsAt(logits, InsertAxes(tokens, -1)), -1) }
	exact := Add(Sub(logitOf(tokens), logitOf(best)), sum)
	exact = Where(GreaterOrEqual(tokens, Scalar(g, dtypes.Int32, 0)), exact, ZerosLike(exact))
	return tokens, Where(by.Changes(), exact, logprobs), processed
}
