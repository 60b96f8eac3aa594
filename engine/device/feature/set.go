package feature

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/engine/schedule"
)

// Set is a set of features.
type Set uint32

const (
	Penalties      Set = 1 << iota // penalties of tokens that a sequence has
	MaskedTokens                   // masks of the tokens that may come next
	Biases                         // biases of tokens
	Filters                        // filters other than top-k, top-p and min-p
	TopLogprobs                    // the likeliest tokens with each sampled token
	PromptLogprobs                 // how likely the tokens of prompts are, and the likeliest ones
	WideLogprobs                   // of these more than NarrowTops
	Thinking                       // bounds of reasoning
	DRY                            // penalties of tokens that repeat a sequence
	NoRepeat                       // bars of tokens that repeat a sequence
	firstMeasure                   // of schedule.Measure, whose features follow in its order
)

// Features of columns that a config may not name, since only some models have them, or since they need more than their
// name.
const (
	Experts = firstMeasure << (schedule.NumMeasures + iota) // the experts that tokens of a mixture took
	Hidden                                                  // hidden states of tokens
	States                                                  // hidden states after prompts, for the column embedding
)

// noted are the names of features of tokens, and of their columns.
var noted = map[Set]string{Experts: "experts", Hidden: "hidden"}

// Nameable are the features that a config may name.
const Nameable = Experts - 1

var names = append([]string{"penalties", "masks", "biases", "filters", "top_logprobs", "prompt_logprobs",
	"wide_logprobs", "thinking", "dry", "no_repeat"}, schedule.MeasureNames[:]...)

// Has reports whether all of others are in s.
func (s Set) Has(others Set) bool { return s&others == others }

// Names returns the names of the features, in order; nil if there are none.
func (s Set) Names() (list []string) {
	for i, name := range names {
		if s&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	for f := Experts; f < States; f <<= 1 {
		if s.Has(f) {
			list = append(list, noted[f])
		}
	}
	if s.Has(States) {
		list = append(list, "states")
	}
	return list
}

// String lists the features.
func (s Set) String() string { return strings.Join(s.Names(), ", ") }

// Named are the features of these names.
func Named(list ...string) (s Set, err error) {
	for _, name := range list {
		i := slices.Index(names, name)
		if i < 0 {
			return 0, fmt.Errorf("%q, which is not one of %s", name, strings.Join(names, ", "))
		}
		s |= 1 << i
	}
	return s, nil
}
