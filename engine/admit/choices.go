package admit

import (
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/ops/sampling"
)

// Choice is a text that may follow a prompt, as sequences of tokens: its probability is the sum of theirs.
type Choice [][]int32

// Scored returns the requests whose scores give the probabilities of the choices of r: one for each sequence of each
// choice, in order. They share the pages of the prompt, and only what follows the prompt is scored.
func (r *Request) Scored() (parts []*Request) {
	for _, choice := range r.Choices {
		for _, tokens := range choice {
			parts = append(parts, &Request{ID: r.ID, Tokens: slices.Concat(r.Tokens, tokens), Context: r.Context, N: 1,
				Sampling: sampling.Settings{TopP: 1}, IgnoreEOS: true, Adapter: r.Adapter, LongRope: r.LongRope,
				ScorePrompt: true, ScoreEnd: len(tokens), Leaf: true})
		}
	}
	return parts
}

// ChoiceLogprobs returns the natural logarithm of the probability of each choice from the completions of
// [Request.Scored], in their order, or why there is none. Sums are in float64 and in order, so that they depend on the
// scores alone.
func (r *Request) ChoiceLogprobs(scored []*Completion) (all []float64, err error) {
	for i, choice := range r.Choices {
		logprobs := make([]float64, len(choice))
		for k, tokens := range choice {
			if scored[k].Err != nil {
				return nil, ofChoice(i, scored[k].Err)
			}
			prompt := scored[k].Prompt.Logprobs
			for _, l := range prompt[len(prompt)-len(tokens):] {
				logprobs[k] += float64(l)
			}
		}
		scored = scored[len(choice):]
		most, total := slices.Max(logprobs), 0.0
		for _, l := range logprobs {
			total += math.Exp(l - most)
		}
		all = append(all, most+math.Log(total))
	}
	return all, nil
}

func ofChoice(i int, err error) error { return fmt.Errorf("choice %d: %w", i+1, err) }

// checkChoices returns what is wrong with the choices of a request.
func (c *Checker) checkChoices(r *Request) error {
	if len(r.Choices) > 0 && r.Weights != nil {
		return refuse("choices of completions that are generated again with their weights are not scored")
	}
	for i, choice := range r.Choices {
		if len(choice) == 0 || slices.ContainsFunc(choice, func(tokens []int32) bool { return len(tokens) == 0 }) {
			return ofChoice(i, refuse("it has no tokens"))
		}
		one := *r
		one.Choices = r.Choices[i : i+1]
		for _, part := range one.Scored() {
			if err := c.check(part); err != nil {
				return ofChoice(i, err)
			}
		}
	}
	return nil
}
