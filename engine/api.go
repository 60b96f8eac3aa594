package engine

import (
	"io"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/masks"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
	"github.com/quire/quire/engine/weights"
	"github.com/quire/quire/ops/sampling"
)

// The inputs of an engine's construction: see package config.
type (
	// Config describes an engine.
	Config = config.Config
	// Adapter is a low-rank adapter by its name: see [Config].Adapters.
	Adapter = config.Adapter
	// Plan reports what an engine settled on.
	Plan = config.Plan
	// Inspection is a time at which the engine's tables can be looked at, for [Config.Inspect].
	Inspection = config.Inspection
	// HiddenStates are the hidden states that completions have.
	HiddenStates = config.HiddenStates
	// Admission is how pages are reserved for sequences.
	Admission = config.Admission
)

// Values of fields of Config.
const (
	Reserve        = config.Reserve
	Overcommit     = config.Overcommit
	LayersUnrolled = config.LayersUnrolled
	LayersLoop     = config.LayersLoop
	WeightsAuto    = config.WeightsAuto
	SpeculateAuto  = config.SpeculateAuto
	MaxDrafts      = config.MaxDrafts
)

// Requests and completions of an engine: see package admit.
type (
	// Request asks for completions of one prompt.
	Request = admit.Request
	// Choice is a text that may follow a prompt: see [Request].
	Choice = admit.Choice
	// Completion is one generated completion.
	Completion = admit.Completion
	// Generated is the part of a completion that was generated.
	Generated = schedule.Generated
	// FinishReason is why a completion ended.
	FinishReason = admit.FinishReason
	// Partial is a completion as far as it was generated.
	Partial = admit.Partial
	// PromptScores are how likely the tokens of a prompt are: see [Request].
	PromptScores = schedule.Scores
	// Thought bounds the reasoning of a completion.
	Thought = feature.Thought
	// Checker finds the requests that an engine rejects, without a device.
	Checker = admit.Checker
	// SnapshotInfo describes the file of a prefix.
	SnapshotInfo = prefixes.SnapshotInfo
	// Call is what one call of the device came to, for [Config.Observe].
	Call = schedule.Call
	// Stats are the figures of a run.
	Stats = schedule.Stats
	// WeightsRun is a run of tokens of a completion that the same weights generated.
	WeightsRun = schedule.WeightsRun
	// Policy is what happens to started completions when the weights are replaced, and Swapped what that took: see
	// [Engine.Swap].
	Policy  = weights.Policy
	Swapped = weights.Swapped
	// OpenVersion opens the checkpoint of a version: see [Engine.Replay].
	OpenVersion = weights.Open
	// Features is a set of what requests may ask for that needs arrays of its own on the device, and a program that has
	// them: see [Config.Features].
	Features = feature.Set
)

// The reasons for which completions end.
const (
	FinishStop   = admit.FinishStop
	FinishLength = admit.FinishLength
	FinishError  = admit.FinishError
)

// The features, but for those of [FeaturesOfColumns].
const (
	Penalties    = feature.Penalties    // repetition_penalty, frequency_penalty, presence_penalty
	MaskedTokens = feature.MaskedTokens // structured output, allowed_token_ids, bad_words
	Biases       = feature.Biases       // logit_bias, and min_tokens if more tokens than device.MaxStopTokens end
	Filters      = feature.Filters      // typical_p, top_n_sigma, XTC
	Thinking     = feature.Thinking     // max_thinking_tokens
	DRY          = feature.DRY          // dry_multiplier
	NoRepeat     = feature.NoRepeat     // no_repeat_ngram_size
	// top_logprobs, prompt_logprobs, and more of the likeliest tokens than 20 of either
	TopLogprobs    = feature.TopLogprobs
	PromptLogprobs = feature.PromptLogprobs
	WideLogprobs   = feature.WideLogprobs
)

// What happens to started completions when the weights are replaced: see package weights.
const (
	Finish   = weights.Finish
	Restart  = weights.Restart
	Continue = weights.Continue
)

// Reasons why a single request fails, to be distinguished by errors.Is.
var (
	ErrEmptyPrompt       = admit.ErrEmptyPrompt
	ErrPromptTooLong     = admit.ErrPromptTooLong
	ErrInvalidRequest    = admit.ErrInvalidRequest
	ErrNotANumber        = admit.ErrNotANumber
	ErrDeadEnd           = masks.ErrDeadEnd
	ErrStructureTooLarge = masks.ErrStructureTooLarge
)

// Errors of operations.
var (
	ErrRunning            = turns.ErrRunning
	ErrSeveralHosts       = core.ErrSeveralHosts
	ErrNotPinned          = prefixes.ErrNotPinned
	ErrNoHostMemory       = prefixes.ErrNoHostMemory
	ErrSnapshotMismatch   = prefixes.ErrSnapshotMismatch
	ErrSnapshotCorrupt    = prefixes.ErrSnapshotCorrupt
	ErrNoMemoryForWeights = core.ErrNoMemoryForWeights
	ErrSeveralVersions    = admit.ErrSeveralVersions
)

// Errors of a run that are faults of the engine.
var (
	// ErrPagesLost means that pages were not free at the end of a run, when nothing holds them.
	ErrPagesLost = schedule.ErrPagesLost
	// ErrStops means that the device ended a completion at a stop string that its text does not have, or continued past
	// one.
	ErrStops = schedule.ErrStops
	// ErrStalled reports that a call had work and did none of it.
	ErrStalled = schedule.ErrStalled
	// ErrMasks means that the device generated a token that the host does not allow there.
	ErrMasks = masks.ErrMasks
)

// NewChecker makes the checker of an engine with a config. It needs neither the engine's backend nor the model's
// weights. It assumes that the KV cache has room for each request.
func NewChecker(cfg Config) *Checker { return admit.NewWithoutPlan(cfg) }

// CheckStructure returns what is wrong with a structure, for any model.
func CheckStructure(s parameter.Structure) error { return masks.Check(s) }

// ReadSnapshotInfo reads what SavePrefix wrote, but for the keys and values, whose checksum it does not check.
func ReadSnapshotInfo(r io.Reader) (SnapshotInfo, error) { return prefixes.ReadSnapshotInfo(r) }

// FeaturesOf are the features that requests with these settings ask for.
func FeaturesOf(s sampling.Settings) Features { return admit.FeaturesOf(s) }

// FeaturesOfColumns returns the features that report the columns of these names: see Measures, Experts, Hidden and
// State of [Completion].
func FeaturesOfColumns(names ...string) Features { return feature.OfColumns(names...) }

// ScoringFeatures are the features of requests with so many of the likeliest tokens with each of the completion, and
// with each of the prompt; less than 0 if the prompt is not scored.
func ScoringFeatures(tops, promptTops int) Features { return admit.ScoringFeatures(tops, promptTops) }

// FeaturesNamed are the features of these names.
func FeaturesNamed(names ...string) (Features, error) { return feature.Named(names...) }

// CheckKernels returns an error if attention would be in ordinary operations on a platform that is many times slower
// with them, unless the backend has its kernels off.
func CheckKernels(c Config) error {
	s, err := config.Settle(c)
	if err != nil {
		return err
	}
	return s.CheckKernels()
}

// WithRun adds to the runs of a completion what [Request].Started tells.
func WithRun(runs []WeightsRun, first int, version string) []WeightsRun {
	return schedule.WithRun(runs, first, version)
}

// FeatureNames are the names of all features that a config may name.
func FeatureNames() []string { return feature.Nameable.Names() }
