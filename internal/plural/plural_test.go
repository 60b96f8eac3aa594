package plural

import "testing"

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n          int
		noun, want string
	}{
		{0, "row", "0 rows"}, {1, "row", "1 row"}, {2, "row", "2 rows"}, {1, "row with errors", "1 row with errors"},
		{3, "row with errors", "3 rows with errors"},
		{1, "more row", "1 more row"}, {3, "waiting prompt", "3 waiting prompts"}, {2, "try", "2 tries"},
		{2, "key", "2 keys"}, {2, "process", "2 processes"}, {-1, "token", "-1 tokens"},
	} {
		if got := Count(c.n, c.noun); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if Of(1, "is", "are") != "is" || Of(uint64(0), "is", "are") != "are" {
		t.Error("a verb does not fit its number")
	}
}
