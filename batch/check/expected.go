package check

import (
	"maps"
	"slices"
)

// Earlier describes the completions of an earlier job, such as a trial of the same job.
type Earlier struct {
	Output string `json:"output"`
	Model  string `json:"model,omitempty"` // the model that generated them, as the output names it
	// Completions counts completions without an error. MeanTokens and LengthShare are their mean length and share.
	Completions int64   `json:"completions"`
	MeanTokens  float64 `json:"mean_completion_tokens"`
	LengthShare float64 `json:"share_with_finish_reason_length"`
	// TokensPerSecond are tokens of completions, over the time in which processes generated; 0 if it is not known.
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	// Lengths counts completions without an error by their tokens.
	Lengths map[int]int64 `json:"-"`
}

// Expectation is what a job amounts to if its completions are as long as an earlier job's.
type Expectation struct {
	Like Earlier `json:"like"`
	// CompletionTokens is, for each completion, the mean of min(tokens, its limit) over the earlier completions, added
	// up. One that ended at the limit of the earlier job counts with the tokens that it has.
	CompletionTokens float64 `json:"completion_tokens"`
	MeanSequence     float64 `json:"mean_sequence_tokens"` // mean of prompts with such completions
	Seconds          float64 `json:"seconds,omitempty"`    // CompletionTokens at the report's TokensPerSecond
}

// seenLengths are lengths of completions, the shortest first.
type seenLengths struct {
	lengths []int
	// Of the lengths before each, and of all at the end: completions, and their tokens.
	completions, tokens []float64
}

// seen is nil if e is, or has no completions.
func (e *Earlier) seen() *seenLengths {
	if e == nil || len(e.Lengths) == 0 {
		return nil
	}
	s := &seenLengths{lengths: slices.Sorted(maps.Keys(e.Lengths)), completions: []float64{0}, tokens: []float64{0}}
	for i, length := range s.lengths {
		n := float64(e.Lengths[length])
		s.completions = append(s.completions, s.completions[i]+n)
		s.tokens = append(s.tokens, s.tokens[i]+n*float64(length))
	}
	return s
}

// upTo is the mean of min(length, limit).
func (s *seenLengths) upTo(limit int) float64 {
	index, _ := slices.BinarySearch(s.lengths, limit)
	all := s.completions[len(s.lengths)]
	return (s.tokens[index] + float64(limit)*(all-s.completions[index])) / all
}
