package visible

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain 文字 🙂\n\tb":       "plain 文字 🙂\n\tb",
		"\x1b]0;title\a":        `\x1b]0;title\x07`,
		"a\rb\x00\x7f":          `a\x0db\x00\u007f`,
		"\u0085\u009b31m":       `\u0085\u009b31m`,
		"x\u2028\u2029\u202ey":  `x\u2028\u2029\u202ey`,
		"\u2066\u2069":          `\u2066\u2069`,
		"\xff\xc3":              `\xff\xc3`,
		"\xed\xa0\x80":          `\xed\xa0\x80`, // half of a pair
		"\uFFFD":                "\uFFFD",
		"שלום \u200f! 👩\u200d🚀": "שלום \u200f! 👩\u200d🚀",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := Line("a\n\tb\x1b"); got != `a\x0a\x09b\x1b` {
		t.Error(got)
	}
}

// FuzzWriter splits a text anywhere: the result equals Text's, and has nothing that controls a terminal.
func FuzzWriter(f *testing.F) {
	for _, s := range []string{"\x1b[31m", "日本\u202e", "\xe6\x97", "\xf0\x9f\x99\x82", "a\u2028b\u0085\xffc",
		"\xed\xa0\x80", "\x7f"} {
		f.Add(s, uint(1), uint(3))
	}
	f.Fuzz(func(t *testing.T, s string, a, b uint) {
		i := a % uint(len(s)+1)
		j := i + b%(uint(len(s))-i+1)
		var out bytes.Buffer
		w := NewWriter(&out)
		for _, piece := range []string{s[:i], s[i:j], s[j:]} {
			if n, err := io.WriteString(w, piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil || out.String() != Text(s) {
			t.Fatalf("%q: %q, %v, want %q", s, out.String(), err, Text(s))
		}
		if strings.ContainsFunc(out.String(), hidden) || !utf8.Valid(out.Bytes()) {
			t.Fatalf("%q is printed as %q", s, out.String())
		}
		if line := Line(s); strings.ContainsAny(line, "\n\t") || Text(line) != line {
			t.Fatalf("%q is the line %q", s, line)
		}
		// JSON means the same after it.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if json.Unmarshal(text, &before) != nil || json.Unmarshal([]byte(Text(string(text))), &after) != nil ||
			before != after {
			t.Fatalf("%s and %s are %q and %q", text, Text(string(text)), before, after)
		}
	})
}
