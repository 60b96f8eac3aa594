package admit

import (
	"fmt"
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/masks"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
)

// Admitted is a request that is run, with all that the host keeps with it and the scheduler does not use.
type Admitted struct {
	Asked    *Request   // the request as the caller gave it
	Row      device.Row // of each of its completions, without the stop states
	Features feature.Set
	Stops    StopSets
	Masks    *masks.Request // nil without masks
}

// Of returns what is kept with a request of the scheduler.
func Of(r *schedule.Request) *Admitted { return r.Tag.(*Admitted) }

// RequestName implements [schedule.Tag].
func (a *Admitted) RequestName() string { return a.Asked.ID }

// Check returns the error with which an engine rejects a request, which has no context.
func (c *Checker) Check(r *Request) error {
	_, err := c.admit(r, r)
	return err
}

// Schedule returns the request as the scheduler takes it: checked, and with all of its prompt. If the request cannot be
// run, the result has the error, and comes back as a completion.
func (c *Checker) Schedule(r *Request) *schedule.Request {
	whole, row := r, schedule.None
	if r.Context != nil {
		tokens, begin, err := r.Context.Begin(&c.owner)
		if err != nil {
			return refused(r, err)
		}
		one := *r
		one.Tokens = slices.Concat(tokens, r.Tokens)
		whole, row = &one, begin
	}
	s, err := c.admit(r, whole)
	if err != nil {
		return refused(r, err)
	}
	if !r.ScorePrompt || r.ScoreEnd > 0 { // the context's tokens were not scored
		s.Context = row
	}
	s.Short = s.Context == schedule.None && !r.LongRope && s.MaxLen <= c.limits.ShortRope
	return s
}

// refused is a request that is not run.
func refused(r *Request, err error) *schedule.Request {
	return &schedule.Request{First: r.FirstGeneration, Context: schedule.None, Tag: &Admitted{Asked: r}, Err: err}
}

// admit checks a request, and returns what is run without a context. r has its whole prompt, and original is the
// request as the caller gave it.
func (c *Checker) admit(original, r *Request) (*schedule.Request, error) {
	if r.MaxTokens == 0 {
		r = scoresOnly(r)
	}
	if err := c.check(r); err != nil {
		return nil, err
	}
	a := &Admitted{Asked: original, Features: FeaturesOf(original.Sampling)}
	row := &a.Row
	row.ID, row.Sampling, row.Thought = r.ID, r.Sampling, r.Thinking
	var sequences [][]int32
	var err error
	row.StopTokens, sequences = c.StopTokens(r)
	if a.Stops, err = c.stops.automata(r, sequences); err != nil {
		return nil, err
	}
	if a.Masks, err = c.newMasks(r, row.StopTokens); err != nil {
		return nil, err
	}
	if a.Masks != nil {
		a.Features |= feature.MaskedTokens
	}
	if row.Biases = c.biasesOf(r); row.Biases != nil {
		a.Features |= feature.Biases
	}
	if r.Thinking != nil {
		a.Features |= feature.Thinking
	}
	if a.Features.Has(feature.DRY) {
		if row.Breakers, err = c.breakers.forRequest(r); err != nil {
			return nil, err
		}
	}
	if len(r.Weights) > 1 && c.limits.CannotHold != nil {
		return nil, fmt.Errorf("%w: %w", ErrSeveralVersions, c.limits.CannotHold)
	}
	adapter, err := c.adapters.Named(r.Adapter)
	if err != nil {
		return nil, invalid("adapter", "adapter is %w", err)
	}
	if adapter != nil && original.Context != nil {
		return nil, invalid("adapter", "adapter is %q, and contexts have none: give the tokens instead", r.Adapter)
	}
	s := &schedule.Request{Tokens: r.Tokens, N: r.N, First: r.FirstGeneration, MaxLen: c.maxLen(r), Stop: r.Stop,
		OnDevice: a.Stops[stopping.OfText] != nil, IncludeStop: r.IncludeStop, KeepSpecial: r.KeepSpecialTokens,
		MinTokens: r.Sampling.MinTokens, Context: schedule.None, Variant: schedule.Variant{Adapter: adapter},
		Recalls: a.Features != 0, Leaf: r.Leaf,
		Tops: min(r.TopLogprobs, c.model.VocabSize), LastHidden: !c.allHidden,
		Scoring: schedule.Scoring{ScoresOnly: original.MaxTokens == 0}, Tag: a,
		Course: schedule.Course{Told: r.Progress, Started: r.Started, Weights: r.Weights}}
	a.Features |= original.scoring()
	if r.ScorePrompt {
		s.Score = 1 + min(r.PromptTopLogprobs, c.model.VocabSize)
		if r.ScoreEnd > 0 {
			s.ScoreFrom = len(r.Tokens) - r.ScoreEnd
		}
	}
	return s, nil
}

// newMasks makes the machines of a request; nil if it has none.
func (c *Checker) newMasks(r *Request, stopTokens []int32) (*masks.Request, error) {
	m := &masks.Request{ID: r.ID, MinTokens: r.Sampling.MinTokens, StopTokens: stopTokens}
	if r.Structure != (parameter.Structure{}) {
		switch {
		case r.IgnoreEOS:
			return nil, invalid("ignore_eos", "ignore_eos with a structure: its text must be able to end")
		case len(c.model.EOS) == 0:
			return nil, refuse("a structure with a model that has no end-of-sequence token")
		}
		machine, err := c.masks.Structure(r.Structure)
		if err != nil {
			return nil, invalid("structured_outputs", "structured output by %s: %w; mend it or leave it out",
				r.Structure.Kind, err)
		}
		m.Machines[stopping.OfText] = machine
	}
	if r.AllowedTokens != nil || len(r.BadWords) > 0 {
		if err := c.checkMasks(r); err != nil {
			return nil, err
		}
		machine, err := c.masks.Tokens(c.model.VocabSize, r.AllowedTokens, r.BadWords)
		if err != nil {
			return nil, invalid("bad_words", "bad_words: %w: give fewer", err)
		}
		m.Machines[stopping.OfTokens] = machine
	}
	if m.Machines == [stopping.Lanes]*masking.Machine{} {
		return nil, nil
	}
	return m, nil
}
