package watch

import "github.com/quire/quire/data/promptset/completion"

// Counts are the completions and tokens of each version.
type Counts map[string]Count

// Count is what one version generated.
type Count struct {
	Completions int64 `json:"completions"` // whose first token it generated
	Tokens      int64 `json:"tokens"`
}

// Add counts a completion.
func (c Counts) Add(r *completion.Result) {
	for i, version := range r.WeightsVersions {
		n, end := c[version], r.CompletionTokens
		if i == 0 {
			n.Completions++
		}
		if i+1 < len(r.WeightsStarts) {
			end = int(r.WeightsStarts[i+1])
		}
		n.Tokens += int64(end) - int64(r.WeightsStarts[i])
		c[version] = n
	}
}

// Report describes the weights that a job had over time.
type Report struct {
	Taken []Taken `json:"taken"` // by this process
	// Versions are of all completions of the rows that this process finished, also if an earlier one generated them.
	Versions Counts `json:"versions"`
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
