package tally

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// ErrorKind counts completions that failed in the same way.
type ErrorKind struct {
	What    string   `json:"error"` // the error without what is specific to a row
	Count   int64    `json:"count"`
	Example string   `json:"example"` // the first error, unchanged
	IDs     []string `json:"ids"`     // ids of the first rows with the error
}

const (
	mostKinds     = 100
	kindIDs       = 3
	kindLength    = 300 // in bytes
	exampleLength = 1000
	idLength      = 100
	otherErrors   = "other errors"
)

// ErrorKinds counts errors by kind.
type ErrorKinds map[string]*ErrorKind

var (
	placeOfError = regexp.MustCompile(`^\S+ (?:line|row) \d+: `)
	quotedPart   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	numberPart   = regexp.MustCompile(`-?\b\d+(?:\.\d+)?(?:[eE][-+]?\d+)?`)
)

// kindOf returns an error without its place, with … for its quoted texts and N for its numbers.
func kindOf(what string) string {
	what = placeOfError.ReplaceAllString(what, "")
	what = numberPart.ReplaceAllString(quotedPart.ReplaceAllString(what, `"…"`), "N")
	return clip(strings.ToValidUTF8(what, "\uFFFD"), kindLength)
}

// clip truncates a text to about n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// Add counts the error of a completion. id is the id of its row.
func (k *ErrorKinds) Add(what, id string) {
	if *k == nil {
		*k = ErrorKinds{}
	}
	kind := kindOf(what)
	one := (*k)[kind]
	if one == nil && len(*k) >= mostKinds {
		kind = otherErrors
		one = (*k)[kind]
	}
	if one == nil {
		one = &ErrorKind{What: kind, Example: clip(strings.ToValidUTF8(what, "\uFFFD"), exampleLength)}
		(*k)[kind] = one
	}
	one.Count++
	if id = clip(id, idLength); len(one.IDs) < kindIDs && !slices.Contains(one.IDs, id) {
		one.IDs = append(one.IDs, id)
	}
}

// All returns the kinds, the most frequent first.
func (k ErrorKinds) All() []ErrorKind {
	all := []ErrorKind{}
	for kind := range maps.Values(k) {
		all = append(all, *kind)
	}
	slices.SortFunc(all, func(a, b ErrorKind) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What))
	})
	return all
}
