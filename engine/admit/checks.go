package admit

import (
	"fmt"
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/ops/sampling"
)

// check returns what is wrong with a request, before anything is made for it.
func (c *Checker) check(r *Request) error {
	switch {
	case len(r.Tokens) <= r.ScoreEnd:
		return ErrEmptyPrompt
	case len(r.Tokens) >= c.limits.MaxModelLen:
		return setting.Errorf("%w: %s, and prompt and completion together may have %d (see `max-model-len`)",
			ErrPromptTooLong, plural.Count(len(r.Tokens), "token"), c.limits.MaxModelLen)
	case r.N < 1:
		return refuse("n is %d, at least 1 is needed", r.N)
	case r.FirstGeneration < 0:
		return refuse("generation is %d, which is negative", r.FirstGeneration)
	case r.MaxTokens < 0:
		return refuse("max_tokens is %d, at least 1 is needed", r.MaxTokens)
	}
	if err := checkScores(r); err != nil {
		return err
	}
	if err := c.checkChoices(r); err != nil {
		return err
	}
	if err := c.CheckTokens(r.Tokens); err != nil {
		return err
	}
	if err := r.Sampling.Validate(); err != nil {
		return refuse("%w", err)
	}
	if err := c.checkStops(r); err != nil {
		return err
	}
	if err := c.checkBiases(r); err != nil {
		return err
	}
	if err := c.checkThinking(r); err != nil {
		return err
	}
	if err := c.checkNoRepeat(r); err != nil {
		return err
	}
	if need := c.pagesFor(c.maxLen(r)); need > c.limits.Pages {
		return setting.Errorf("%w: prompt and completion need %s of the pool's %d (see `kv-memory`, or lower "+
			"max_tokens)", ErrPromptTooLong, plural.Count(need, "page"), c.limits.Pages)
	}
	return nil
}

// checkNoRepeat returns why a request cannot have no_repeat_ngram_size. If few tokens are allowed, it could forbid all
// of them.
func (c *Checker) checkNoRepeat(r *Request) error {
	const name = "no_repeat_ngram_size"
	switch {
	case r.Sampling.NoRepeatNgramSize == 0:
		return nil
	case c.limits.MaxModelLen > parameter.MaxDRYLastN:
		return invalid(name, "no_repeat_ngram_size looks at a whole sequence, and one may have %d tokens (see "+
			"`max-model-len`), but at most %d are looked at", c.limits.MaxModelLen, parameter.MaxDRYLastN)
	case r.Structure != (parameter.Structure{}):
		return invalid(name, "no_repeat_ngram_size with a structure is not supported: it could forbid all tokens that "+
			"the structure allows")
	case r.AllowedTokens != nil:
		return invalid(name, "no_repeat_ngram_size with allowed_token_ids is not supported: it could forbid all of "+
			"them")
	}
	return nil
}

// CheckTokens returns an error for tokens that are not in the vocabulary.
func (c *Checker) CheckTokens(tokens []int32) error {
	vocab := int32(c.model.VocabSize)
	for i, t := range tokens {
		if t < 0 || t >= vocab {
			return refuse("token %d of the prompt is %d, the vocabulary has 0 to %d", i, t,
				vocab-1)
		}
	}
	return nil
}

// checkStops returns what is wrong with the stop tokens of a request.
func (c *Checker) checkStops(r *Request) error {
	for _, t := range r.StopTokens {
		if vocab := c.model.VocabSize; int(t) >= vocab {
			return invalid("stop_token_ids", "stop_token_ids has token %d, the vocabulary has 0 to %d", t, vocab-1)
		}
	}
	_, sequences := c.StopTokens(r)
	if len(sequences) > 0 && c.stops.states == 0 {
		return refuse("%d stop tokens and %d sequences: more than %d tokens, and sequences, need room on the "+
			"device: set Config.StopStates", len(r.StopTokens), len(r.StopSequences),
			device.MaxStopTokens)
	}
	for _, s := range sequences {
		if len(s) == 0 {
			return refuse("a stop sequence has no tokens")
		}
	}
	return nil
}

// checkScores returns what is wrong with what a request wants to know of likely tokens.
func checkScores(r *Request) error {
	for _, p := range []struct {
		name  string
		value int
	}{{"top_logprobs", r.TopLogprobs}, {"prompt_logprobs", r.PromptTopLogprobs}} {
		if p.value < 0 || p.value > parameter.MaxTopLogprobs {
			return refuse("%s is %d, but must be 0 to %d", p.name, p.value,
				parameter.MaxTopLogprobs)
		}
	}
	switch {
	case r.MaxTokens == 0 && !r.ScorePrompt && r.Choices == nil && !r.State:
		return refuse("max_tokens is 0, at least 1 is needed without prompt_logprobs and choice_probabilities")
	case r.ScoreEnd < 0 || r.ScoreEnd > 0 && (!r.ScorePrompt || r.N > 1):
		return refuse("the last %d tokens of a prompt cannot be scored for %d completions: ask for one, and for "+
			"ScorePrompt", r.ScoreEnd, r.N)
	}
	return nil
}

// scoresOnly is the request that is run if only scores are wanted: it generates one token, which is dropped, and asks
// nothing of that token.
func scoresOnly(r *Request) *Request {
	only := *r
	only.Sampling = sampling.Settings{TopP: 1}
	only.Stop, only.StopTokens, only.StopSequences, only.IgnoreEOS = nil, nil, nil, true
	only.Structure, only.AllowedTokens, only.BadWords, only.LogitBias = parameter.Structure{}, nil, nil, nil
	only.Thinking, only.TopLogprobs = nil, 0
	return &only
}

// checkThinking returns what is wrong with the bound of the reasoning of a request. The token that ends the reasoning
// must be allowed everywhere.
func (c *Checker) checkThinking(r *Request) error {
	t := r.Thinking
	if t == nil {
		return nil
	}
	const name = "max_thinking_tokens"
	fail := func(field, format string, args ...any) error {
		return &requestError{&parameter.FormError{Field: field, Err: fmt.Errorf(format, args...)}}
	}
	vocab := int32(c.model.VocabSize)
	switch {
	case t.Most < 0:
		return fail(name, "is %d, at least 0 is needed", t.Most)
	case t.Start < 0 || t.Start >= vocab || t.End < 0 || t.End >= vocab || t.Start == t.End:
		return refuse("reasoning is between the tokens %d and %d, which must be two of the vocabulary's 0 to %d",
			t.Start, t.End, vocab-1)
	case r.Structure != (parameter.Structure{}):
		return fail(name, "with a structure is not supported: the structure is of the whole completion")
	case r.AllowedTokens != nil && !slices.Contains(r.AllowedTokens, t.End):
		return fail(name, "needs the token %d, which ends the reasoning, among allowed_token_ids",
			t.End)
	case r.Sampling.MinTokens > 0 && slices.Contains(r.StopTokens, t.End):
		return fail(name, "with min_tokens, and the token %d that ends the reasoning among the stop "+
			"tokens, is not supported", t.End)
	}
	for i, word := range r.BadWords {
		if len(word) > 0 && word[len(word)-1] == t.End {
			return fail(fmt.Sprintf("bad_words[%d]", i), "has the token %d, which ends the reasoning: "+
				"max_thinking_tokens needs it", t.End)
		}
	}
	return nil
}

// checkMasks returns what is wrong with the lists of tokens of a request.
func (c *Checker) checkMasks(r *Request) error {
	vocabulary := int32(c.model.VocabSize)
	isToken := func(t int32) bool { return t >= 0 && t < vocabulary }
	for i, t := range r.AllowedTokens {
		if !isToken(t) {
			return invalid("allowed_token_ids", "allowed_token_ids[%d] is %d, the vocabulary has 0 to %d", i, t,
				vocabulary-1)
		}
	}
	if r.AllowedTokens != nil && len(r.AllowedTokens) == 0 {
		return invalid("allowed_token_ids", "allowed_token_ids is empty: no token could be generated")
	}
	for i, word := range r.BadWords {
		if len(word) == 0 || !each(word, isToken) {
			return invalid("bad_words", "bad_words[%d] has the tokens %v: it needs at least one, of 0 to %d", i, word,
				vocabulary-1)
		}
	}
	return nil
}

func each(list []int32, accepts func(int32) bool) bool {
	return !slices.ContainsFunc(list, func(x int32) bool { return !accepts(x) })
}
