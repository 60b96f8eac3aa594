package reply

import (
	"encoding/json"
	"math/rand/v2"
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

// Any text that the grammar of a required call generates parses as a call of a tool, with arguments that are JSON.
func TestMadeCallsAreRead(t *testing.T) {
	const wide = `[{"function": {"name": "f", "parameters": {"type": "object", "properties": {"any": {}, "n":
		{"type": ["number", "null"]}, "s": {"type": "string", "maxLength": 9}, "o": {"type": "object"}}}}}]`
	for name, form := range requiredForms {
		f, err := New(None, form.parser, form.template)
		if err != nil {
			t.Fatal(err)
		}
		texts := 0
		for _, tools := range []Tools{requiredTools, wide} {
			if form.typed && tools == wide {
				continue
			}
			required, err := f.Required(tools, "")
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
				if len(p.ToolCalls) != 1 || p.Text != "" || !json.Valid([]byte(p.ToolCalls[0].Arguments)) {
					t.Fatalf("%s: %q is read as %+v", name, text, p)
				}
			}
		}
		if texts < 30 {
			t.Errorf("%s: only %d texts came to an end", name, texts)
		}
	}
}
