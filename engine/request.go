package engine

import (
	"errors"
	"fmt"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/sampling"
)

// Request asks for completions of one prompt.
type Request struct {
	// ID names the request. Together with the seed and the generation it is all that the random numbers of a completion
	// depend on.
	ID string
	// Tokens is the prompt, at least one token; where there is a Context, what comes after its tokens, if anything.
	Tokens []int32
	// Context, if not nil, is what the prompt begins with: a context of the engine that runs the request, which stays
	// as it is. The completions are those of a request with all these tokens; of a model with a longrope, of one that
	// is long enough for the long divisors.
	Context *Context
	// N is how many completions to draw, numbered FirstGeneration, FirstGeneration+1, ...
	N, FirstGeneration int
	// MaxTokens bounds the tokens of a completion; 0, with ScorePrompt, draws none. The engine's MaxModelLen bounds
	// prompt and completion together.
	MaxTokens int
	// Sampling says how tokens are chosen.
	Sampling sampling.Settings
	// LogitBias is added to the logits of tokens, -100 to 100.
	LogitBias map[int32]float32
	// Stop ends a completion where its text contains one of these; the text ends before it.
	Stop []string
	// StopTokens ends a completion at one of these tokens, as the model's end-of-sequence tokens do.
	StopTokens []int32
	// StopSequences ends a completion behind one of these sequences of tokens, whose last token counts as the one that
	// ended it.
	StopSequences [][]int32
	// Structure says what the text must be: the zero value is any text. Ends of sequence come where the text is
	// complete, and nowhere else.
	Structure parameter.Structure
	// AllowedTokens are the only tokens that may be drawn; nil for all.
	AllowedTokens []int32
	// BadWords are sequences of tokens of which no completion has one: the last token of one does not come behind the
	// others.
	BadWords [][]int32
	// DRYSequenceBreakers are texts, and DRYBreakers sequences of tokens, at which what DRY takes for repeated ends:
	// see sampling.DRY.
	DRYSequenceBreakers []string
	DRYBreakers         [][]int32
	// IncludeStop ends the text behind the stop string or the token that ended the completion, and not before it.
	IncludeStop bool
	// KeepSpecialTokens leaves special tokens in the text, where stop strings are looked for too.
	KeepSpecialTokens bool
	// IgnoreEOS goes on past the model's end-of-sequence tokens.
	IgnoreEOS bool
	// Thinking bounds the tokens of reasoning; nil does not.
	Thinking *Thought
	// TopLogprobs is how many of the likeliest tokens are told with each token of a completion.
	TopLogprobs int
	// ScorePrompt has Completion.Prompt tell how likely the tokens of the prompt are, with PromptTopLogprobs of the
	// likeliest ones at each place.
	ScorePrompt       bool
	PromptTopLogprobs int
	// Leaf says that no request goes on from its completions. Their pages are then taken by others as soon as they
	// end, where else they are kept as long as there are pages that nobody used.
	Leaf bool
	// Progress, if not nil, is told of each completion as far as it was drawn, while Run goes on. It must return soon,
	// and is not called by the goroutine that takes the completions. Calls of the device are short then; what is drawn
	// is the same.
	Progress func(Partial)

	long bool // with the long divisors of a longrope, however short it is
}

// Partial is a completion as far as it was drawn. What is in it stays: the text is without an end that may become a
// stop string.
type Partial = schedule.Partial

// FinishReason says why a completion ended.
type FinishReason string

// The reasons, as users of other engines know them.
const (
	FinishStop   FinishReason = "stop"   // an end-of-sequence or stop token, or a stop string
	FinishLength FinishReason = "length" // MaxTokens or MaxModelLen
	FinishError  FinishReason = "error"  // see Completion.Err
)

// Completion is one drawn completion.
type Completion struct {
	Request    *Request
	Generation int
	// Tokens are the tokens drawn, with the stop token that ended them, if one did.
	Tokens []int32
	// Text is the text of Tokens without special tokens, up to the stop string or the token that ended the completion,
	// or as the request asks for; empty without a tokenizer.
	Text string
	// Logprobs are of the chosen tokens under the model's own distribution; ProcessedLogprobs under the one that was
	// sampled from, after temperature and filters. Natural logarithms.
	Logprobs, ProcessedLogprobs []float32
	// TopIDs and TopLogprobs are of the likeliest tokens at the place of each of Tokens, the likeliest first, of equal
	// ones the lowest id, under the model's own distribution; nil without Request.TopLogprobs.
	TopIDs       [][]int32
	TopLogprobs  [][]float32
	Prompt       *PromptScores // nil without Request.ScorePrompt
	FinishReason FinishReason
	PromptTokens int
	// Err is why the request could not be run, or did not end well. The job goes on.
	Err error

	refused bool // it stands for all completions of the request
}

// Reasons for which a single request fails, to be told apart by errors.Is.
var (
	// ErrEmptyPrompt: there is no token to start from.
	ErrEmptyPrompt = errors.New("the prompt has no tokens")
	// ErrPromptTooLong: the prompt leaves no room for a token within the engine's MaxModelLen, or its pages exceed the
	// pool.
	ErrPromptTooLong = errors.New("the prompt is too long")
	// ErrInvalidRequest: a parameter is out of its range.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrNotANumber: the model's scores were not numbers.
	ErrNotANumber = errors.New("the model returned scores that are not numbers")
)

// parameterError is an error about a parameter of a request.
type parameterError struct {
	error
	parameter string
}

func (e *parameterError) Unwrap() error     { return e.error }
func (e *parameterError) Parameter() string { return e.parameter }

// invalid is ErrInvalidRequest about a parameter.
func invalid(parameter, format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalidRequest, &parameterError{fmt.Errorf(format, args...), parameter})
}

// check says what is wrong with a request before it takes any room.
func (a *admission) check(r *Request) error {
	switch {
	case len(r.Tokens) == 0:
		return ErrEmptyPrompt
	case len(r.Tokens) >= a.plan.MaxModelLen:
		return fmt.Errorf("%w: %s, and prompt and completion together may have %d (see `max-model-len`)",
			ErrPromptTooLong, plural.Count(len(r.Tokens), "token"), a.plan.MaxModelLen)
	case r.N < 1:
		return fmt.Errorf("%w: n is %d, at least 1 is needed", ErrInvalidRequest, r.N)
	case r.FirstGeneration < 0:
		return fmt.Errorf("%w: generation is %d, which is negative", ErrInvalidRequest, r.FirstGeneration)
	case r.MaxTokens < 0:
		return fmt.Errorf("%w: max_tokens is %d, at least 1 is needed", ErrInvalidRequest, r.MaxTokens)
	}
	if err := checkScores(r); err != nil {
		return err
	}
	if err := a.checkTokens(r.Tokens); err != nil {
		return err
	}
	if err := r.Sampling.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	if err := a.checkStops(r); err != nil {
		return err
	}
	if err := a.checkBiases(r); err != nil {
		return err
	}
	if err := a.checkThinking(r); err != nil {
		return err
	}
	if err := a.checkNoRepeat(r); err != nil {
		return err
	}
	if need := a.pagesFor(a.maxLen(r)); need > a.plan.Pages {
		return fmt.Errorf("%w: prompt and completion need %s of the pool's %d (see `kv-memory`, or lower max_tokens)",
			ErrPromptTooLong, plural.Count(need, "page"), a.plan.Pages)
	}
	return nil
}

// checkNoRepeat returns why a request cannot have no_repeat_ngram_size. If few tokens are allowed, it could forbid all
// of them.
func (a *admission) checkNoRepeat(r *Request) error {
	const name = "no_repeat_ngram_size"
	switch {
	case r.Sampling.NoRepeatNgramSize == 0:
		return nil
	case a.plan.MaxModelLen > parameter.MaxDRYLastN:
		return invalid(name, "no_repeat_ngram_size looks at a whole sequence, and one may have %d tokens (see "+
			"`max-model-len`), but at most %d are looked at", a.plan.MaxModelLen, parameter.MaxDRYLastN)
	case r.Structure != (parameter.Structure{}):
		return invalid(name, "no_repeat_ngram_size with a structure is not supported: it could forbid all tokens that "+
			"the structure allows")
	case r.AllowedTokens != nil:
		return invalid(name, "no_repeat_ngram_size with allowed_token_ids is not supported: it could forbid all of "+
			"them")
	}
	return nil
}

// checkTokens says that tokens are of the vocabulary.
func (a *admission) checkTokens(tokens []int32) error {
	vocab := int32(a.cfg.Model.Config.VocabSize)
	for i, t := range tokens {
		if t < 0 || t >= vocab {
			return fmt.Errorf("%w: token %d of the prompt is %d, the vocabulary has 0 to %d", ErrInvalidRequest, i, t,
				vocab-1)
		}
	}
	return nil
}

// checkStops says what is wrong with the stop tokens of a request.
func (a *admission) checkStops(r *Request) error {
	for _, t := range r.StopTokens {
		if vocab := a.cfg.Model.Config.VocabSize; int(t) >= vocab {
			return invalid("stop_token_ids", "stop_token_ids has token %d, the vocabulary has 0 to %d", t, vocab-1)
		}
	}
	_, sequences := a.stopTokens(r)
	if len(sequences) > 0 && a.stops.states == 0 {
		return fmt.Errorf("%w: %d stop tokens and %d sequences: more than %d tokens, and sequences, need room on the "+
			"device: set Config.StopStates", ErrInvalidRequest, len(r.StopTokens), len(r.StopSequences),
			device.MaxStopTokens)
	}
	for _, s := range sequences {
		if len(s) == 0 {
			return fmt.Errorf("%w: a stop sequence has no tokens", ErrInvalidRequest)
		}
	}
	return nil
}

// maxLen is the most tokens, prompt and completion, that a completion of r may come to.
func (a *admission) maxLen(r *Request) int {
	return min(len(r.Tokens)+max(r.MaxTokens, 1), a.plan.MaxModelLen)
}

// pagesFor is how many pages hold the keys and values of a sequence of maxLen tokens: the last token is drawn, but
// never fed.
func (a *admission) pagesFor(maxLen int) int {
	return ceilDiv(maxLen-1, a.plan.PageSize)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
