package batch

import (
	"fmt"
	"testing"
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
