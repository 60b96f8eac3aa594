package watch

import "github.com/quire/quire/data/promptset/completion"

// Report describes the weights that a job had over time.
type Report struct {
	Taken []Taken `json:"taken"` // by this process
	// Versions are of all completions of the rows that this process finished, also if an earlier one generated them.
	Versions completion.Versions `json:"versions"`
}

// Swaps returns how often an engine took new weights.
func (r *Report) Swaps() (n int) {
	for _, t := range r.Taken {
		if t.Name != "" {
			n++
		}
	}
	return n
}

// LongestStop returns how many seconds the device stood still at most for new weights.
func (r *Report) LongestStop() (seconds float64) {
	for _, t := range r.Taken {
		seconds = max(seconds, t.StopSeconds)
	}
	return seconds
}
