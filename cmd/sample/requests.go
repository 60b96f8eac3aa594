package main

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/promptset"
)

// maxGenerations bounds n, so that a mistyped row does not take the memory of the whole job.
const maxGenerations = 1 << 20

// requestBuilder turns rows into requests: the command line's parameters, overridden by the row's own.
type requestBuilder struct {
	options *runOptions
	session *session
	common  *commonPrefix
	equal   *equalRows
}

// generations returns the number of a row's first completion, and how many it is to have; neither is checked.
func (b *requestBuilder) generations(row *promptset.Row) (first, n int) {
	n = b.options.n
	override(&n, row.Overrides.N)
	override(&first, row.Overrides.Generation)
	return first, n
}

// request returns the request of a row, or what is wrong with the row.
func (b *requestBuilder) request(row *promptset.Row) (*engine.Request, error) {
	if row.Err != nil {
		return nil, row.Err
	}
	tokens, err := b.tokens(row)
	if err != nil {
		return nil, err
	}
	b.common.add(tokens)
	o, over := b.options, row.Overrides
	r := &engine.Request{
		ID: row.ID, Tokens: tokens, MaxTokens: o.maxTokens,
		Sampling: o.sampling, Stop: o.stop, IgnoreEOS: o.ignoreEOS,
	}
	r.FirstGeneration, r.N = b.generations(row)
	override(&r.MaxTokens, over.MaxTokens)
	override(&r.Sampling.Temperature, over.Temperature)
	override(&r.Sampling.TopP, over.TopP)
	override(&r.Sampling.MinP, over.MinP)
	override(&r.Sampling.TopK, over.TopK)
	override(&r.Sampling.Seed, over.Seed)
	override(&r.IgnoreEOS, over.IgnoreEOS)
	if over.Stop != nil {
		r.Stop = over.Stop
	}
	r.Sampling.TopK = keepAll(r.Sampling.TopK)
	name := row.ParameterName
	switch {
	case over.Sampled != nil && r.Sampling.Temperature == 0:
		return nil,
			fmt.Errorf(
				"%s is true and the job's temperature is 0, which contradict each other; give the row a temperature",
				*over.Sampled)
	case r.N < 1 || r.N > maxGenerations:
		return nil, fmt.Errorf("%s is %d, but must be 1 to %d", name("n"), r.N, maxGenerations)
	case r.FirstGeneration < 0 || r.FirstGeneration > math.MaxInt32-r.N:
		return nil, fmt.Errorf("generation is %d, but must be 0 to %d", r.FirstGeneration, math.MaxInt32-r.N)
	case r.MaxTokens < 1 || r.MaxTokens > math.MaxInt32:
		return nil, fmt.Errorf("%s is %d, but must be at least 1", name("max_tokens"), r.MaxTokens)
	}
	for _, stop := range r.Stop {
		if stop == "" || !utf8.ValidString(stop) {
			return nil, fmt.Errorf("%s %q is empty or not UTF-8", name("stop"), stop)
		}
	}
	return r, r.Sampling.Validate()
}

// keepAll turns the -1 by which other engines say that top_k keeps all tokens into 0.
func keepAll(topK int) int {
	if topK == -1 {
		return 0
	}
	return topK
}

func override[T any](field *T, by *T) {
	if by != nil {
		*field = *by
	}
}

// tokens returns the prompt of a row as token ids.
func (b *requestBuilder) tokens(row *promptset.Row) ([]int32, error) {
	switch row.Kind {
	case promptset.KindTokens:
		for i, id := range row.TokenIDs {
			if id < 0 || int(id) >= b.session.vocab {
				return nil, fmt.Errorf("prompt_token_ids[%d] is %d, but the model's vocabulary is 0 to %d", i, id,
					b.session.vocab-1)
			}
		}
		return row.TokenIDs, nil
	case promptset.KindMessages:
		if b.session.render == nil {
			return nil, b.session.noTemplate
		}
		for i, m := range row.Messages {
			if !utf8.ValidString(m.Content) || !utf8.ValidString(m.Role) {
				return nil, fmt.Errorf("messages[%d] is not UTF-8", i)
			}
		}
		text, err := b.session.render(row.Messages)
		if err != nil {
			return nil, fmt.Errorf("messages: %w", err)
		}
		return b.session.encode(text, false) // the template writes the special tokens itself
	case promptset.KindText:
		if !utf8.ValidString(row.Prompt) {
			return nil, errors.New("prompt is not UTF-8")
		}
		return b.session.encode(row.Prompt, true)
	}
	return nil, errors.New("the row has no prompt, messages or prompt_token_ids")
}
