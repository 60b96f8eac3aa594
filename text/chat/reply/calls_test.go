package reply

import (
	"reflect"
	"strings"
	"testing"
)

const someTools = `[{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
	"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "object"}, "d": {"type": ["boolean", "null"]},
	"e": {"anyOf": [{"type": "number"}]}}}}}]`

// TestMarkedCalls parses calls in Python's syntax, with marks for each argument, and in messages. The cases follow
// vLLM's tests of its parsers, in our own words.
func TestMarkedCalls(t *testing.T) {
	one := func(name, arguments string) ToolCall { return ToolCall{Name: name, Arguments: arguments} }
	add := one("add", `{"a": 1, "b": "two"}`)
	const xml = "<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\ntwo\n</parameter>\n</function>"
	const glm = "add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n" +
		"<arg_key>b</arg_key>\n<arg_value>two</arg_value>\n"
	const twice = "<tool_call><function=f><parameter=a>1</parameter><parameter=a>1</parameter></function></tool_call>"
	const call = "<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>" +
		`{"a": 1, "b": "two"}<|call|>`
	for parser, cases := range map[string][]callCase{
		"pythonic": {
			{"one", "[add(a=1, b='two')]", []ToolCall{add}, ""},
			{"two", `[add(a=1, b="two"), look.up()]`, []ToolCall{add, one("look.up", "{}")}, ""},
			{"between marks", "<|python_start|>[add(a=1, b='two')]<|python_end|>", []ToolCall{add}, ""},
			{"all types", `[f(a=-1.5, b=True, c=None, d=[], e={}, f={'x': ["y", 2]}, g=(1, 2), h=.5, i=1e3,)]`,
				[]ToolCall{one("f", `{"a": -1.5, "b": true, "c": null, "d": [], "e": {}, "f": {"x": ["y", 2]}, `+
					`"g": [1, 2], "h": 0.5, "i": 1e3}`)}, ""},
			{"escapes", `[f(a='Martha\'s', b='"cool"\n\t\\ \x41\u00e9 \q')]`,
				[]ToolCall{one("f", `{"a": "Martha's", "b": "\"cool\"\n\t\\ Aé \\q"}`)}, ""},
			{"no call", "How can I help?", nil, "How can I help?"},
			{"behind text", "I do [add(a=1)]", nil, "I do [add(a=1)]"},
			{"cut off", "[add(a=1, b='tw", nil, "[add(a=1, b='tw"},
			{"the second malformed", "[add(a=1, b='two'), look(1), f()]", []ToolCall{add}, "look(1), f()"},
			{"the second cut off", "<|python_start|>[add(a=1, b='two'), look(", []ToolCall{add}, "look("},
			{"a call in a text", "[add(a=1) adds]", nil, "[add(a=1) adds]"},
			{"an argument without a name", "[add(1)]", nil, "[add(1)]"},
			{"an argument twice", "[add(a=1, a=2)]", nil, "[add(a=1, a=2)]"},
			{"no number of JSON", "[add(a=1e999)]", nil, "[add(a=1e999)]"},
			{"brackets that do not match", "[add(a=1])]", nil, "[add(a=1])]"},
			{"a broken quote", "[add(a='x 'y')]", nil, "[add(a='x 'y')]"},
			{"bytes", "[add(a=b'z')]", nil, "[add(a=b'z')]"},
			{"deep", "[f(a=" + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + ")]", nil,
				"[f(a=" + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + ")]"},
		},
		"olmo3": {
			{"two in lines", "<function_calls>\nadd(a=1, b='two')\nlook(x=null)\n</function_calls>",
				[]ToolCall{add, one("look", `{"x": null}`)}, ""},
			{"in text", "I do.\n<function_calls>add(a=1, b='two')</function_calls>\nI wait.", []ToolCall{add},
				"I do.\nI wait."},
			{"a line that is no call", "<function_calls>\nadd(a=)\nadd(a=1, b='two')\n</function_calls>",
				[]ToolCall{add}, "add(a=)"},
			{"cut off", "<function_calls>\nadd(a=1)", nil, "<function_calls>\nadd(a=1)"},
		},
		"lfm2": {
			{"two", "<|tool_call_start|>[add(a=1, b='two'), look.up()]<|tool_call_end|>",
				[]ToolCall{add, one("look.up", "{}")}, ""},
			{"before text", "<|tool_call_start|> [add(a=1, b='two')]<|tool_call_end|>\nI look.", []ToolCall{add},
				"I look."},
			{"lines in a text", "<|tool_call_start|>[f(a='x\ny]')]<|tool_call_end|>",
				[]ToolCall{one("f", `{"a": "x\ny]"}`)}, ""},
			{"one is bytes", "<|tool_call_start|>[add(a=1, b='two'), bad(x=b'z')]<|tool_call_end|>", []ToolCall{add},
				"bad(x=b'z')"},
			{"JSON", `<|tool_call_start|>[{"name": "add", "arguments": {"a": 1, "b": "two"}}]<|tool_call_end|>`,
				[]ToolCall{add}, ""},
			{"an object", "<|tool_call_start|>\n" + `{"name": "f", "arguments": {}}` + "\n<|tool_call_end|>",
				[]ToolCall{one("f", "{}")}, ""},
			{"empty", "<|tool_call_start|>[ ]<|tool_call_end|>", nil, "<|tool_call_start|>[ ]<|tool_call_end|>"},
			{"cut off", "<|tool_call_start|>[add(a=1", nil, "<|tool_call_start|>[add(a=1"},
			{"no call", "How can I help?", nil, "How can I help?"},
		},
		"qwen3_coder": {
			{"one", "<tool_call>\n" + xml + "\n</tool_call>", []ToolCall{add}, ""},
			{"in text", "I do.\n<tool_call>" + xml + "</tool_call>\nI wait.", []ToolCall{add},
				"I do.\nI wait."},
			{"in a line", "I do. <tool_call>" + xml + "</tool_call> I wait.", []ToolCall{add}, "I do. I wait."},
			{"in paragraphs", "I do.\n\n<tool_call>" + xml + "</tool_call>\nI wait.", []ToolCall{add},
				"I do.\n\nI wait."},
			{"next to words", "I do.<tool_call>" + xml + "</tool_call>I wait.", []ToolCall{add}, "I do.\nI wait."},
			{"between two", "<tool_call>" + xml + "</tool_call>\nAnd.\n<tool_call>" + xml + "</tool_call>\n",
				[]ToolCall{add, add}, "And."},
			{"without the start mark", xml + "\n</tool_call>", []ToolCall{add}, ""},
			{"without marks", "I do.\n" + xml, []ToolCall{add}, "I do."},
			{"two between marks", "<tool_call>\n" + xml + "\n" + xml + "\n</tool_call>", []ToolCall{add, add}, ""},
			{"two without an end mark", "<tool_call>\n" + xml + "\n<tool_call>\n" + xml + "\n</tool_call>",
				[]ToolCall{add, add}, ""},
			{"words between marks", "Write `<tool_call>` and </tool_call>.", nil,
				"Write `<tool_call>` and </tool_call>."},
			{"two", "<tool_call>" + xml + "</tool_call><tool_call><function=f></function></tool_call>",
				[]ToolCall{add, one("f", "{}")}, ""},
			{"types", "<tool_call><function=add><parameter=b>1</parameter><parameter=c>{\"x\": 1}</parameter>" +
				"<parameter=d>None</parameter><parameter=e>1.5</parameter><parameter=z>2</parameter>" +
				"</function></tool_call>",
				[]ToolCall{one("add", `{"b": "1", "c": {"x": 1}, "d": null, "e": 1.5, "z": "2"}`)}, ""},
			{"not of its type", "<tool_call><function=add><parameter=a>one</parameter></function></tool_call>",
				[]ToolCall{one("add", `{"a": "one"}`)}, ""},
			{"several lines", "<tool_call><function=add><parameter=b>\n x\n\ny\n</parameter></function></tool_call>",
				[]ToolCall{one("add", `{"b": " x\n\ny"}`)}, ""},
			{"cut off", "<tool_call><function=add><parameter=a>", nil, "<tool_call><function=add><parameter=a>"},
			{"an end mark that is missing before the next argument", "<tool_call>" +
				strings.Replace(xml, "1\n</parameter>\n", "1\n", 1) + "</tool_call>", []ToolCall{add}, ""},
			{"all end marks missing", "<tool_call>" + strings.ReplaceAll(xml, "</parameter>\n", "") + "</tool_call>\n" +
				"<tool_call>" + xml + "</tool_call>", []ToolCall{add, add}, ""},
			{"the last end mark missing, and that of the call", strings.ReplaceAll(xml, "two\n</parameter>", "two"),
				[]ToolCall{add}, ""},
			{"a start mark of no argument of the tool", "<tool_call><function=add><parameter=b>x\n<parameter=w>\ny" +
				"</parameter></function></tool_call>", []ToolCall{one("add", `{"b": "x\n<parameter=w>\ny"}`)}, ""},
			{"an end mark of a call in a value", "<function=add><parameter=b></function></tool_call></parameter>" +
				"</function>", nil, "<function=add><parameter=b></function></tool_call></parameter></function>"},
			{"no end mark at all", "<tool_call><function=add><parameter=b>x", nil,
				"<tool_call><function=add><parameter=b>x"},
			{"twice", twice, nil, twice},
		},
		"seed_oss": {
			{"one", "<seed:tool_call>\n" + xml + "\n</seed:tool_call>", []ToolCall{add}, ""},
			{"without the start mark", xml + "\n</seed:tool_call>", []ToolCall{add}, ""},
			{"a header without its end", "<seed:tool_call><function=f</function></seed:tool_call>" +
				"<seed:tool_call>" + xml +
				"</seed:tool_call>", []ToolCall{add}, "<seed:tool_call><function=f</function></seed:tool_call>"},
		},
		"glm45": {
			{"one", "<tool_call>" + glm + "</tool_call>", []ToolCall{add}, ""},
			{"no arguments", "<tool_call>now\n</tool_call>", []ToolCall{one("now", "{}")}, ""},
			{"a mark of the text", "<tool_call> is a mark", nil, "<tool_call> is a mark"},
			{"cut off", "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1", nil,
				"<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1"},
		},
		"deepseek_v3": {
			{"a block", "I do." + deepStart + deepCall + "function" + deepSep + "add\n```json\n" + add.Arguments +
				"\n```" + deepDone + deepEnd, []ToolCall{add}, "I do."},
			{"no block", deepStart + deepCall + "add" + deepSep + add.Arguments + deepDone + deepCall + "f" + deepSep +
				"{}" + deepDone + deepEnd, []ToolCall{add, one("f", "{}")}, ""},
			{"no object", deepStart + deepCall + "add" + deepSep + "1" + deepDone, nil,
				deepStart + deepCall + "add" + deepSep + "1" + deepDone},
		},
		"openai": {
			{"one", call[len("<|start|>assistant"):], []ToolCall{add}, ""},
			{"behind a preamble", "<|channel|>commentary<|message|>I do.<|end|>" + call, []ToolCall{add}, "I do."},
			{"before the answer", call + "<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
				[]ToolCall{add}, "Done."},
			{"recipient with the role",
				"<|start|>assistant to=functions.f<|channel|>commentary json<|message|><|call|>",
				[]ToolCall{one("f", "{}")}, ""},
			{"one is no object", "<|channel|>commentary to=functions.f<|message|>foo<|call|>" + call, []ToolCall{add},
				"<|channel|>commentary to=functions.f<|message|>foo<|call|>"},
			{"no object", "<|channel|>commentary to=functions.f<|message|>foo", nil,
				"<|channel|>commentary to=functions.f<|message|>foo"},
		},
	} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			p := f.Parse(c.text, false, someTools)
			if !reflect.DeepEqual(p.ToolCalls, c.want) || p.Text != c.rest {
				t.Errorf("%s, %s: %q is %+v", parser, c.name, c.text, p)
			}
		}
	}
}

// TestHarmony takes the messages of a completion apart: the analysis, calls, and the rest.
func TestHarmony(t *testing.T) {
	f, err := New(Auto, Auto, "<|channel|>analysis<|message|> <|channel|>final<|message|> <|call|> <|end|>")
	if err != nil {
		t.Fatal(err)
	}
	const think, answer = "<|channel|>analysis<|message|>so<|end|>", "<|start|>assistant<|channel|>final<|message|>yes"
	const call = "<|start|>assistant<|channel|>commentary to=functions.f<|message|>{}<|call|>"
	calls := []ToolCall{{Name: "f", Arguments: "{}"}}
	for _, c := range []struct {
		text string
		open bool
		want Parsed
	}{
		{think + answer + "<|return|>", false, Parsed{Reasoning: "so", Text: "yes"}},
		{think + answer, false, Parsed{Reasoning: "so", Text: "yes"}},
		{think + call, false, Parsed{Reasoning: "so", ToolCalls: calls}},
		{think + "<|start|>assistant" + think + call + answer, false, Parsed{Reasoning: "so\nso", Text: "yes",
			ToolCalls: calls}},
		{"so<|end|>" + answer, true, Parsed{Reasoning: "so", Text: "yes"}},
		{"<|channel|>analysis<|message|>so far", false, Parsed{Reasoning: "so far"}},
		{"plain", false, Parsed{Text: "plain"}},
	} {
		if p := f.Parse(c.text, c.open, ""); !reflect.DeepEqual(p, c.want) {
			t.Errorf("%q: %+v, want %+v", c.text, p, c.want)
		}
	}
	f.KeepReasoning = true
	if p := f.Parse(think+call, false, ""); !reflect.DeepEqual(p, Parsed{Text: think, ToolCalls: calls}) {
		t.Errorf("%+v", p)
	}
}
