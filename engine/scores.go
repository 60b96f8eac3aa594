package engine

import (
	"fmt"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/sampling"
)

// PromptScores are how likely the tokens of a prompt are, each behind those before it: see [Request.ScorePrompt].
type PromptScores = schedule.Scores

// ScoringFeatures are the features of requests with so many of the likeliest tokens with each of the completion, and
// with each of the prompt; less than 0 where the prompt is not scored.
func ScoringFeatures(tops, promptTops int) (f Features) {
	if tops > 0 {
		f |= TopLogprobs
	}
	if promptTops >= 0 {
		f |= PromptLogprobs
	}
	if max(tops, promptTops) > feature.NarrowTops {
		f |= WideLogprobs
	}
	return f
}

// scoring are the features that a request asks for to tell of likely tokens.
func (r *Request) scoring() Features {
	if r.ScorePrompt {
		return ScoringFeatures(r.TopLogprobs, r.PromptTopLogprobs)
	}
	return ScoringFeatures(r.TopLogprobs, -1)
}

// checkScores says what is wrong with what a request wants to know of likely tokens.
func checkScores(r *Request) error {
	for _, p := range []struct {
		name  string
		value int
	}{{"top_logprobs", r.TopLogprobs}, {"prompt_logprobs", r.PromptTopLogprobs}} {
		if p.value < 0 || p.value > parameter.MaxTopLogprobs {
			return fmt.Errorf("%w: %s is %d, but must be 0 to %d", ErrInvalidRequest, p.name, p.value,
				parameter.MaxTopLogprobs)
		}
	}
	if r.MaxTokens == 0 && !r.ScorePrompt {
		return fmt.Errorf("%w: max_tokens is 0, at least 1 is needed without prompt_logprobs", ErrInvalidRequest)
	}
	return nil
}

// scoresOnly is a request of which nothing is drawn, as it is run: it draws one token, which is dropped and which
// nothing is asked of.
func scoresOnly(r *Request) *Request {
	only := *r
	only.Sampling = sampling.Settings{TopP: 1}
	only.Stop, only.StopTokens, only.StopSequences, only.IgnoreEOS = nil, nil, nil, true
	only.Structure, only.AllowedTokens, only.BadWords, only.LogitBias = parameter.Structure{}, nil, nil, nil
	only.Thinking, only.TopLogprobs = nil, 0
	return &only
}

// setScoring tells the scheduler what a request wants to know of likely tokens.
func (e *Engine) setScoring(s *schedule.Request, r *Request) {
	vocabulary := e.cfg.Model.Config.VocabSize
	s.Tops, s.ScoresOnly = min(r.TopLogprobs, vocabulary), r.MaxTokens == 0
	if r.ScorePrompt {
		s.Score = 1 + min(r.PromptTopLogprobs, vocabulary)
	}
}
