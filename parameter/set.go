package parameter

// MaxGenerations bounds n, so that a mistyped row does not take the memory of the whole job.
const MaxGenerations = 1 << 20

// SmallestTemperature is the smallest normal float32. Below it a device may flush the temperature to zero, so rows
// below it are greedy.
const SmallestTemperature = 0x1p-126

// Set has a value of each of Quire's own parameters: what a row asks for. A new parameter is a field here or in
// [Sampling], and an entry in own.
type Set struct {
	N          int // completions of the row
	MaxTokens  int
	Generation int // number of the row's first completion
	Stop       []string
	IgnoreEOS  bool
	// StructuredOutputs says what the text must be.
	StructuredOutputs Structure
	// TopLogprobs is how many of the likeliest tokens are told with each token of a completion. Range: 0 to
	// MaxTopLogprobs.
	TopLogprobs int
	// PromptLogprobs is how many are told with each token of the prompt, whose log-probabilities are told then;
	// NoPromptLogprobs: these are not. Range: 0 to MaxTopLogprobs.
	PromptLogprobs int
	Text
	Masking
	Sampling
}

// Masking are the parameters that say which tokens may be drawn.
type Masking struct {
	// AllowedTokenIDs are the only tokens that may be drawn; empty for all.
	AllowedTokenIDs []int
	// BadWords are texts that no completion has.
	BadWords []string
}

// MaxTopLogprobs bounds the likeliest tokens that are told with each token.
const MaxTopLogprobs = 256

// NoPromptLogprobs is Set.PromptLogprobs where nothing is told of the prompt.
const NoPromptLogprobs = -2

// Sampling are the parameters by which the device draws tokens.
type Sampling struct {
	// Temperature divides the logits; 0 is greedy decoding. Range: finite, >= 0.
	Temperature float64
	// TopP keeps the smallest set of most likely tokens with at least this much probability; 1 is off. Range: (0, 1].
	TopP float64
	// MinP drops tokens less likely than MinP times the most likely one; 0 is off. Range: [0, 1].
	MinP float64
	// TopK keeps the TopK most likely tokens; 0 is off. Range: >= 0.
	TopK int
	// Seed is the seed of the request's random numbers. Any value is valid.
	Seed uint64
	// RepetitionPenalty divides the positive logits of tokens that the prompt or the completion has, and multiplies
	// their other ones; 1, or 0 in Go, is off. Range: > 0.
	RepetitionPenalty float64
	// FrequencyPenalty is taken from a token's logit for each time that the completion has it. Range: [-2, 2].
	FrequencyPenalty float64
	// PresencePenalty is taken from the logits of tokens that the completion has. Range: [-2, 2].
	PresencePenalty float64
	// TypicalP keeps the most typical tokens, those whose surprise is nearest to the mean, with at least this much
	// probability; 1, or 0 in Go, is off. Range: (0, 1].
	TypicalP float64
	// TopNSigma keeps logits of at least the largest less TopNSigma standard deviations of all; 0 is off. Range: >= 0.
	TopNSigma float64
	// XTCProbability is how often all tokens of at least the probability XTCThreshold are dropped, but for the least
	// likely of them; 0 is off. Range of both: [0, 1].
	XTCProbability, XTCThreshold float64
	// MinTokens bars the tokens that end a completion until it has so many, and stop texts within them. Range: >= 0.
	MinTokens int
}
