package reply

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/text/grammar"
)

// made walks an automaton to the end of a text, by bytes that end things where the text gets long.
func made(rnd *rand.Rand, a *grammar.Automaton) (string, bool) {
	s := a.Start()
	var text []byte
	for len(text) < 2000 {
		var can, ends []byte
		for c := range 256 {
			if a.Next(s, byte(c)) != grammar.Dead {
				can = append(can, byte(c))
				if strings.IndexByte(`"]}<|)`, byte(c)) >= 0 {
					ends = append(ends, byte(c))
				}
			}
		}
		if a.Accepts(s) && (len(can) == 0 || rnd.IntN(2) == 0) {
			return string(text), true
		}
		if len(ends) > 0 && (len(text) > 200 && rnd.IntN(10) > 0 || rnd.IntN(4) == 0) {
			can = ends
		}
		c := can[rnd.IntN(len(can))]
		text, s = append(text, c), a.Next(s, c)
	}
	return "", false
}

// Any text that the grammar of required calls generates parses as calls of tools, with arguments that are JSON.
func TestMadeCallsAreRead(t *testing.T) {
	const wide = `[{"function": {"name": "f", "parameters": {"type": "object", "properties": {"any": {}, "n":
		{"type": ["number", "null"]}, "s": {"type": "string", "maxLength": 9}, "o": {"type": "object"}}}}}]`
	for name, form := range requiredForms {
		f, err := New(None, form.parser, form.template)
		if err != nil {
			t.Fatal(err)
		}
		texts := 0
		for _, c := range []struct {
			tools   Tools
			several bool
		}{{requiredTools, false}, {wide, false}, {requiredTools, true}} {
			tools := c.tools
			if form.typed && tools == wide {
				continue
			}
			most := 0 // calls of a text
			required, err := f.Required(tools, "", c.several)
			if err != nil {
				t.Fatal(name, err)
			}
			rnd := rand.New(rand.NewPCG(5, 7))
			for range 60 {
				a, err := grammar.Alternatives([]byte(required), grammar.Options{})
				if err != nil {
					t.Fatal(name, err)
				}
				text, ok := made(rnd, a)
				if !ok {
					continue
				}
				texts++
				p := f.Parse(text, false, tools)
				most = max(most, len(p.ToolCalls))
				bad := func(c ToolCall) bool { return !json.Valid([]byte(c.Arguments)) }
				if len(p.ToolCalls) == 0 || p.Text != "" || slices.ContainsFunc(p.ToolCalls, bad) {
					t.Fatalf("%s: %q is read as %+v", name, text, p)
				}
			}
			if several := c.several && name != "gpt-oss"; several != (most > 1) {
				t.Errorf("%s: texts have up to %d calls", name, most)
			}
		}
		if texts < 30 {
			t.Errorf("%s: only %d texts came to an end", name, texts)
		}
	}
}
