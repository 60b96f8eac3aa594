package storage

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Sets of ranges do what sets of bytes do.
func TestRanges(t *testing.T) {
	const size = 40
	draw := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
		from := rapid.Int64Range(0, size).Draw(t, "from")
		return Range{from, min(size, from+rapid.Int64Range(0, 12).Draw(t, "length"))}
	}), 0, 8)
	bytesOf := func(list []Range) (set [size]bool) {
		for _, r := range list {
			for i := r.From; i < r.To; i++ {
				set[i] = true
			}
		}
		return set
	}
	check := func(t *rapid.T, s ranges) {
		for i, r := range s {
			if r.Len() <= 0 || i > 0 && s[i-1].To > r.From {
				t.Fatalf("%v is no set of ranges", s)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		setA, setB := bytesOf(a), bytesOf(b)
		x, y := union(a), union(b)
		check(t, x)
		if bytesOf(x) != setA {
			t.Fatalf("the union of %v is %v", a, x)
		}
		less := x.without(y)
		check(t, less)
		got := bytesOf(less)
		for i := range size {
			if got[i] != (setA[i] && !setB[i]) {
				t.Fatalf("%v without %v is %v", x, y, less)
			}
		}
		gap := rapid.Int64Range(0, 5).Draw(t, "gap")
		joined := x.joined(gap)
		check(t, joined)
		for i := 1; i < len(joined); i++ {
			if joined[i].From-joined[i-1].To <= gap {
				t.Fatalf("%v joined over %d is %v", x, gap, joined)
			}
		}
		pieces := joined.cut(7)
		isLong := func(r Range) bool { return r.Len() > 7 }
		if bytesOf(pieces) != bytesOf(joined) || slices.ContainsFunc(pieces, isLong) ||
			len(joined.without(x))+len(x) < len(joined) || len(x.without(joined)) > 0 {
			t.Fatalf("%v in pieces is %v", joined, pieces)
		}
	})
}
