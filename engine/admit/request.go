// Package admit has what an engine is asked and what it answers, [Request] and [Completion], and decides which requests
// are run. A [Checker] checks a request once, by early returns, and makes one record of all that the host keeps with
// it, [Admitted]. It uses no device.
package admit

import (
	"errors"
	"strings"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/sampling"
)

// Request asks for completions of one prompt.
type Request struct {
	// ID names the request. Together with the seed and the generation it is all that the random numbers of a completion
	// depend on.
	ID string
	// Tokens is the prompt, at least one token. With a Context it is what follows the tokens of the context, if
	// anything.
	Tokens []int32
	// Sequences, if there are any, are what an encoder runs in place of Tokens. The vectors of all of them, in order,
	// are the Vector of the completion.
	Sequences []Sequence
	// Context, if not nil, is a context of the engine that runs the request. The prompt begins with its tokens; the
	// context does not change. The completions are the same as for a request with all these tokens, or, for a model
	// with a longrope, as for a request that is long enough for the long divisors.
	Context Context
	// Truncated states that Tokens are a part of a longer prompt, for those who take the completion.
	Truncated bool
	// N is how many completions to generate, numbered FirstGeneration, FirstGeneration+1, ...
	N, FirstGeneration int
	// MaxTokens bounds the tokens of a completion; 0, with ScorePrompt, generates none. The engine's MaxModelLen bounds
	// prompt and completion together.
	MaxTokens int
	// Adapter is the name of one of Config.Adapters that prompt and completions are run with; "" is the model itself.
	Adapter string
	// Sampling is how tokens are chosen.
	Sampling sampling.Settings
	// LogitBias is added to the logits of tokens, -100 to 100.
	LogitBias map[int32]float32
	// Stop ends a completion when its text contains one of these strings. The text ends before the string.
	Stop []string
	// StopTokens ends a completion at one of these tokens, as the model's end-of-sequence tokens do.
	StopTokens []int32
	// StopSequences ends a completion after one of these sequences of tokens. The last token counts as the one that
	// ended it.
	StopSequences [][]int32
	// Structure is what the text must look like; the zero value allows any text. An end of sequence is generated only
	// when the text is complete.
	Structure parameter.Structure
	// AllowedTokens are the only tokens that may be generated; nil for all.
	AllowedTokens []int32
	// BadWords are sequences of tokens that no completion contains: the last token of a sequence never follows the
	// others.
	BadWords [][]int32
	// DRYSequenceBreakers are texts, and DRYBreakers sequences of tokens, at which what DRY takes for repeated ends:
	// see sampling.DRY.
	DRYSequenceBreakers []string
	DRYBreakers         [][]int32
	// IncludeStop ends the text after the stop string or the token that ended the completion, and not before it.
	IncludeStop bool
	// KeepSpecialTokens leaves special tokens in the text. Stop strings are then looked for in them, too.
	KeepSpecialTokens bool
	// IgnoreEOS continues past the model's end-of-sequence tokens.
	IgnoreEOS bool
	// Thinking bounds the tokens of reasoning; nil does not.
	Thinking *feature.Thought
	// TopLogprobs is how many of the likeliest tokens are reported with each token of a completion.
	TopLogprobs int
	// ScorePrompt makes Completion.Prompt report how likely the tokens of the prompt are, with PromptTopLogprobs of the
	// likeliest ones at each place.
	ScorePrompt       bool
	PromptTopLogprobs int
	// ScoreEnd, if it is not 0, has only so many tokens at the end of the prompt scored; what is before them is as in a
	// prompt that is not scored. N is 1 then.
	ScoreEnd int
	// Choices are texts of which one may follow the prompt: see Completion.ChoiceLogprobs. With them, MaxTokens may be
	// 0. The weights may not be replaced meanwhile.
	Choices []Choice
	// State asks for Completion.State, of an engine with the feature for it. With it, MaxTokens may be 0.
	State bool
	// Leaf means that no request continues its completions. Their pages are then free for others as soon as they end.
	// Otherwise they are kept as long as there are unused pages.
	Leaf bool
	// Progress, if not nil, is called with each completion as far as it was generated, while Run continues. It must
	// return soon, and another goroutine calls it than the one that takes the completions. Calls of the device are
	// short then; completions are the same.
	Progress func(Partial)
	// Started, if not nil, is called when a version of the weights begins to generate tokens of a completion, from the
	// token with the number first on: when it starts, and before other weights continue it or start it again. It must
	// return soon, and another goroutine calls it than the one that takes the completions.
	Started func(generation, first int, version string)
	// Weights, if not nil, are the versions that generate the completions, as an earlier engine had them. Completions
	// wait until the engine has them: see engine.Engine.Replay.
	Weights []schedule.WeightsRun
	// LongRope runs the request with the long divisors of a longrope, even if it is short.
	LongRope bool
}

// Sequence is a text for an encoder, or a pair of texts.
type Sequence struct {
	Tokens []int32
	// Second is the number of the first token of the second kind, which the second text of a pair may have; 0: none has
	// it.
	Second int
	// Unseen is how many tokens at the end no token attends to. They attend to the others.
	Unseen int
}

// PromptTokens is how many tokens the prompt has, in all sequences.
func (r *Request) PromptTokens() (n int) {
	for _, s := range r.Sequences {
		n += len(s.Tokens)
	}
	if len(r.Sequences) == 0 {
		n = len(r.Tokens)
	}
	return n
}

// Context is a sequence that a caller owns, which the prompt of a request may begin with: see engine/contexts.
type Context interface {
	// Begin returns the tokens of the context and the row that has them. It fails if the context belongs to another
	// engine.
	Begin(engine *Owner) (tokens []int32, row int, err error)
}

// Owner stands for an engine, by its address.
type Owner struct{ _ byte }

// Partial is a completion as far as it was generated. What is in it stays: the text lacks an end that may become a stop
// string.
type Partial = schedule.Partial

// Reasons why a single request fails, to be distinguished by errors.Is.
var (
	// ErrEmptyPrompt: there is no token to start from.
	ErrEmptyPrompt = errors.New("the prompt has no tokens")
	// ErrPromptTooLong: the prompt leaves no room for a token within the engine's MaxModelLen, or its pages exceed the
	// pool.
	ErrPromptTooLong = errors.New("the prompt is too long")
	// ErrInvalidRequest: a parameter is out of its range.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrSeveralVersions: the engine cannot stop a completion at the token at which its weights changed.
	ErrSeveralVersions = errors.New("a completion of several versions of the weights cannot be generated again")
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

// requestError is ErrInvalidRequest, and wraps what is wrong.
type requestError struct{ error }

func (e *requestError) Error() string        { return ErrInvalidRequest.Error() + ": " + e.error.Error() }
func (e *requestError) Unwrap() error        { return e.error }
func (e *requestError) Is(target error) bool { return target == ErrInvalidRequest }

// refuse is ErrInvalidRequest for a reason.
func refuse(format string, args ...any) error { return &requestError{setting.Errorf(format, args...)} }

// invalid is ErrInvalidRequest about a parameter. It wraps a [parameter.FormError] if the format begins with the name.
func invalid(name, format string, args ...any) error {
	err := setting.Errorf(format, args...)
	if problem, ok := strings.CutPrefix(format, name+" "); ok {
		err = &parameter.FormError{Field: name, Err: setting.Errorf(problem, args...)}
	}
	return &requestError{&parameterError{err, name}}
}

// ScoringFeatures are the features of requests with so many of the likeliest tokens with each of the completion, and
// with each of the prompt; less than 0 if the prompt is not scored.
func ScoringFeatures(tops, promptTops int) (f feature.Set) {
	if tops > 0 {
		f |= feature.TopLogprobs
	}
	if promptTops >= 0 {
		f |= feature.PromptLogprobs
	}
	if max(tops, promptTops) > feature.NarrowTops {
		f |= feature.WideLogprobs
	}
	return f
}

// scoring are the features that a request needs to report likely tokens.
func (r *Request) scoring() feature.Set {
	if r.ScorePrompt {
		return ScoringFeatures(r.TopLogprobs, r.PromptTopLogprobs)
	}
	return ScoringFeatures(r.TopLogprobs, -1)
}

// FeaturesOf returns the features that requests with these settings need.
func FeaturesOf(s sampling.Settings) (f feature.Set) {
	if s.Penalized() {
		f |= feature.Penalties
	}
	if s.Filtered() {
		f |= feature.Filters
	}
	if s.HasDRY() {
		f |= feature.DRY
	}
	if s.NoRepeatNgramSize > 0 {
		f |= feature.NoRepeat
	}
	return f
}
