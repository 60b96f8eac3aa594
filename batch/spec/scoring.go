package spec

import (
	"cmp"

	"github.com/quire/quire/models/scoring"
)

// ScoringAuto is the value of [Scoring.Function] that takes what the model's files say.
const ScoringAuto = "auto"

// Scoring describes the scores of a job whose task is classify or rerank. The zero value takes what the model's files
// say.
type Scoring struct {
	Function string `json:",omitempty"` // ScoringAuto, or one of scoring.Functions
	TopN     int    `json:",omitempty"` // how many documents are ranked; 0: all
}

// Scores is how the scores of a job are made, once the model's files were read.
type Scores struct {
	Labels   []string
	Function scoring.Function
	TopN     int
	Answers  int // see arch.Classifier
}

// checkScoring checks the settings of scores.
func checkScoring(s *Spec) error {
	if s.Scoring.Function == ScoringAuto {
		s.Scoring.Function = ""
	}
	if s.Scoring.TopN < 0 {
		return Invalid("top-n", "is %d, but must be 0 (all documents) or more", s.Scoring.TopN)
	}
	return oneOf("score-function", cmp.Or(s.Scoring.Function, ScoringAuto),
		append([]string{ScoringAuto}, scoring.Functions()...)...)
}
