// Package completion has the rows of the output: a [Result] with its binary form, the table of its columns, and their
// order among the input's columns.
package completion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/record"
)

// Readable returns the parts of a completion as texts for people: its reasoning, its text, and its tool calls.
func (r *Result) Readable() (texts []string) {
	if r.Reasoning != "" {
		texts = append(texts, "reasoning: "+r.Reasoning)
	}
	if r.IsEncoded() {
		texts = append(texts, r.VectorText())
	}
	if text := strings.TrimSpace(r.Text); text != "" {
		texts = append(texts, text)
	}
	return append(texts, record.ReadableCalls(r.ToolCalls)...)
}

// IsEncoded reports whether an encoder's task gave the result.
func (r *Result) IsEncoded() bool { return r.Vector != nil || r.Vectors != nil }

// Result is one completion of a row.
type Result struct {
	Generation       int
	Text             string
	TokenIDs         []int32
	Logprobs         []float32 // the chosen tokens' natural logarithms; nil if not requested
	FinishReason     string    // "stop", "length", "tool_calls", "error"
	PromptTokens     int
	CompletionTokens int
	Err              string // empty when the completion is good
	// ErrParam, ErrCode and ErrStatus are what answers to batch files state in addition to Err. ErrStatus is an HTTP
	// status; 0 stands for 400. They are not part of the binary form.
	ErrParam, ErrCode string
	ErrStatus         int

	// These fields are set on request, and nil otherwise. Logarithms are natural.
	ProcessedLogprobs []float32 // the chosen tokens', under the distribution they were sampled from
	TopIDs            [][]int32 // for each token
	TopLogprobs       [][]float32
	PromptTokenIDs    []int32
	PromptLogprobs    []float32 // the prompt tokens'; NaN for the first, which has no predecessor
	PromptTopIDs      [][]int32 // for each of them; none for the first
	PromptTopLogprobs [][]float32
	Measures          [len(measures)][]float32
	// Experts are the experts of a mixture that computed each token's distribution: as many for each.
	Experts []uint16
	// Hidden are the bytes of hidden states, of each token or of the last.
	Hidden []byte
	// ChoiceProbabilities are of the texts that the row's choice offers, in its order; their sum is 1.
	ChoiceProbabilities []float32
	// Embedding is the vector of a completion's prompt, as the output stores it.
	Embedding []float32
	// WeightsVersions are the versions of the weights that generated the tokens: each from the token whose number
	// WeightsStarts has up to the next.
	WeightsVersions []string
	WeightsStarts   []int32
	Reasoning       string // extracted from Text; "" for none
	ToolCalls       string // a JSON list in the form of OpenAI's API, extracted from Text; "" for none

	// Vector is what an encoder's task gives: a vector as the output stores it (see [VectorType.Stored]), or scores of
	// classes or documents. Truncated reports whether it is of the beginning of the prompt alone.
	Vector    []float32
	Vectors   [][]float32 // of tokens, for late interaction
	Truncated bool
	Label     string  // the best class
	Ranking   []int32 // documents by their scores
	// Labels are of the parts of a text from one character to before another; TokenLabels of its tokens.
	Labels, TokenLabels []string
	Starts, Ends        []int32

	Conversation

	Judgment Judgment
	Verdict  string // what the verifier said; "" for nothing

	Contradicts string // the part of a row that was read back which contradicts its other columns
	CountAlone  bool   // only the number of tokens was read back
}

// measure is a column of numbers that the engine reports with each token, by the engine's name for it. tag is the tag
// of an [extra].
type measure struct {
	name, doc string
	tag       byte
}

var measures = [...]measure{
	{"entropy", "entropy of the distribution that each token was sampled from, before temperature and filters, in nats",
		10},
}

// SetMeasure sets a measure of the completion's tokens by the name of its column.
func (r *Result) SetMeasure(name string, values []float32) {
	for m := range measures {
		if measures[m].name == name {
			r.Measures[m] = append([]float32{}, values...) // not nil if there are no tokens
		}
	}
}

const (
	HiddenColumn    = "hidden"
	expertsColumn   = "experts"
	processedColumn = "processed_logprobs"
)

// IsReported reports whether the engine gives the values of a column on request with each token, for all rows of a job,
// and the column's name states what they are.
func IsReported(column string) bool {
	return column == processedColumn || column == expertsColumn ||
		slices.ContainsFunc(measures[:], func(m measure) bool { return m.name == column })
}

// KeepReported removes what the engine reported for columns that are not named.
func (r *Result) KeepReported(columns []string) {
	if !slices.Contains(columns, processedColumn) {
		r.ProcessedLogprobs = nil
	}
	if !slices.Contains(columns, expertsColumn) {
		r.Experts = nil
	}
	for m := range measures {
		if !slices.Contains(columns, measures[m].name) {
			r.Measures[m] = nil
		}
	}
}

// PromptTokens returns the number of tokens in a row's prompts, from its results: all completions of a prompt have
// the same.
func PromptTokens(r *record.Row, results []Result) (n int) {
	each := max(1, len(results)/(1+len(r.More)))
	for i := 0; i < len(results); i += each {
		n += results[i].PromptTokens
	}
	return n
}

// Wrong returns what cannot be in a result; "" if nothing is wrong.
func (r *Result) Wrong() string {
	inserted := r.Inserted()
	tokens := r.CompletionTokens + inserted
	switch {
	case !slices.Contains([]string{"stop", "length", "tool_calls", "error"}, r.FinishReason):
		return fmt.Sprintf("has the finish_reason %q, which is none", r.FinishReason)
	case (r.FinishReason == "error") != (r.Err != ""):
		return fmt.Sprintf("has the finish_reason %s and the error %q", r.FinishReason, r.Err)
	case r.CompletionTokens+inserted != len(r.TokenIDs) && !r.CountAlone:
		return fmt.Sprintf("has %d token_ids and completion_tokens %d", len(r.TokenIDs)-inserted, r.CompletionTokens)
	case r.Contradicts != "":
		return "has " + r.Contradicts
	case len(r.Logprobs) > 0 && len(r.Logprobs) != tokens:
		return fmt.Sprintf("has %d token_ids and %d logprobs", tokens, len(r.Logprobs))
	}
	for _, list := range []struct {
		name     string
		n        int
		wantName string
		want     int
	}{
		{"completion_mask", len(r.Mask), "token_ids", tokens},
		{"processed_logprobs", len(r.ProcessedLogprobs), "completion_tokens", tokens},
		{"top_ids", len(r.TopIDs), "completion_tokens", tokens},
		{"top_logprobs", len(r.TopLogprobs), "top_ids", len(r.TopIDs)},
		{"prompt_token_ids", len(r.PromptTokenIDs), "prompt_tokens", r.PromptTokens},
		{"prompt_logprobs", len(r.PromptLogprobs), "prompt_token_ids", len(r.PromptTokenIDs)},
		{"prompt_top_ids", len(r.PromptTopIDs), "prompt_token_ids", len(r.PromptTokenIDs)},
		{"prompt_top_logprobs", len(r.PromptTopLogprobs), "prompt_top_ids", len(r.PromptTopIDs)},
		{"weights_starts", len(r.WeightsStarts), "weights_versions", len(r.WeightsVersions)},
	} {
		if list.n > 0 && list.n != list.want {
			return fmt.Sprintf("has %d %s and %d %s", list.n, list.name, list.want, list.wantName)
		}
	}
	for i, start := range r.WeightsStarts {
		if i == 0 && start != 0 || i > 0 && start <= r.WeightsStarts[i-1] || int(start) > r.CompletionTokens {
			return fmt.Sprintf("has the weights_starts %v and %d completion_tokens", r.WeightsStarts,
				r.CompletionTokens)
		}
	}
	if n := len(r.Experts); n > 0 && (tokens == 0 || n%tokens > 0) {
		return fmt.Sprintf("has %d experts and %d completion_tokens", n, tokens)
	}
	if n := len(r.Hidden); n > 0 && tokens == 0 {
		return fmt.Sprintf("has %d bytes of hidden and no completion_tokens", n)
	}
	for m, values := range r.Measures {
		if len(values) > 0 && len(values) != tokens {
			return fmt.Sprintf("has %d %s and %d completion_tokens", len(values), measures[m].name, tokens)
		}
	}
	return ""
}
