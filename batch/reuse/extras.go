package reuse

import (
	"slices"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// Extras is what completions have alongside their tokens, because a parameter or a column asks for it.
type Extras struct {
	Top         int      `json:"top_logprobs,omitempty"`
	ScorePrompt bool     `json:"prompt_logprobs,omitempty"`
	PromptTop   int      `json:"prompt_top_logprobs,omitempty"`
	Columns     []string `json:"columns,omitempty"` // sorted
	Forms
}

// Forms are what values depend on alongside all else that a key has; "" for values that are not there.
type Forms struct {
	Hidden    string `json:"hidden,omitempty"`    // which hidden states, and as what numbers
	Embedding string `json:"embedding,omitempty"` // how the vector of a prompt is made, and as what numbers
}

// extrasOfColumns takes columns whose values a part has only if the job asks for them. The values of the other columns
// on request follow from a completion, from its parameters, or from its prompt.
func extrasOfColumns(columns []string) (e Extras) {
	for _, c := range columns {
		if completion.IsReported(c) {
			e.Columns = append(e.Columns, c)
		}
	}
	slices.Sort(e.Columns)
	return e
}

// with adds what a request asks for.
func (e Extras) with(r *engine.Request) Extras {
	e.Top, e.ScorePrompt, e.PromptTop = r.TopLogprobs, r.ScorePrompt, r.PromptTopLogprobs
	if !r.State {
		e.Embedding = ""
	}
	return e
}

// Equal reports whether both are the same.
func (e Extras) Equal(o Extras) bool {
	return e.Top == o.Top && e.ScorePrompt == o.ScorePrompt && e.PromptTop == o.PromptTop &&
		e.Forms == o.Forms && slices.Equal(e.Columns, o.Columns)
}

// Lacks returns what completions with e lack for one that is wanted, by the name of the column; "" for nothing.
func (e Extras) Lacks(want Extras) string {
	for _, c := range want.Columns {
		if !slices.Contains(e.Columns, c) {
			return c
		}
	}
	switch {
	case want.Hidden != "" && want.Hidden != e.Hidden:
		return completion.HiddenColumn
	case want.Embedding != "" && want.Embedding != e.Embedding:
		return completion.VectorColumn
	case want.Top > 0 && want.Top != e.Top:
		return "top_logprobs"
	case want.ScorePrompt && (!e.ScorePrompt || want.PromptTop > 0 && want.PromptTop != e.PromptTop):
		return "prompt_logprobs"
	}
	return ""
}

// Strip takes off a completion what is not wanted, and what the verifiers of its job decided, so that it is what would
// be generated.
func (e Extras) Strip(r *completion.Result) {
	if e.Top == 0 {
		r.TopIDs, r.TopLogprobs = nil, nil
	}
	if !e.ScorePrompt {
		r.PromptLogprobs = nil
	}
	if e.Hidden == "" {
		r.Hidden = nil
	}
	if e.Embedding == "" {
		r.Embedding = nil
	}
	if e.PromptTop == 0 {
		r.PromptTopIDs, r.PromptTopLogprobs = nil, nil
	}
	r.KeepReported(e.Columns)
	r.Judgment, r.Verdict = completion.Unjudged, ""
}
