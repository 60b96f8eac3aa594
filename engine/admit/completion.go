package admit

import (
	"fmt"

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
	// Tokens are the generated tokens, including the stop token that ended them, if one did.
	Tokens []int32
	// Text is the text of Tokens without special tokens, up to the stop string or the token that ended the completion,
	// or as the request asks for; empty without a tokenizer.
	Text string
	// Logprobs are of the chosen tokens under the model's own distribution; ProcessedLogprobs under the one that was
	// sampled from, after temperature and filters. Natural logarithms.
	Logprobs, ProcessedLogprobs []float32
	// TopIDs and TopLogprobs are of the likeliest tokens at the place of each of Tokens, the likeliest first, of equal
	// ones the lowest id, under the model's own distribution; nil without Request.TopLogprobs.
	TopIDs      [][]int32
	TopLogprobs [][]float32
	// Measures are of the distribution of each of Tokens; nil for those that Config.Features lacks.
	Measures     [schedule.NumMeasures][]float32
	Prompt       *schedule.Scores // nil without Request.ScorePrompt
	FinishReason FinishReason
	PromptTokens int
	// Err is why the request could not be run, or did not end well. The job continues.
	Err error

	// Refused reports whether the completion stands for all completions of a request that was not run.
	Refused bool
}

// NewCompletion makes the completion that the caller gets.
func NewCompletion(c *schedule.Completion) *Completion {
	of := Of(c.Request)
	asked := of.Asked
	out := &Completion{Request: asked, Generation: c.Generation, PromptTokens: len(c.Request.Tokens), Tokens: c.Tokens,
		Text: c.Text, Logprobs: c.Logprobs, ProcessedLogprobs: c.ProcessedLogprobs,
		TopIDs: c.TopIDs, TopLogprobs: c.TopLogprobs, Measures: c.Measures, Prompt: c.Prompt}
	switch {
	case c.Refused:
		out.PromptTokens = len(asked.Tokens)
		out.FinishReason, out.Err, out.Refused = FinishError, c.Request.Err, true
	case c.Finish == schedule.NotANumber:
		out.FinishReason = FinishError
		if m := of.Masks; m != nil {
			if out.Err = m.DeadEnd(c.Generation); out.Err != nil {
				break
			}
		}
		out.Err = fmt.Errorf("%w after %d tokens: the weights may not fit the dtype, try `dtype` float32",
			ErrNotANumber, len(c.Tokens))
	case c.Finish == schedule.AtLength:
		out.FinishReason = FinishLength
	default:
		out.FinishReason = FinishStop
	}
	return out
}
