package promptset

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
	// ErrParam and ErrCode are what answers to batch files tell beside Err. They are not part of the binary form.
	ErrParam, ErrCode string

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

	contradicts string // what of a row that was read back its other columns contradict
	countAlone  bool   // what was read back has the number of tokens, and not the tokens
}

// PromptTokens returns how many tokens a row's prompts have, by its results: those of each prompt are as many.
func PromptTokens(r *Row, results []Result) (n int) {
	each := max(1, len(results)/(1+len(r.More)))
	for i := 0; i < len(results); i += each {
		n += results[i].PromptTokens
	}
	return n
}
