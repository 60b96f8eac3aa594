package admit

import (
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/schedule"
)

// FinishReason is why a completion ended.
type FinishReason string

// The reasons, as users of other engines know them.
const (
	FinishStop   FinishReason = "stop"   // an end-of-sequence or stop token, or a stop string
	FinishLength FinishReason = "length" // MaxTokens or MaxModelLen
	FinishError  FinishReason = "error"  // see Completion.Err
)

// Completion is one generated completion.
type Completion struct {
	Request    *Request
	Generation int
	schedule.Generated
	FinishReason FinishReason
	PromptTokens int
	// Vector is what an encoder made of the prompt: its pooled hidden states, not normalized. It is nil from an engine.
	Vector []float32
	// ChoiceLogprobs are the natural logarithms of the probabilities of Request.Choices after the prompt, in the
	// model's own distribution.
	ChoiceLogprobs []float64
	// Err is why the request could not be run, or did not end well. The job continues.
	Err error

	// Refused reports whether the completion stands for all completions of a request that was not run.
	Refused bool
}

// NewCompletion makes the completion that the caller gets.
func NewCompletion(c *schedule.Completion) *Completion {
	admitted := Of(c.Request)
	original := admitted.Asked
	out := &Completion{Request: original, Generation: c.Generation, Generated: c.Generated,
		PromptTokens: len(c.Request.Tokens)}
	switch {
	case c.Refused:
		out.PromptTokens = len(original.Tokens)
		out.FinishReason, out.Err, out.Refused = FinishError, c.Request.Err, true
	case c.Finish == schedule.NotANumber:
		out.FinishReason = FinishError
		if m := admitted.Masks; m != nil {
			if out.Err = m.DeadEnd(c.Generation); out.Err != nil {
				break
			}
		}
		out.Err = setting.Errorf("%w after %d tokens: the weights may not fit the dtype, try `dtype` float32",
			ErrNotANumber, len(c.Tokens))
	case c.Finish == schedule.AtLength:
		out.FinishReason = FinishLength
	default:
		out.FinishReason = FinishStop
	}
	return out
}
