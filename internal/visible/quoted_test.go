package visible

import (
	"strings"
	"testing"
)

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"":                                `""`,
		"a\"\n":                           `"a\"\n"`,
		strings.Repeat("x", most):         `"` + strings.Repeat("x", most) + `"`,
		strings.Repeat("x", most+1):       `"` + strings.Repeat("x", most) + `"...`,
		strings.Repeat("é", most) + "end": `"` + strings.Repeat("é", most/2) + `"...`,
		"x" + strings.Repeat("é", most):   `"x` + strings.Repeat("é", most/2-1) + `"...`,
	} {
		if got := Quoted(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
