package engine

import (
	"fmt"
	"slices"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/parameter"
)

// Thought bounds the reasoning of a completion, which stands between two tokens: behind so many tokens the one that
// ends it is drawn. Its log-probabilities are told as those of others.
type Thought = feature.Thought

// checkThinking says what is wrong with the bound of the reasoning of a request. The token that ends it must be one
// that can be drawn anywhere.
func (a *admission) checkThinking(r *Request) error {
	t := r.Thinking
	if t == nil {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidRequest}, args...)...)
	}
	vocab := int32(a.cfg.Model.Config.VocabSize)
	switch {
	case t.Most < 0:
		return refuse("max_thinking_tokens is %d, at least 0 is needed", t.Most)
	case t.Start < 0 || t.Start >= vocab || t.End < 0 || t.End >= vocab || t.Start == t.End:
		return refuse("reasoning is between the tokens %d and %d, which must be two of the vocabulary's 0 to %d",
			t.Start, t.End, vocab-1)
	case r.Structure != (parameter.Structure{}):
		return refuse("max_thinking_tokens with a structure is not supported: the structure is of the whole completion")
	case r.AllowedTokens != nil && !slices.Contains(r.AllowedTokens, t.End):
		return refuse("max_thinking_tokens needs the token %d, which ends the reasoning, among allowed_token_ids",
			t.End)
	case r.Sampling.MinTokens > 0 && slices.Contains(r.StopTokens, t.End):
		return refuse("max_thinking_tokens with min_tokens, and the token %d that ends the reasoning among the stop "+
			"tokens, is not supported", t.End)
	}
	for i, word := range r.BadWords {
		if len(word) > 0 && word[len(word)-1] == t.End {
			return refuse("bad_words[%d] has the token %d, which ends the reasoning: max_thinking_tokens needs it", i,
				t.End)
		}
	}
	return nil
}
