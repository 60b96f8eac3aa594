package reuse

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/completion"
)

// contentDigest returns a digest of completions as a part has them that leaves out columns. Completions that were read
// back have the digest of those that were written.
func contentDigest(results []completion.Result, excluded []string) uint64 {
	h := sha256.New()
	var b []byte
	for _, r := range results {
		r = asWritten(r, excluded)
		b, _ = r.AppendBinary(b[:0])
		h.Write(binary.AppendUvarint(nil, uint64(len(b))))
		h.Write(b)
	}
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// asWritten is a completion without what a part does not tell apart, or can't have. The tokens of the prompt are left
// out because not all outputs with them have a column of them.
func asWritten(r completion.Result, excluded []string) completion.Result {
	r.Text, r.Reasoning = strings.ToValidUTF8(r.Text, "\uFFFD"), strings.ToValidUTF8(r.Reasoning, "\uFFFD")
	r.PromptTokenIDs = nil
	if len(r.TokenIDs) == 0 || slices.Contains(excluded, "token_ids") {
		r.TokenIDs = nil
	}
	if len(r.Logprobs) == 0 || slices.Contains(excluded, "logprobs") {
		r.Logprobs = nil
	}
	if len(r.ProcessedLogprobs) == 0 {
		r.ProcessedLogprobs = nil
	}
	if len(r.Experts) == 0 {
		r.Experts = nil
	}
	if len(r.Hidden) == 0 {
		r.Hidden = nil
	}
	for m := range r.Measures {
		if len(r.Measures[m]) == 0 {
			r.Measures[m] = nil
		}
	}
	r.TopIDs, r.TopLogprobs = flat(r.TopIDs), flat(r.TopLogprobs)
	r.PromptTopIDs, r.PromptTopLogprobs = flat(r.PromptTopIDs), flat(r.PromptTopLogprobs)
	// The first token of a prompt has no probability, and files have no bits of NaN.
	if len(r.PromptLogprobs) == 0 {
		r.PromptLogprobs = nil
	} else if math.IsNaN(float64(r.PromptLogprobs[0])) {
		r.PromptLogprobs = slices.Clone(r.PromptLogprobs)
		r.PromptLogprobs[0] = 0
	}
	return r
}

// flat is a list of lists without the difference between none and an empty one.
func flat[T any](lists [][]T) [][]T {
	if len(lists) == 0 {
		return nil
	}
	if !slices.ContainsFunc(lists, func(l []T) bool { return len(l) == 0 }) {
		return lists
	}
	lists = slices.Clone(lists)
	for i := range lists {
		if len(lists[i]) == 0 {
			lists[i] = []T{}
		}
	}
	return lists
}

// Same reports whether completions are the same as a part has them that leaves out columns.
func Same(a, b []completion.Result, excluded []string) bool {
	return len(a) == len(b) && contentDigest(a, excluded) == contentDigest(b, excluded)
}
