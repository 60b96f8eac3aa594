package reply

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quire/quire/grammar"
)

// accepts says whether an automaton accepts a text.
func accepts(a *grammar.Automaton, text string) bool {
	s := a.Start()
	for i := range len(text) {
		if s = a.Next(s, text[i]); s == grammar.Dead {
			return false
		}
	}
	return a.Accepts(s)
}

// What a required call may be is what the form reads as one call of the tools.
func TestRequired(t *testing.T) {
	for parser, wrap := range map[string]func(name, arguments string) string{
		"hermes": func(name, arguments string) string {
			return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"
		},
		"llama3_json": func(name, arguments string) string {
			return `{"name": "` + name + `", "parameters": ` + arguments + "}"
		},
	} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		const tools = `[{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
			"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}},
			{"type": "function", "function": {"name": "now"}},
			{"type": "function", "function": {"name": "any", "parameters": {}}}]`
		for _, c := range []struct {
			tool, name, arguments string
			want                  bool
		}{
			{"", "add", `{"a": 1}`, true}, {"", "now", `{}`, true}, {"", "any", `{"x": [1]}`, true},
			{"add", "add", `{"a": 1}`, true}, {"now", "add", `{"a": 1}`, false}, {"", "add", `{}`, false},
			{"", "add", `{"a": "b"}`, false}, {"", "now", `{"a": 1}`, false}, {"", "sub", `{}`, false},
			{"", "any", `1`, false},
		} {
			form, err := f.Required(tools, c.tool)
			if err != nil {
				t.Fatal(err)
			}
			a, err := grammar.JSONSchema([]byte(form.Schema), grammar.Options{Before: form.Before, After: form.After})
			if err != nil {
				t.Fatal(err)
			}
			text := wrap(c.name, c.arguments)
			if accepts(a, text) != c.want {
				t.Errorf("%s, tool %q: %q is accepted: %v", parser, c.tool, text, !c.want)
			}
			if p := f.Parse(text, false, tools); c.want && (len(p.ToolCalls) != 1 || p.ToolCalls[0].Name != c.name ||
				!json.Valid([]byte(p.ToolCalls[0].Arguments)) || p.Text != "") {
				t.Errorf("%s: %q is read as %+v", parser, text, p)
			}
		}
		for _, c := range [][3]string{
			{"[]", "", "there are no tools"},
			{tools, "sub", "no tool is called sub"},
			{"{", "", "tools: "},
			{`[{"type": "function"}]`, "", "a tool has no function with a name"},
			{`[{"function": {"name": "f", "parameters": {"$ref": "#/$defs/a"}}}]`, "", "the tool f: its parameters have $ref"},
			{`[{"function": {"name": "f", "parameters": {"type": "string"}}}]`, "", "are of type string, and must be"},
			{`[{"function": {"name": "f", "parameters": 1}}]`, "", "the tool f: its parameters are no JSON schema"},
		} {
			if _, err := f.Required(Tools(c[0]), c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
				t.Errorf("%s: got %v, want %q", c[0], err, c[2])
			}
		}
	}
	for parser, want := range map[string]string{"pythonic": "a call of the form pythonic has no JSON schema",
		None: "has no form of tool calls that Quire knows"} {
		f, _ := New(None, parser, "")
		if _, err := f.Required(someTools, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", parser, err)
		}
	}
}
