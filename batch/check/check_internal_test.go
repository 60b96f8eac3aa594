package check

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestLengthsOfTokens(t *testing.T) {
	for _, c := range []struct {
		all  []int32
		want string
	}{
		{nil, "{0 0 0 0 0 0 0 []}"},
		{[]int32{5}, "{1 5 5 5 5 5 5 [{5 8 1}]}"},
		{[]int32{9, 1, 2, 3, 4}, "{5 19 1 3 9 9 9 [{0 1 1} {2 2 1} {3 4 2} {5 8 0} {9 16 1}]}"},
	} {
		if got := fmt.Sprint(lengthsOf(c.all)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.all, got, c.want)
		}
	}
}

// What is expected below a limit is the mean of min(length, limit).
func TestSeenLengths(t *testing.T) {
	if (*Earlier)(nil).seen() != nil || (&Earlier{}).seen() != nil {
		t.Error("lengths of no completions")
	}
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 60).Draw(t, "lengths")
		e := Earlier{Lengths: map[int]int64{}}
		for _, n := range all {
			e.Lengths[n]++
		}
		limit, want := rapid.IntRange(0, 60).Draw(t, "limit"), 0
		for _, n := range all {
			want += min(n, limit)
		}
		if got := e.seen().upTo(limit) * float64(len(all)); math.Abs(got-float64(want)) > 1e-6 {
			t.Errorf("%v up to %d: %g, want %d", all, limit, got, want)
		}
	})
}
