package look

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDiffOf(t *testing.T) {
	long := strings.Repeat("and so on ", 40)
	for _, c := range []struct{ a, b, want string }{
		{"the cat sat", "the dog sat", "the [-cat-]{+dog+} sat"},
		{"one two three", "one two three four", "one two three{+ four+}"},
		{"好的，你好", "好的，再见", "好的，[-你好-]{+再见+}"},
		{"", "x", "{+x+}"},
		{"same", "same", "same"},
		{long + "left", long + "right", "…" + strings.Repeat("and so on ", 2) + "and so on [-left-]{+right+}"},
		// Texts that go apart are not marked word by word.
		{"It is a fine day, said the king.", "It is because of rain that we stay.",
			"It is [-a fine day, said the king-]{+because of rain that we stay+}."},
	} {
		got := diffOf(c.a, c.b, false)
		if strings.HasPrefix(c.want, "…") {
			if !strings.HasPrefix(got, "…") || !strings.HasSuffix(got, "so on [-left-]{+right+}") || len(got) > 120 {
				t.Errorf("%q", got)
			}
		} else if got != c.want {
			t.Errorf("%q and %q: %q, want %q", c.a, c.b, got, c.want)
		}
	}
	var many strings.Builder
	for i := range 0x10000 { // more words than runes below the surrogates
		fmt.Fprint(&many, i, " ")
	}
	if got := diffOf(many.String()+"x", many.String()+"y", false); !strings.HasSuffix(got, "65535 [-x-]{+y+}") {
		t.Error(got)
	}
}

// Both texts can be had from the whole difference.
func TestDiffOfHasBothTexts(t *testing.T) {
	left, right := regexp.MustCompile(`(?s)\[-.*?-\]`), regexp.MustCompile(`(?s)\{\+.*?\+\}`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c\n", "好", "é", "\U0001F642"})).
				Draw(t, "words"), " ")
		})
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		d := diffOf(a, b, true)
		marks := strings.NewReplacer("[-", "", "-]", "", "{+", "", "+}", "")
		if got := marks.Replace(right.ReplaceAllString(d, "")); got != a {
			t.Fatalf("%q: %q, want %q", d, got, a)
		}
		if got := marks.Replace(left.ReplaceAllString(d, "")); got != b {
			t.Fatalf("%q: %q, want %q", d, got, b)
		}
	})
}
