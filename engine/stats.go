package engine

// Stats says what a run did. Seconds are wall-clock.
type Stats struct {
	// StartSeconds is from New's begin until the programs are compiled and the weights are on the device.
	StartSeconds float64 `json:"start_seconds"`
	WallSeconds  float64 `json:"wall_seconds"`
	// FirstTokenSeconds is from the run's begin until the first token was drawn.
	FirstTokenSeconds float64 `json:"first_token_seconds"`
	// PrefillSeconds and DecodeSeconds are spent in calls of these programs, the transfers for them included; HostSeconds is between
	// calls, while the device waits.
	PrefillSeconds float64 `json:"prefill_seconds"`
	DecodeSeconds  float64 `json:"decode_seconds"`
	HostSeconds    float64 `json:"host_seconds"`

	Requests     int `json:"requests"`
	PromptTokens int `json:"prompt_tokens"` // of the requests, each counted once
	// PrefillTokens are the prompt tokens that were run: for n completions of a prompt, all of it once and its last token n times.
	PrefillTokens   int `json:"prefill_tokens"`
	GeneratedTokens int `json:"generated_tokens"`
	DecodeTokens    int `json:"decode_tokens"` // those drawn by the decode program
	PrefillCalls    int `json:"prefill_calls"`
	PrefillSteps    int `json:"prefill_steps"`
	DecodeCalls     int `json:"decode_calls"`
	DecodeSteps     int `json:"decode_steps"`
	Pages           int `json:"pages"`
	PeakPages       int `json:"peak_pages"`
}

// Stats returns the figures of the last run, or of the one under way as far as it came when it ends.
func (e *Engine) Stats() Stats { return e.stats }
