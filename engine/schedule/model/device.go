// Package model is a plain-Go model of the device, for tests: the rules of admission, prompts, decoding and pages that
// docs/architecture.md describes, without a model to compute. The scheduler's tests run random jobs on it, and the
// engine's tests compare it with the device itself.
package model

import (
	"errors"

	"github.com/quire/quire/engine/schedule"
)

// Device is the model. It panics if a rule is broken: a row is used twice, a page that others hold is written to, pages
// run out.
type Device struct {
	memory
	PrefillTokens int // prompt tokens of a step
	// Draw generates the token that follows a sequence, and the state of the sequence after it.
	Draw func(Sequence) (int32, schedule.Finish)

	Calls, Saves, Loads int
	FailRun             int // the call that fails with ErrFailed, from 1; 0 = none
	FailSave, FailLoad  bool
	// Stops makes the device keep states of stops: here how many tokens were generated, which must come back with a
	// sequence that was swapped out. Offered, if not nil, is called for each waiting entry.
	Stops   bool
	Offered func(*schedule.Request)
	// ScorePlaces is how many scores of prompts the output has places for; 0: none are scored. Score returns the score
	// of a token after others, and the likeliest tokens there.
	ScorePlaces int
	Score       func(before []int32, token int32, tops int) (logprob float32, ids []int32, logprobs []float32)
	// Tops is the width of the lists of the likeliest tokens, in the output.
	Tops int

	staged []schedule.Block // blocks of the last Stage
}

// Sequence is a sequence for which a token is generated.
type Sequence struct {
	Tokens     []int32 // tokens that its pages hold
	Request    *schedule.Request
	Generation int
	Place      int // place of the token in the output of the call
}

// ErrFailed is the error of calls that a test makes fail.
var ErrFailed = errors.New("the device failed")

// New makes a device whose rows are all free.
func New(s schedule.Sizes, prefillTokens int) *Device {
	return &Device{memory: newMemory(s), PrefillTokens: prefillTokens}
}
