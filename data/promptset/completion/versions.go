package completion

import "slices"

// Versions counts the completions and tokens of each version of the weights.
type Versions map[string]VersionCount

// VersionCount is what one version generated.
type VersionCount struct {
	Completions int64 `json:"completions"` // whose first token it generated
	Tokens      int64 `json:"tokens"`
}

// Add counts a completion. Without the places at which versions begin, all tokens count for the first.
func (c Versions) Add(r *Result) {
	starts := append(slices.Clone(r.WeightsStarts), int32(r.CompletionTokens))
	if len(starts) != len(r.WeightsVersions)+1 {
		starts = []int32{0, int32(r.CompletionTokens)}
	}
	for i, version := range r.WeightsVersions[:min(len(starts)-1, len(r.WeightsVersions))] {
		n := c[version]
		if i == 0 {
			n.Completions++
		}
		n.Tokens += int64(starts[i+1] - starts[i])
		c[version] = n
	}
}
