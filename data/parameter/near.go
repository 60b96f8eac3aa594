package parameter

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// Near returns the parameter that a column was probably meant for, if the column is not named like one: the names
// differ in case or separators, or by a misspelling. Words of data ("topic", "step", "generations") are not near to
// any.
func Near(column string) (name string, ok bool) {
	if len(byName[column]) > 0 || len(column) > 2*longestName {
		return "", false
	}
	words := split(column)
	best := 0
	for _, c := range candidates {
		if d := distance(words, c.words); d >= 0 && (name == "" || d < best) {
			name, best = c.name, d
		}
	}
	return name, name != ""
}

// Nearest returns which of several names another one was probably meant for: one that differs in case or separators,
// or else by a misspelling. It is "" if none is near.
func Nearest(name string, candidates []string) (nearest string) {
	words, best := split(name), -1
	for _, other := range candidates {
		d := distance(words, split(other))
		if d >= 0 && strings.EqualFold(strings.Join(words, ""), strings.Join(split(other), "")) {
			d = 0
		}
		if d >= 0 && (best < 0 || d < best) {
			nearest, best = other, d
		}
	}
	return nearest
}

type candidate struct {
	name  string
	words []string
}

// candidates are the names whose misspelling matters.
var candidates = func() (all []candidate) {
	for p := range All() {
		if !p.passes {
			all = append(all, candidate{p.Name, split(p.Name)})
		}
	}
	return all
}()

const longestName = 40

// split splits a name at separators, and before capitals that follow lower case.
func split(name string) []string {
	var b strings.Builder
	small := false
	for _, r := range name {
		if small && r >= 'A' && r <= 'Z' {
			b.WriteByte(' ')
		}
		small = r >= 'a' && r <= 'z'
		b.WriteRune(r)
	}
	return strings.FieldsFunc(strings.ToLower(b.String()), func(r rune) bool { return strings.ContainsRune("_-. ", r) })
}

// distance returns the number of slips that turn name into column, or -1 if column is more likely a different word.
func distance(column, name []string) int {
	all, want := strings.Join(column, ""), strings.Join(name, "")
	if all == want && len(want) >= 4 {
		return 0
	}
	if len(column) != len(name) {
		return -1
	}
	sum := 0
	for i, word := range name {
		if column[i] == word {
			continue
		}
		d := slips(column[i], word)
		if d > allowed(word, len(name) == 1) || column[i][0] != word[0] {
			return -1
		}
		// "documents" and "document" are two words of data.
		if len(name) == 1 && (column[i]+"s" == word || column[i] == word+"s") {
			return -1
		}
		sum += d
	}
	if sum == 0 || sum > 2 {
		return -1
	}
	return sum
}

// allowed returns how many slips a word may have. A word that is the whole name must be longer, because nothing else
// identifies it.
func allowed(word string, alone bool) int {
	switch n := len(word); {
	case alone && n >= 11, !alone && n >= 9:
		return 2
	case alone && n >= 9, !alone && n >= 4:
		return 1
	}
	return 0
}

// slips counts the letters that are missing, extra or wrong; two swapped letters are one slip.
func slips(a, b string) int {
	d := levenshtein.Distance(a, b, nil)
	if d == 2 && sorted(a) == sorted(b) {
		return 1
	}
	return d
}

func sorted(word string) string {
	letters := []byte(word)
	slices.Sort(letters)
	return string(letters)
}
