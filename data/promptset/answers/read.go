package answers

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/openai"
)

// ReadPart calls each for every completion in a part of answers from a line on.
func ReadPart(in io.ReaderAt, size, from int64, each func(*completion.Completion) error) (map[string]string, error) {
	return nil, lines.EachCompletion(in, size, from, Completions, each)
}

// Is reports whether an object is a line of an output file of OpenAI's batch API.
func Is(object []jsonvalue.Member) bool {
	return jsonvalue.Find(object, "custom_id") != nil && jsonvalue.Find(object, "response") != nil
}

// Completions returns the completions in a line.
func Completions(raw []byte, object []jsonvalue.Member, first bool) ([]*completion.Completion, error) {
	if first && !Is(object) {
		return nil, &completion.LackingError{What: openai.ErrNotResponse.Error()}
	}
	line, err := openai.ParseLine(raw)
	if err != nil {
		return nil, err
	}
	prompt := func(string) string { return "" } // the request has the prompt
	if failed := line.Failure(); failed != "" {
		return []*completion.Completion{{ID: line.CustomID, Result: completion.Result{FinishReason: "error",
			Err: failed},
			ReadPrompt: prompt}}, nil
	}
	body := line.Response.Body
	var all []*completion.Completion
	encoded, err := encodedOf(body)
	if err != nil {
		return nil, err
	}
	for i, r := range encoded {
		if body.Usage != nil && i == 0 { // the usage covers all prompts
			r.PromptTokens = body.Usage.PromptTokens
		}
		all = append(all, &completion.Completion{ID: line.CustomID, Result: r, ReadPrompt: prompt})
	}
	for i := range body.Choices {
		c := &body.Choices[i]
		if c.Index != i {
			return nil, errors.New("its choices are not in order")
		}
		r := completion.Result{Generation: i, Text: c.TextOf(), TokenIDs: c.TokenIDs, Logprobs: c.LogprobsOf(),
			FinishReason: c.Finish(), CompletionTokens: body.Usage.TokensOf(i, len(body.Choices))}
		if m := c.Message; m != nil {
			r.Reasoning, r.ToolCalls = m.Reasoning, string(m.ToolCalls)
		}
		r.CountAlone, r.ChoiceProbabilities = c.TokenIDs == nil, c.ChoiceProbabilities
		if body.Usage != nil && i == 0 { // the usage covers all prompts
			r.PromptTokens = body.Usage.PromptTokens
		}
		all = append(all, &completion.Completion{ID: line.CustomID, Result: r, ReadPrompt: prompt})
	}
	return all, nil
}

// encodedOf returns the results in an answer of an encoder.
func encodedOf(body *openai.Body) (all []completion.Result, err error) {
	one := completion.Result{FinishReason: "stop", CountAlone: true}
	for i := range body.Data {
		d := &body.Data[i]
		if d.Index != i {
			return nil, errors.New("its vectors are not in order, or are no vectors")
		}
		r, ok := one, true
		switch r.Generation = i; {
		case d.Score != nil:
			one.Vector = append(one.Vector, *d.Score)
			continue
		case d.Label != nil:
			r.Label, r.Vector = *d.Label, d.Probs
		default:
			if r.Vector, ok = d.Numbers(); !ok {
				return nil, errors.New("its vectors are not in order, or are no vectors")
			}
		}
		all = append(all, r)
	}
	for _, ranked := range body.Results {
		one.Ranking = append(one.Ranking, int32(ranked.Index))
	}
	byNumber := slices.SortedFunc(slices.Values(body.Results), func(a, b openai.Ranked) int {
		return cmp.Compare(a.Index, b.Index)
	})
	for _, ranked := range byNumber {
		one.Vector = append(one.Vector, ranked.Score)
	}
	if one.Vector != nil {
		all = append(all, one)
	}
	return all, nil
}
