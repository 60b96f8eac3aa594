package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"short\nlines  too\n", "short\nlines  too\n"},
		{"model  a text that is wider than the screen\n",
			"model  a text that\n       is wider\n       than the\n       screen\n"},
		{"a text that is wider, without an end", "a text that is\nwider, without an\nend"},
		{"  a  1  of /a/path/that/is/wider/than/all and more\n",
			"  a  1  of\n        /a/path/that/is/wider/than/all\n        and more\n"},
		{"  a\t/a/path/that/is/wider/than/all\n", "  a\t/a/path/that/is/wider/than/all\n"},
		{"größer  ünd über äöü ißt es nicht\n", "größer  ünd über\n        äöü ißt es\n        nicht\n"},
	} {
		if got := fit(c.text, 18); got != c.want {
			t.Errorf("%q becomes\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
}

// Words stay as they are and in order; a line is wider only where a word does not fit alongside the indent.
func TestFitKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-zäß]{1,12} {1,3}|\n){0,30}`).Draw(t, "text")
		width := rapid.IntRange(1, 60).Draw(t, "width")
		got := fit(text, width)
		if a, b := strings.Fields(text), strings.Fields(got); strings.Join(a, " ") != strings.Join(b, " ") {
			t.Fatalf("%q becomes %q", text, got)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimRight(line, "\n ")
			if utf8.RuneCountInString(line) > width && lastSpace(line, lastColumn(line, width), width) >= 0 {
				t.Errorf("%q is wider than %d, and could be broken", line, width)
			}
		}
	})
}
