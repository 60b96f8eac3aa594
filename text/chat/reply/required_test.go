package reply

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/quire/quire/text/grammar"
)

// accepts reports whether an automaton accepts a text.
func accepts(a *grammar.Automaton, text string) bool {
	s := a.Start()
	for i := range len(text) {
		if s = a.Next(s, text[i]); s == grammar.Dead {
			return false
		}
	}
	return a.Accepts(s)
}

// requiredForms are the formats of one call, each with a template that uses it and an example. typed reports that
// text is written without quotes, and must not contain barred; lists that it may also be in lists.
var requiredForms = map[string]struct {
	parser, template string
	call             func(name, arguments string) string
	typed            bool
	barred           string
	lists            bool
}{
	"hermes": {"hermes", "", func(name, arguments string) string {
		return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"
	}, false, "", false},
	"llama": {"llama3_json", "", func(name, arguments string) string {
		return `{"name": "` + name + `", "parameters": ` + arguments + "}"
	}, false, "", false},
	"granite": {"granite", "", func(name, arguments string) string {
		return graniteCall + `[{"name": "` + name + `", "arguments": ` + arguments + "}]"
	}, false, "", false},
	"phi": {"phi4_mini_json", "", func(name, arguments string) string {
		return phiCalls + `[{"name": "` + name + `", "arguments": ` + arguments + "}]"
	}, false, "", false},
	"mistral": {"mistral", toolCalls, func(name, arguments string) string {
		return toolCalls + `[{"name": "` + name + `", "arguments": ` + arguments + "}]"
	}, false, "", false},
	"newer mistral": {"mistral", toolCalls + callArgs, func(name, arguments string) string {
		return toolCalls + name + callArgs + arguments
	}, false, "", false},
	"deepseek v3": {"deepseek_v3", "function" + deepSep + "name\n```json", func(name, arguments string) string {
		return deepStart + deepCall + "function" + deepSep + name + "\n```json\n" + arguments + "\n```" + deepDone +
			deepEnd
	}, false, "", false},
	"deepseek v3.1": {"deepseek_v31", deepCall, func(name, arguments string) string {
		return deepStart + deepCall + name + deepSep + arguments + deepDone + deepEnd
	}, false, "", false},
	"kimi": {"kimi_k2", "", func(name, arguments string) string {
		return kimiStart + kimiCall + "functions." + name + ":0" + kimiArgs + arguments + kimiDone + kimiEnd
	}, false, "", false},
	"qwen3_coder": {"qwen3_coder", "", func(name, arguments string) string {
		return callStart + "\n<function=" + name + ">\n" + written(arguments, func(key, value string) string {
			return "<parameter=" + key + ">\n" + value + "\n</parameter>\n"
		}) + "</function>\n" + callEnd
	}, true, parameterEnd, false},
	"seed_oss": {"seed_oss", "", func(name, arguments string) string {
		return seedStart + "\n<function=" + name + ">\n" + written(arguments, func(key, value string) string {
			return "<parameter=" + key + ">\n" + value + "\n</parameter>\n"
		}) + "</function>\n" + seedEnd
	}, true, parameterEnd, false},
	"glm45": {"glm45", "", func(name, arguments string) string {
		return callStart + name + "\n" + written(arguments, func(key, value string) string {
			return keyStart + key + keyEnd + "\n" + valueStart + value + valueEnd + "\n"
		}) + callEnd
	}, true, valueEnd, false},
	"deepseek v3.2": {"deepseek_v32", "", func(name, arguments string) string {
		return deepSeekText("function_calls", name, arguments)
	}, true, dsml, false},
	"deepseek v4": {"deepseek_v4", "<" + dsml + "tool_calls>", func(name, arguments string) string {
		return deepSeekText("tool_calls", name, arguments)
	}, true, dsml, false},
	"gpt-oss": {"openai", "", func(name, arguments string) string {
		return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + arguments
	}, false, "", true},
	"pythonic": {"pythonic", "", func(name, arguments string) string {
		return "[" + name + "(" + pythonText(arguments) + ")]"
	}, false, "", true},
	"olmo3": {"olmo3", "", func(name, arguments string) string {
		return "<function_calls>\n" + name + "(" + pythonText(arguments) + ")\n</function_calls>"
	}, false, "", true},
	"lfm2": {"lfm2", "", func(name, arguments string) string {
		return "<|tool_call_start|>[" + name + "(" + pythonText(arguments) + ")]<|tool_call_end|>"
	}, false, "", true},
	"lfm2 of JSON": {"lfm2", `{"name": "`, func(name, arguments string) string {
		return `<|tool_call_start|>{"name": "` + name + `", "arguments": ` + arguments + "}<|tool_call_end|>"
	}, false, "", false},
	"gemma4": {"gemma4", "", func(name, arguments string) string {
		text := written(arguments, func(key, value string) string {
			if value[0] == '[' {
				value = strings.NewReplacer(`"`, gemmaQuote, ", ", ",").Replace(value)
			} else if key != "a" {
				value = gemmaQuote + value + gemmaQuote
			}
			return "," + key + ":" + value
		})
		return "<|tool_call>call:" + name + "{" + strings.TrimPrefix(text, ",") + "}<tool_call|>"
	}, true, gemmaEnd, true},
}

// deepSeekText is a call as DeepSeek V3.2 and V4 write it.
func deepSeekText(block, name, arguments string) string {
	text := "<" + dsml + block + ">\n" + invokeStart + name + "\">\n"
	_, values, _ := membersInOrder(json.RawMessage(arguments))
	text += written(arguments, func(key, value string) string {
		isText := string(values[key]) != value
		return givenStart + key + `" string="` + strconv.FormatBool(isText) + `">` + value + givenEnd + "\n"
	})
	return text + invokeEnd + "\n</" + dsml + block + ">"
}

// pythonText is arguments as Python has them.
func pythonText(arguments string) (text string) {
	names, values, _ := membersInOrder(json.RawMessage(arguments))
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		value := string(values[name])
		if value[0] != '"' {
			value = strings.NewReplacer("null", "None", "true", "True", "false", "False").Replace(value)
		}
		text += name + "=" + value
	}
	return text
}

// written writes arguments one by one, texts as they are.
func written(arguments string, one func(key, value string) string) (text string) {
	names, values, err := membersInOrder(json.RawMessage(arguments))
	if err != nil {
		return "no object: " + arguments
	}
	for _, name := range names {
		value := string(values[name])
		var inner string
		if json.Unmarshal(values[name], &inner) == nil {
			value = inner
		}
		text += one(name, value)
	}
	return text
}

const requiredTools = `[{"type": "function", "function": {"name": "add", "parameters": {"type": "object",
	"properties": {"a": {"type": "integer"}, "note": {"type": "string"},
	"unit": {"type": "string", "enum": ["m", "km"]},
	"list": {"type": "array", "items": {"type": ["number", "null"]}}}, "required": ["a"],
	"additionalProperties": false}}}, {"type": "function", "function": {"name": "now"}}]`

// What a required call may be is what the form reads as one call of the tools.
func TestRequired(t *testing.T) {
	for name, form := range requiredForms {
		t.Run(name, func(t *testing.T) {
			f, err := New(None, form.parser, form.template)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				tool, name, arguments string
				want                  bool
			}{
				{"", "add", `{"a": 1}`, true}, {"", "now", `{}`, true}, {"now", "now", `{}`, true},
				{"add", "add", `{"a": 1}`, true}, {"now", "add", `{"a": 1}`, false}, {"", "add", `{}`, false},
				{"", "add", `{"a": "b"}`, false}, {"", "now", `{"a": 1}`, false}, {"", "sub", `{}`, false},
				{"", "add", `{"a": -5, "note": "x y", "unit": "km", "list": [1.5, null]}`, true},
				{"", "add", `{"a": 1, "note": "<b>{ü\n</"}`, true}, {"", "add", `{"a": 1, "unit": "mm"}`, false},
				{"", "add", `{"a": 1, "list": ["x"]}`, false}, {"", "add", `{"a": 1, "other": 2}`, false},
				{"", "add", `{"a": 1, "note": "` + deepDone + deepEnd + kimiDone + kimiEnd + toolCalls + `"}`, true},
			} {
				checkRequired(t, &f, form.typed, c.tool, c.name, c.arguments, form.call(c.name, c.arguments), c.want)
			}
			for _, end := range []string{parameterEnd + valueEnd, callEnd + seedEnd + parameterEnd + valueEnd,
				gemmaEnd, dsml} {
				arguments := `{"a": 1, "note": "` + end + `"}`
				checkRequired(t, &f, form.typed, "", "add", arguments, form.call("add", arguments), !form.typed ||
					!strings.Contains(end, form.barred))
			}
			if form.lists {
				testNestedCalls(t, &f, form.call)
			}
			testRequiredErrors(t, &f, form.typed && !form.lists)
		})
	}
	f, _ := New(None, None, "")
	_, err := f.Required(someTools, "", false)
	if err == nil || !strings.Contains(err.Error(), "has no form of tool calls that Quire knows") {
		t.Error(err)
	}
	for parser, want := range map[string]string{"pythonic": "its name is none that Python can read",
		"gemma4": "its name has other characters", "openai": "its name has other characters"} {
		f, _ := New(None, parser, "")
		_, err := f.Required(`[{"function": {"name": "1(a"}}]`, "", false)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", parser, err)
		}
	}
}

// testNestedCalls looks at values within others.
func testNestedCalls(t *testing.T, f *Forms, call func(name, arguments string) string) {
	const tools = `[{"function": {"name": "f", "parameters": {"type": "object", "properties": {
		"texts": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
		"at": {"type": "array", "items": {"type": "array", "items": {"type": ["number", "boolean", "null"]}}}}}}}]`
	form, err := f.Required(tools, "f", false)
	if err != nil {
		t.Fatal(err)
	}
	a, err := grammar.Alternatives([]byte(form), grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]bool{
		`{"texts": ["a<|call|></function_calls>ü", ""]}`: true,
		`{"at": [[1.5, -2e30], [], [true, null]]}`:       true,
		`{"texts": ["x"], "at": []}`:                     true,
		`{}`:                                             true,
		`{"texts": []}`:                                  false,
		`{"texts": ["a", "b", "c"]}`:                     false,
		`{"at": [["x"]]}`:                                false,
	} {
		text := call("f", arguments)
		if strings.Contains(text, "at=") {
			text = strings.NewReplacer("true", "True", "null", "None").Replace(text)
		}
		if got := accepts(a, text); got != want {
			t.Errorf("%s is accepted: %v", text, got)
		}
		if p := f.Parse(text, false, tools); want && (len(p.ToolCalls) != 1 || p.ToolCalls[0].Arguments != arguments) {
			t.Errorf("%q is read as %+v", text, p)
		}
	}
}

// References in parameters are to these, whatever form the call has.
func TestRequiredReferences(t *testing.T) {
	const tools = `[{"function": {"name": "f", "parameters": {"$defs": {"Color": {"enum": ["red", "blue"], "type": "string"},
		"Point": {"type": "object", "properties": {"y": {"type": "integer"}, "x": {"type": "integer"}},
		"required": ["y", "x"], "additionalProperties": false}, "a/b": {"$ref": "#/$defs/Color"}},
		"properties": {"c": {"$ref": "#/$defs/a~1b", "description": "a color"}, "p": {"$ref": "#/$defs/Point"}},
		"required": ["c"], "type": "object"}}}]`
	const tree = `[{"function": {"name": "f", "parameters": {"type": "object", "properties": {"n": {"$ref": "#"},
		"v": {"type": "integer"}}, "required": ["v"]}}}]`
	for name, calls := range map[string][3]string{
		"hermes": {`<tool_call>
{"name": "f", "arguments": {"c": "red", "p": {"y": 1, "x": 2}}}
</tool_call>`, "green", `<tool_call>
{"name": "f", "arguments": {"n": {"n": {"v": 1}, "v": 2}, "v": 3}}
</tool_call>`},
		"llama3_json": {`{"name": "f", "parameters": {"c": "red", "p": {"y": 1, "x": 2}}}`, "green",
			`{"name": "f", "parameters": {"n": {"v": 2}, "v": 3}}`},
		"pythonic": {`[f(c="red", p={"y": 1, "x": 2})]`, "green", ""},
	} {
		f, err := New(None, name, "")
		if err != nil {
			t.Fatal(err)
		}
		form, err := f.Required(tools, "f", false)
		if err != nil {
			t.Fatal(name, err)
		}
		a, err := grammar.Alternatives([]byte(form), grammar.Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		if !accepts(a, calls[0]) || accepts(a, strings.ReplaceAll(calls[0], "red", calls[1])) {
			t.Errorf("%s: %q is not accepted, or with %q it is: %s", name, calls[0], calls[1], form)
		}
		form, err = f.Required(tree, "f", false)
		if calls[2] == "" {
			if err == nil || !strings.Contains(err.Error(), `a $ref "#" within what it names`) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if a, err = grammar.Alternatives([]byte(form), grammar.Options{}); err != nil {
			t.Fatal(name, err)
		}
		if !accepts(a, calls[2]) || accepts(a, strings.Replace(calls[2], `"v"`, `"w"`, 1)) {
			t.Errorf("%s: %q is not accepted, or another: %s", name, calls[2], form)
		}
	}
}

// checkRequired checks whether a call is accepted, and if so that it is read as that call.
func checkRequired(t *testing.T, f *Forms, typed bool, tool, name, arguments, text string, want bool) {
	t.Helper()
	form, err := f.Required(requiredTools, tool, false)
	if err != nil {
		t.Fatal(err)
	}
	a, err := grammar.Alternatives([]byte(form), grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if accepts(a, text) != want {
		t.Errorf("tool %q: %q is accepted: %v", tool, text, !want)
	}
	if !want {
		return
	}
	p := f.Parse(text, false, requiredTools)
	if len(p.ToolCalls) != 1 || p.ToolCalls[0].Name != name || p.ToolCalls[0].Arguments != arguments && !typed ||
		p.Text != "" {
		t.Errorf("%q is read as %+v", text, p)
		return
	}
	var got, meant any
	if json.Unmarshal([]byte(p.ToolCalls[0].Arguments), &got) != nil ||
		json.Unmarshal([]byte(arguments), &meant) != nil || !reflect.DeepEqual(got, meant) {
		t.Errorf("%q is read as %+v, want %s", text, p, arguments)
	}
}

func testRequiredErrors(t *testing.T, f *Forms, typed bool) {
	of := func(parameters string) string {
		return `[{"function": {"name": "f", "parameters": ` + parameters + `}}]`
	}
	cases := [][3]string{
		{"[]", "", "there are no tools"},
		{requiredTools, "sub", "no tool is called sub"},
		{"{", "", "tools: "},
		{`[{"type": "function"}]`, "", "a tool has no function with a name"},
		{of(`{"$ref": "#/$defs/a"}`), "", `the tool f: its parameters have a $ref "#/$defs/a", which names nothing`},
		{of(`{"type": "string"}`), "", "are of type string, and must be"},
		{of(`1`), "", "the tool f: its parameters are not a JSON schema"},
	}
	if typed {
		cases = append(cases, [][3]string{
			{of(`{"properties": {"a": {}}}`), "", "its argument a has a schema of text within JSON"},
			{of(`{"properties": {"a": {"type": "array", "items": {"type": "string"}}}}`), "", "of text within JSON"},
			{of(`{"properties": {"a": {"type": "string", "pattern": "x"}}}`), "", "its argument a has pattern, which"},
			{of(`{"properties": {"a b": {"type": "integer"}}}`), "", "argument a b has a name with other characters"},
			{of(`{"properties": {"a": true}}`), "", "its argument a has a schema that is not an object"},
			{of(`{"required": ["a"]}`), "", "its argument a is required, and has no schema"},
			{of(`{"minProperties": 1}`), "", "its parameters have minProperties, which"},
			{`[{"function": {"name": "a>b"}}]`, "", "the tool a>b: its name has other characters"},
		}...)
	}
	for _, c := range cases {
		if _, err := f.Required(Tools(c[0]), c[1], false); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: got %v, want %q", c[0], err, c[2])
		}
	}
}
