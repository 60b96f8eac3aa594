package cli

import "testing"

// Breaking lines again keeps all words, tables and command lines.
func TestReflow(t *testing.T) {
	const text = "A line that goes\non here.\n\nWords:\n  a      first of all\n         and more of it\n" +
		"  b, c   second\n  sample run --with many --flags --and more\n\nEnd.\n"
	const want = "A line that goes on here.\n\nWords:\n  a      first of all and more of\n         it\n" +
		"  b, c   second\n  sample run --with many --flags --and more\n\nEnd.\n"
	if got := reflow(text, 33); got != want {
		t.Errorf("%s", got)
	}
	if got, want := reflow("  name   one two three four\n", 24), "  name\n      one two three four\n"; got != want {
		t.Errorf("%q", got)
	}
}
