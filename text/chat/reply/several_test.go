package reply

import (
	"reflect"
	"testing"

	"github.com/quire/quire/text/grammar"
)

// compiled returns what compiles a form that is wanted.
func compiled(t *testing.T) func(form string, wanted bool, err error) *grammar.Automaton {
	return func(form string, wanted bool, err error) *grammar.Automaton {
		t.Helper()
		if err != nil || !wanted {
			t.Fatal(wanted, err)
		}
		a, err := grammar.Alternatives([]byte(form), grammar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// Several required calls are written as the form has them, and read back.
func TestSeveralCalls(t *testing.T) {
	const add, now = `{"name": "add", "arguments": {"a": 1}}`, `{"name": "now", "arguments": {}}`
	for name, two := range map[string]string{
		"hermes":        "<tool_call>\n" + add + "\n</tool_call>\n<tool_call>\n" + now + "\n</tool_call>",
		"llama":         `{"name": "add", "parameters": {"a": 1}}; {"name": "now", "parameters": {}}`,
		"granite":       "<|tool_call|>[" + add + ", " + now + "]",
		"phi":           "functools[" + add + ", " + now + "]",
		"mistral":       "[TOOL_CALLS][" + add + ", " + now + "]",
		"newer mistral": `[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]now[ARGS]{}`,
		"deepseek v3": deepStart + deepCall + "function" + deepSep + "add\n```json\n{\"a\": 1}\n```" + deepDone + "\n" +
			deepCall + "function" + deepSep + "now\n```json\n{}\n```" + deepDone + deepEnd,
		"deepseek v3.1": deepStart + deepCall + "add" + deepSep + `{"a": 1}` + deepDone + deepCall + "now" + deepSep +
			"{}" + deepDone + deepEnd,
		"kimi": kimiStart + kimiCall + "functions.add:0" + kimiArgs + `{"a": 1}` + kimiDone + kimiCall +
			"functions.now:1" + kimiArgs + "{}" + kimiDone + kimiEnd,
		"qwen3_coder": "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>\n" +
			"<tool_call>\n<function=now>\n</function>\n</tool_call>",
		"seed_oss": "<seed:tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n" +
			"</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
		"glm45": "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n<tool_call>now\n" +
			"</tool_call>",
		"deepseek v3.2": "<" + dsml + "function_calls>\n" + invokeStart + "add\">\n" + givenStart +
			`a" string="false">1` + givenEnd + "\n" + invokeEnd + "\n" + invokeStart + "now\">\n" + invokeEnd + "\n</" +
			dsml + "function_calls>",
		"pythonic":     "[add(a=1), now()]",
		"olmo3":        "<function_calls>\nadd(a=1)\nnow()\n</function_calls>",
		"lfm2":         "<|tool_call_start|>[add(a=1), now()]<|tool_call_end|>",
		"lfm2 of JSON": lfmStart + add + lfmEnd + lfmStart + now + lfmEnd,
		"gemma4":       "<|tool_call>call:add{a:1}<tool_call|><|tool_call>call:now{}<tool_call|>",
	} {
		form := requiredForms[name]
		f, err := New(None, form.parser, form.template)
		if err != nil {
			t.Fatal(name, err)
		}
		required := func(tool string, several bool) *grammar.Automaton {
			t.Helper()
			text, err := f.Required(requiredTools, tool, several)
			return compiled(t)(text, true, err)
		}
		one := form.call("add", `{"a": 1}`)
		if a := required("", true); !accepts(a, two) || !accepts(a, one) || accepts(a, "") {
			t.Errorf("%s: %q is not accepted, or one call is not, or none is", name, two)
		}
		if a := required("", false); accepts(a, two) || !accepts(a, one) {
			t.Errorf("%s: %q is accepted as one call", name, two)
		}
		if a := required("add", true); accepts(a, two) || !accepts(a, one) {
			t.Errorf("%s: %q is accepted as a call of add", name, two)
		}
		p := f.Parse(two, false, requiredTools)
		for i := range p.ToolCalls {
			p.ToolCalls[i].ID = ""
		}
		want := []ToolCall{{"", "add", `{"a": 1}`}, {"", "now", "{}"}}
		if p.Text != "" || !reflect.DeepEqual(p.ToolCalls, want) {
			t.Errorf("%s: %q is read as %+v", name, two, p)
		}
	}
}

// A completion with strict tools is text with calls in it, each of a tool that there is, and of arguments that fit.
func TestStrictCalls(t *testing.T) {
	tools := Tools(`[{"type": "function", "function": {"name": "add", "strict": true, "parameters": {"type": "object", ` +
		`"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}}, ` +
		`{"type": "function", "function": {"name": "loose", "parameters": {"type": "object", "properties": {"a": ` +
		`{"type": "integer"}}}}}]`)
	call := func(name, arguments string) string {
		return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"
	}
	add := call("add", `{"a": 3}`)
	f, err := New(None, "hermes", "")
	if err != nil {
		t.Fatal(err)
	}
	a := compiled(t)(f.Strict(tools, true))
	for _, text := range []string{"", "no call <tool_cal", "{\"name\": 3}", add, "text " + add, add + add,
		"a" + add + "\nb" + add + " c", call("loose", `{"b": [{}]}`)} {
		if !accepts(a, text) {
			t.Errorf("%q is not accepted", text)
		}
	}
	for _, text := range []string{"<tool_call>", "a <tool_call> b", call("add", `{"a": "3"}`), call("add", `{}`),
		call("other", `{"a": 3}`), call("add", `{"a": 3, "b": 4}`), add + "<tool_call>", add[:len(add)-3],
		call("loose", `3`)} {
		if accepts(a, text) {
			t.Errorf("%q is accepted", text)
		}
	}
	const loose = `[{"type": "function", "function": {"name": "loose", "strict": false}}]`
	if _, wanted, err := f.Strict(loose, true); wanted || err != nil {
		t.Error(wanted, err)
	}
	// At most one call, of any arguments since no tool is strict.
	a = compiled(t)(f.Strict(loose, false))
	once := call("loose", `{"b": [{}]}`)
	for text, want := range map[string]bool{"": true, "text": true, once: true, "a " + once + "\nb": true,
		once + once: false, once + "\n" + once: false, "<tool_call>": false, call("loose", "3"): false} {
		if accepts(a, text) != want {
			t.Errorf("%q is accepted: %v", text, !want)
		}
	}
	llama, err := New(None, "llama3_json", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, wanted, err := llama.Strict(tools, true); !wanted || err == nil {
		t.Error(wanted, err)
	}
}
