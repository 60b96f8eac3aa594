// Package plural formats numbers with their nouns for messages: "1 row", "2 rows".
package plural

import (
	"fmt"
	"strings"
)

// Number is a type of counts.
type Number interface {
	~int | ~int32 | ~int64 | ~uint64
}

// Count returns a number with its noun. The noun is singular; adjectives may precede it, and "with" and its object
// may follow it: "more row", "row with errors".
func Count[N Number](n N, noun string) string { return fmt.Sprintf("%d %s", n, Noun(n, noun)) }

// Noun returns the noun of Count without the number.
func Noun[N Number](n N, noun string) string {
	if n == 1 {
		return noun
	}
	noun, rest, phrase := strings.Cut(noun, " with ")
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"):
		noun += "es"
	case y && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou"):
		noun = stem + "ies"
	default:
		noun += "s"
	}
	if phrase {
		noun += " with " + rest
	}
	return noun
}

// Of returns one of two words, for one and for any other number: Of(n, "is", "are").
func Of[N Number](n N, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
