package main

import (
	"fmt"
	"strings"
)

// counted is a number with what it counts, in the plural unless there is one: "1 row", "2 rows", "3 parts of the job".
func counted[N int | int32 | int64 | uint64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, plural(n, noun))
}

// plural is a noun, or the noun that a phrase begins with, for so many: what is not of a regular plural has both, as in "is|are".
func plural[N int | int32 | int64 | uint64](n N, noun string) string {
	if one, more, both := strings.Cut(noun, "|"); both && n == 1 {
		return one
	} else if both {
		return more
	}
	if n == 1 {
		return noun
	}
	first, rest, _ := strings.Cut(noun, " ")
	if strings.HasSuffix(first, "s") || strings.HasSuffix(first, "x") || strings.HasSuffix(first, "ch") {
		first += "e"
	} else if stem, ok := strings.CutSuffix(first, "y"); ok && !strings.HasSuffix(stem, "e") {
		first = stem + "ie"
	}
	return strings.TrimSuffix(first+"s "+rest, " ")
}

// countedAny is counted for a number out of a file.
func countedAny(n any, noun string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + noun
	}
	return fmt.Sprintf("%v %s", n, plural(2, noun))
}
