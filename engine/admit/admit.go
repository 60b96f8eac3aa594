package admit

import (
	"slices"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/masks"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
)

// Admitted is a request that is run, with all that the host keeps with it.
type Admitted struct {
	Asked *Request // the request as the caller gave it
	// Whole is the request as it is run: with the tokens of its context, and with nothing asked of the token that is
	// dropped if only scores are wanted.
	Whole      *Request
	MaxLen     int // tokens of prompt and completion together
	Features   feature.Set
	Stops      StopSets
	StopTokens []int32        // stop tokens of its rows
	Masks      *masks.Request // nil without masks
	Biases     []feature.Bias
	Breakers   *sampling.Breakers // nil without DRY
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
	a, err := c.admit(r, whole)
	if err != nil {
		return refused(r, err)
	}
	whole = a.Whole
	s := &schedule.Request{Tokens: whole.Tokens, N: r.N, First: r.FirstGeneration, MaxLen: a.MaxLen, Stop: whole.Stop,
		OnDevice: a.Stops[stopping.OfText] != nil, IncludeStop: r.IncludeStop, KeepSpecial: r.KeepSpecialTokens,
		MinTokens: whole.Sampling.MinTokens, Context: row, Recalls: a.Features != 0, Leaf: r.Leaf,
		Tops: min(whole.TopLogprobs, c.model.VocabSize), ScoresOnly: r.MaxTokens == 0, Told: r.Progress, Tag: a}
	a.Features |= r.scoring()
	if r.ScorePrompt {
		s.Score = 1 + min(r.PromptTopLogprobs, c.model.VocabSize)
		s.Context = schedule.None // the context's tokens were not scored
	}
	s.Short = s.Context == schedule.None && !r.LongRope && a.MaxLen <= c.limits.ShortRope
	return s
}

// refused is a request that is not run.
func refused(r *Request, err error) *schedule.Request {
	return &schedule.Request{First: r.FirstGeneration, Context: schedule.None, Tag: &Admitted{Asked: r}, Err: err}
}

// admit checks a request. whole has its whole prompt.
func (c *Checker) admit(asked, whole *Request) (a *Admitted, err error) {
	if whole.MaxTokens == 0 {
		whole = scoresOnly(whole)
	}
	if err := c.check(whole); err != nil {
		return nil, err
	}
	a = &Admitted{Asked: asked, Whole: whole, MaxLen: c.maxLen(whole), Features: FeaturesOf(asked.Sampling)}
	var sequences [][]int32
	a.StopTokens, sequences = c.StopTokens(whole)
	if a.Stops, err = c.stops.automata(whole, sequences); err != nil {
		return nil, err
	}
	if a.Masks, err = c.newMasks(whole, a.StopTokens); err != nil {
		return nil, err
	}
	if a.Masks != nil {
		a.Features |= feature.MaskedTokens
	}
	if a.Biases = c.biasesOf(whole); a.Biases != nil {
		a.Features |= feature.Biases
	}
	if whole.Thinking != nil {
		a.Features |= feature.Thinking
	}
	if a.Features.Has(feature.DRY) {
		if a.Breakers, err = c.breakers.of(whole); err != nil {
			return nil, err
		}
	}
	return a, nil
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
