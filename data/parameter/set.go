package parameter

import "math"

// MaxGenerations bounds n, so that a mistyped row does not take the memory of the whole job.
const MaxGenerations = 1 << 20

// SmallestPenalty is the smallest repetition penalty. Dividing logits by much less gives infinities.
const SmallestPenalty = 1e-6

// MaxTopLogprobs bounds the number of likeliest tokens that are reported with each token.
const MaxTopLogprobs = 256

// NoPromptLogprobs is the value of Set.PromptLogprobs if nothing is reported for the prompt.
const NoPromptLogprobs = math.MinInt32

// Set has the values of Quire's own parameters for a row. A new parameter is a field here or in [Sampling], and an
// entry in own.
type Set struct {
	N          int // number of the row's completions
	MaxTokens  int
	Generation int // number of the row's first completion
	Stop       []string
	IgnoreEOS  bool
	// Adapter is the name of the low-rank adapter that the row is run with; "" is the model itself.
	Adapter string
	// StopTokenIDs are tokens that end a completion.
	StopTokenIDs []int
	// DRYSequenceBreakers are texts at which DRY's repetitions end. Range: MaxDRYBreaker bytes each.
	DRYSequenceBreakers []string
	LogitBias           Biases
	// StructuredOutputs defines what the text must be.
	StructuredOutputs Structure
	// AdditionalProperties is [Structure.AdditionalProperties] for any structure, including a tool's call.
	AdditionalProperties bool
	// TopLogprobs is how many of the likeliest tokens are reported with each token of a completion. Range: 0 to
	// MaxTopLogprobs.
	TopLogprobs int
	// PromptLogprobs is how many of the likeliest tokens are reported with each token of the prompt, in addition to
	// its log-probability. With NoPromptLogprobs, nothing is reported for the prompt. Range: 0 to MaxTopLogprobs.
	PromptLogprobs int
	// Outputs are what the row has, of the columns of the job: see [ParseOutputs]. "" is all of them.
	Outputs ListJSON
	Text
	Masking
	Sampling
}

// Masking are the parameters that restrict which tokens may be sampled.
type Masking struct {
	// AllowedTokenIDs are the only tokens that may be sampled; empty for all.
	AllowedTokenIDs []int
	// BadWords are texts whose token sequences must not occur in a completion. Other tokens may spell them.
	BadWords []string
}
