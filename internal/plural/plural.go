// Package plural formats numbers with their nouns for messages: "1 row", "2 rows".
package plural

import (
	"fmt"
	"strings"
)

// Number is what counts are held in.
type Number interface {
	~int | ~int32 | ~int64 | ~uint64
}

// Count is a number with its noun. The noun is that of one; adjectives may come before it, and "with" and what is with
// it after it: "more row", "row with errors".
func Count[N Number](n N, noun string) string { return fmt.Sprintf("%d %s", n, Noun(n, noun)) }

// Noun is the noun of Count without the number.
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

// Of is one of two words, for one and for any other number: Of(n, "is", "are").
func Of[N Number](n N, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
