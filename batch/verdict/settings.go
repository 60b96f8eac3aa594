// Package verdict judges completions, and decides by the verdicts when a row has enough completions.
//
// A [Verifier] judges one completion, a [Judge] has completions judged while others are generated, and a [Rule] decides
// in order of generation, so that a row does not depend on which verdicts came first.
package verdict

import (
	"cmp"
	"time"
)

// Settings are how a job judges completions, and when a row ends. The zero value judges nothing.
type Settings struct {
	// Regex accepts texts that it matches somewhere, Schema texts that are JSON of this schema, and Equals texts that
	// equal the row's column of this name. Command is a shell command that is asked. Score is a model, named like that
	// of the job, whose score must be above Above. All that are given must accept.
	Regex   string  `json:"regex,omitempty"`
	Schema  string  `json:"schema,omitempty"`
	Equals  string  `json:"equals,omitempty"`
	Command string  `json:"command,omitempty"`
	Score   string  `json:"score,omitempty"`
	Above   float64 `json:"above,omitempty"`
	// ScoreModel is the fingerprint of the model's files, once they were read. It stands for the name in the job's
	// identity.
	ScoreModel string `json:"score_model,omitempty"`
	// Extract takes out the part of a text that is judged: its last match, or the first group of this.
	Extract string `json:"extract,omitempty"`

	// Until is how many accepted completions end a row, and Majority with which certainty the most frequent answer must
	// be the most likely one to end it. 0 runs all n.
	Until    int     `json:"until,omitempty"`
	Majority float64 `json:"until_majority,omitempty"`

	// Processes is how many processes of Command run, and Timeout how long each may take for a verdict; 0 stands for
	// the defaults. No verdict depends on them.
	Processes int           `json:"processes,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`
}

// Defaults of settings.
const (
	DefaultProcesses = 4
	DefaultTimeout   = time.Minute
)

// Verifies reports whether completions are accepted or rejected each by itself.
func (s *Settings) Verifies() bool {
	return s.Regex != "" || s.Schema != "" || s.Equals != "" || s.Command != "" || s.Score != "" || s.ScoreModel != ""
}

// Costs reports whether verdicts cost so much that completions are kept while they wait for one.
func (s *Settings) Costs() bool { return s.Command != "" || s.Score != "" }

// Judges reports whether completions get a verdict.
func (s *Settings) Judges() bool { return s.Verifies() || s.Majority != 0 }

// Stops reports whether verdicts may end a row before it has all n completions.
func (s *Settings) Stops() bool { return s.Until > 0 || s.Majority != 0 }

// AtOnce is how many completions are judged at once.
func (s *Settings) AtOnce() int {
	switch {
	case s.Score != "":
		return max(scoredAtOnce, s.Processes)
	case s.Command != "":
		return cmp.Or(s.Processes, DefaultProcesses)
	}
	return 2 // costs little
}

// scoredAtOnce is how many completions a model scores together at most.
const scoredAtOnce = 64

// Identity returns the settings on which verdicts and the ends of rows depend, nil for none.
func (s *Settings) Identity() *Settings {
	own := *s
	if own.Processes, own.Timeout = 0, 0; own == (Settings{}) {
		return nil
	}
	if own.ScoreModel != "" {
		own.Score = ""
	}
	return &own
}
