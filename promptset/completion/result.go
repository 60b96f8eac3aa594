// Package completion holds the rows of the output: a [Result] with its binary form, the table of the columns that it
// becomes, and how these stand among the columns of the input.
package completion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/promptset/record"
)

// Readable is what a completion says, as texts for people: its reasoning, its text, and its calls of tools.
func (r *Result) Readable() (texts []string) {
	if r.Reasoning != "" {
		texts = append(texts, "reasoning: "+r.Reasoning)
	}
	if text := strings.TrimSpace(r.Text); text != "" {
		texts = append(texts, text)
	}
	return append(texts, record.ReadableCalls(r.ToolCalls)...)
}

// Result is one completion of a row.
type Result struct {
	Generation       int
	Text             string
	TokenIDs         []int32
	Logprobs         []float32 // of the chosen tokens, natural log; nil when not asked for
	FinishReason     string    // "stop", "length", "tool_calls", "error"
	PromptTokens     int
	CompletionTokens int
	Err              string // empty when the completion is good
	// ErrParam, ErrCode and ErrStatus are what answers to batch files state in addition to Err. ErrStatus is an HTTP
	// status; 0 stands for 400. They are not part of the binary form.
	ErrParam, ErrCode string
	ErrStatus         int

	// What a row has on request; nil where it does not. Logarithms are natural.
	ProcessedLogprobs []float32 // of the chosen tokens under what they were drawn from
	TopIDs            [][]int32 // for each token
	TopLogprobs       [][]float32
	PromptTokenIDs    []int32
	PromptLogprobs    []float32 // of the prompt's tokens; NaN for the first, which nothing comes before
	PromptTopIDs      [][]int32 // for each of them; none for the first
	PromptTopLogprobs [][]float32
	Reasoning         string // taken from Text; "" for none
	ToolCalls         string // a JSON list in the form of OpenAI's API, taken from Text; "" for none

	Contradicts string // what of a row that was read back its other columns contradict
	CountAlone  bool   // what was read back has the number of tokens, and not the tokens
}

// PromptTokens returns how many tokens a row's prompts have, by its results: those of each prompt are as many.
func PromptTokens(r *record.Row, results []Result) (n int) {
	each := max(1, len(results)/(1+len(r.More)))
	for i := 0; i < len(results); i += each {
		n += results[i].PromptTokens
	}
	return n
}

// Wrong says what cannot be in a result.
func (r *Result) Wrong() string {
	switch {
	case !slices.Contains([]string{"stop", "length", "tool_calls", "error"}, r.FinishReason):
		return fmt.Sprintf("has the finish_reason %q, which is none", r.FinishReason)
	case (r.FinishReason == "error") != (r.Err != ""):
		return fmt.Sprintf("has the finish_reason %s and the error %q", r.FinishReason, r.Err)
	case r.CompletionTokens != len(r.TokenIDs) && !r.CountAlone:
		return fmt.Sprintf("has %d token_ids and completion_tokens %d", len(r.TokenIDs), r.CompletionTokens)
	case r.Contradicts != "":
		return "has " + r.Contradicts
	case len(r.Logprobs) > 0 && len(r.Logprobs) != r.CompletionTokens:
		return fmt.Sprintf("has %d token_ids and %d logprobs", r.CompletionTokens, len(r.Logprobs))
	}
	for _, list := range []struct {
		name string
		n    int
		of   string
		want int
	}{
		{"processed_logprobs", len(r.ProcessedLogprobs), "completion_tokens", r.CompletionTokens},
		{"top_ids", len(r.TopIDs), "completion_tokens", r.CompletionTokens},
		{"top_logprobs", len(r.TopLogprobs), "top_ids", len(r.TopIDs)},
		{"prompt_token_ids", len(r.PromptTokenIDs), "prompt_tokens", r.PromptTokens},
		{"prompt_logprobs", len(r.PromptLogprobs), "prompt_token_ids", len(r.PromptTokenIDs)},
		{"prompt_top_ids", len(r.PromptTopIDs), "prompt_token_ids", len(r.PromptTokenIDs)},
		{"prompt_top_logprobs", len(r.PromptTopLogprobs), "prompt_top_ids", len(r.PromptTopIDs)},
	} {
		if list.n > 0 && list.n != list.want {
			return fmt.Sprintf("has %d %s and %d %s", list.n, list.name, list.want, list.of)
		}
	}
	return ""
}
