package grammar_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/text/grammar"
)

// allowed writes the bytes that may come next as scripts/grammar/masks.py does.
func allowed(a *grammar.Automaton, s grammar.State) string {
	var parts []string
	for c := 0; c < 256; c++ {
		lo := c
		for c < 256 && a.Next(s, byte(c)) != grammar.Dead {
			c++
		}
		switch {
		case c-lo == 1:
			parts = append(parts, fmt.Sprintf("%02x", lo))
		case c > lo:
			parts = append(parts, fmt.Sprintf("%02x-%02x", lo, c-1))
		}
	}
	if a.Accepts(s) {
		parts = append(parts, "end")
	}
	return strings.Join(parts, " ")
}

// anySpace is the whitespace that llguidance lets stand between two parts, any number of them.
const anySpace = "09-0a 0d 20"

// otherSpace is whitespace that only llguidance's walks have, and that no string has.
var otherSpace = regexp.MustCompile(`[ \t\r\n]*[\t\r\n][ \t\r\n]*`)

// withoutSpace leaves the whitespace between two parts out of what may come next.
func withoutSpace(mask string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(mask), func(bytes string) bool {
		return slices.Contains([]string{"09", "0a", "09-0a", "20"}, bytes)
	}), " ")
}

// Along walks that llguidance drew, the bytes that may come next are those that it lets come. Three differences are
// known. It lets no DEL (7f) stand in a string, which JSON does. It writes a number of enum or const as the schema
// does, where we write 12.0 as 12: the schemas here have none such. It lets any whitespace stand between two parts;
// ours is bounded (TestSpaceIsBounded).
func TestMasksAreLlguidances(t *testing.T) {
	file, err := os.ReadFile("testdata/llguidance.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Schema json.RawMessage
		Walks  []struct {
			Text  string
			Masks []string
		}
	}
	if err := json.Unmarshal(file, &cases); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range cases {
		a, err := grammar.JSONSchema(c.Schema, grammar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Walks {
			for i, theirs := range w.Masks {
				s := walk(a, otherSpace.ReplaceAllString(w.Text[:i], "\n"))
				if s == grammar.Dead {
					t.Errorf("%s: %q is refused", c.Schema, w.Text[:i])
					break
				}
				n++
				ours, theirs := strings.ReplaceAll(allowed(a, s), "-7f", "-7e"), strings.TrimSpace(theirs)
				if strings.Contains(theirs, anySpace) {
					ours, theirs = withoutSpace(ours), withoutSpace(strings.ReplaceAll(theirs, anySpace, ""))
				}
				if ours != theirs {
					t.Errorf("%s behind %q: ours %q, llguidance's %q", c.Schema, w.Text[:i], ours, theirs)
					break
				}
			}
		}
	}
	t.Logf("%d masks", n)
}
