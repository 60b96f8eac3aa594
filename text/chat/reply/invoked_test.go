package reply

import (
	"reflect"
	"strings"
	"testing"
)

// TestInvokedCalls takes calls out of the forms of Gemma 4, Kimi K2, DeepSeek V3.2, Granite and Phi-4-mini.
func TestInvokedCalls(t *testing.T) {
	add := ToolCall{Name: "add", Arguments: `{"a": 1, "b": "two"}`}
	none := ToolCall{Name: "f", Arguments: "{}"}
	withID := func(c ToolCall, id string) ToolCall { c.ID = id; return c }
	deep := "<|tool_call>call:f{a:" + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + "}<tool_call|>"
	const invoke = `<D|invoke name="add">` + "\n" + `<D|parameter name="a" string="false">1</D|parameter>` + "\n" +
		`<D|parameter name="b" string="true">two</D|parameter>` + "\n</D|invoke>\n"
	kimi := func(id, arguments string) string { return kimiCall + id + kimiArgs + arguments + kimiDone }
	for parser, cases := range map[string][]callCase{
		"gemma4": {
			{"one", `<|tool_call>call:add{a:1,b:<|"|>two<|"|>}<tool_call|>`, []ToolCall{add}, ""},
			{"two", `I do.<|tool_call>call:add{a:1, b:<|"|>two<|"|>}<tool_call|><|tool_call>call:f{}<tool_call|>`,
				[]ToolCall{add, none}, "I do."},
			{"all types", `<|tool_call>call:f{a:-1.5,b:true,c:None,d:[],e:{x:[<|"|>y, }<|"|>,2]},` +
				`f:two words,<|"|>g h<|"|>:1}<tool_call|>`, []ToolCall{{Name: "f", Arguments: `{"a": -1.5, "b": true, ` +
				`"c": null, "d": [], "e": {"x": ["y, }", 2]}, "f": "two words", "g h": 1}`}}, ""},
			{"cut off", `<|tool_call>call:add{a:1,b:<|"|>tw`, nil, `<|tool_call>call:add{a:1,b:<|"|>tw`},
			{"a key twice", `<|tool_call>call:f{a:1,a:2}<tool_call|>`, nil, `<|tool_call>call:f{a:1,a:2}<tool_call|>`},
			{"no call", "How can I help?", nil, "How can I help?"},
			{"deep", deep, nil, deep},
		},
		"kimi_k2": {
			{"two", "I do.\n" + kimiStart + kimi("functions.add:0", add.Arguments) + kimi("functions.f:1", "{}") +
				kimiEnd,
				[]ToolCall{withID(add, "functions.add:0"), withID(none, "functions.f:1")}, "I do."},
			{"marks of one", kimiOneStart + kimi("functions.f:0", "{}") + kimiOneEnd + "So.",
				[]ToolCall{withID(none, "functions.f:0")}, "So."},
			{"no section", kimi("functions.f:0", "{}"), nil, kimi("functions.f:0", "{}")},
			{"no object", kimiStart + kimi("functions.f:0", "1") + kimiEnd, nil,
				kimiStart + kimi("functions.f:0", "1") + kimiEnd},
		},
		"deepseek_v32": {
			{"one", "I do.\n\n<D|function_calls>\n" + invoke + "</D|function_calls>", []ToolCall{add}, "I do."},
			{"two", "<D|tool_calls>\n" + invoke + `<D|invoke name="f"></D|invoke></D|tool_calls>`,
				[]ToolCall{add, none}, ""},
			{"no JSON", `<D|tool_calls><D|invoke name="f"><D|parameter name="a" string="false">x</D|parameter>` +
				`</D|invoke></D|tool_calls>`, nil, `<D|tool_calls><D|invoke name="f"><D|parameter name="a" ` +
				`string="false">x</D|parameter></D|invoke></D|tool_calls>`},
			{"cut off", "<D|tool_calls>" + `<D|invoke name="f"><D|parameter`, nil,
				"<D|tool_calls>" + `<D|invoke name="f"><D|parameter`},
		},
		"granite": {
			{"two", `<|tool_call|>[{"name": "add", "arguments": {"a": 1, "b": "two"}}, {"name": "f", "arguments": {}}]`,
				[]ToolCall{add, none}, ""},
			{"of 3.1", `<tool_call> [{"name": "f", "arguments": {}}]`, []ToolCall{none}, ""},
			{"cut off", `<|tool_call|>[{"name": "f"`, nil, `<|tool_call|>[{"name": "f"`},
		},
		"phi4_mini_json": {
			{"two", `functools[{"name": "add", "arguments": {"a": 1, "b": "two"}}, {"name": "f", "parameters": {}}]`,
				[]ToolCall{add, none}, ""},
			{"cut off", `functools[{"name": "f"`, nil, `functools[{"name": "f"`},
		},
	} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		marks := strings.NewReplacer("D|", dsml)
		for _, c := range cases {
			p := f.Parse(marks.Replace(c.text), false, someTools)
			if !reflect.DeepEqual(p.ToolCalls, c.want) || p.Text != marks.Replace(c.rest) {
				t.Errorf("%s, %s: %q is %+v", parser, c.name, c.text, p)
			}
		}
	}
}

// TestGraniteThinks takes a completion of Granite 3.2 apart, whose marks are words.
func TestGraniteThinks(t *testing.T) {
	f, err := New(Auto, None, "Write your thoughts after 'Here is my thought process:' and write your response after "+
		"'Here is my response:'")
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []string{"Here is", "Here's"} {
		text := is + " my thought process:\n\nHm.\n\n" + is + " my response:\n\nYes."
		if p := f.Parse(text, false, ""); p.Reasoning != "Hm." || p.Text != "Yes." {
			t.Errorf("%s: %+v", is, p)
		}
	}
}
