// Package plural writes numbers with what they count, for messages to people: "1 row", "2 rows".
package plural

import (
	"fmt"
	"strings"
)

// Number is what counts are held in.
type Number interface {
	~int | ~int32 | ~int64 | ~uint64
}

// Count is a number with its noun. The noun is that of one and comes first; a phrase may follow it, as in "row with errors".
func Count[N Number](n N, noun string) string { return fmt.Sprintf("%d %s", n, Noun(n, noun)) }

// Noun is the noun of Count without the number.
func Noun[N Number](n N, noun string) string {
	if n == 1 {
		return noun
	}
	first, rest, phrase := strings.Cut(noun, " ")
	stem, y := strings.CutSuffix(first, "y")
	switch {
	case strings.HasSuffix(first, "s"), strings.HasSuffix(first, "x"), strings.HasSuffix(first, "ch"):
		first += "es"
	case y && stem != "" && !strings.ContainsAny(stem[len(stem)-1:], "aeiou"):
		first = stem + "ies"
	default:
		first += "s"
	}
	if phrase {
		first += " " + rest
	}
	return first
}

// Of is one of two words, for one and for any other number: Of(n, "is", "are").
func Of[N Number](n N, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}
