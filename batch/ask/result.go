package ask

import (
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// ResultOf returns what every output has of a completion, and what the request's parameters ask for.
func ResultOf(done *engine.Completion) completion.Result {
	r := completion.Result{
		Generation: done.Generation, Text: done.Text, TokenIDs: done.Tokens, Logprobs: done.Logprobs,
		FinishReason: string(done.FinishReason), PromptTokens: done.PromptTokens, CompletionTokens: len(done.Tokens),
	}
	if done.Err != nil {
		r.Err = done.Err.Error()
		return r
	}
	r.TopIDs, r.TopLogprobs = done.TopIDs, done.TopLogprobs
	if done.Request.TopLogprobs > 0 && r.TopIDs == nil { // no token was generated
		r.TopIDs, r.TopLogprobs = [][]int32{}, [][]float32{}
	}
	if p := done.Prompt; p != nil {
		r.PromptLogprobs, r.PromptTopIDs, r.PromptTopLogprobs = p.Logprobs, p.TopIDs, p.TopLogprobs
	}
	return r
}
