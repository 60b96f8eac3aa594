package reply

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestReasoning splits completions whose reasoning is whole, truncated, started in the prompt, or missing. The cases
// follow vLLM's tests of its parsers, in our own words.
func TestReasoning(t *testing.T) {
	for _, tags := range []struct{ parser, start, end string }{
		{"qwen3", "<think>", "</think>"}, {"deepseek_r1", "<think>", "</think>"}, {"mistral", "[THINK]", "[/THINK]"},
		{"seed_oss", "<seed:think>", "</seed:think>"}, {"gemma4", "<|channel>", "<channel|>"},
	} {
		f, err := New(tags.parser, None, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, text      string
			open            bool
			reasoning, rest string
		}{
			{"marked", "Sa step/Ethe answer", false, "a step", "the answer"},
			{"as templates write it", "S\na step\n/E\n\nthe answer", false, "a step", "the answer"},
			{"behind a newline", "\nSa step/E\nthe answer", false, "a step", "the answer"},
			{"several lines", "Sone\ntwo/Ethree\nfour", false, "one\ntwo", "three\nfour"},
			{"no answer", "Sa step/E", false, "a step", ""},
			{"cut off", "Sa step", false, "a step", ""},
			{"begun in the prompt", "a step/Ethe answer", true, "a step", "the answer"},
			{"begun in the prompt, cut off", "a step", true, "a step", ""},
			{"begun in the prompt and again", "Sa step/Ethe answer", true, "a step", "the answer"},
			{"end mark alone", "a step/Ethe answer", false, "a step", "the answer"},
			{"empty", "S\n\n/E\n\nthe answer", false, "", "the answer"},
			{"ended in the prompt", "the answer", false, "", "the answer"},
			{"nothing", "", false, "", ""},
			{"nothing yet", "", true, "", ""},
			{"marks later on", "One writes S and /E there", false, "", "One writes S and /E there"},
			{"a second end mark", "Sa step/Ethe /E answer", false, "a step", "the /E answer"},
		} {
			marks := strings.NewReplacer("S", tags.start, "/E", tags.end)
			p := f.Parse(marks.Replace(c.text), c.open, "")
			if p.Reasoning != c.reasoning || p.Text != marks.Replace(c.rest) || p.ToolCalls != nil {
				t.Errorf("%s, %s: %q is %+v", tags.parser, c.name, marks.Replace(c.text), p)
			}
		}
	}
	f, _ := New("gemma4", None, "")
	for text, want := range map[string]Parsed{
		"<|channel>thought\na step<channel|>the answer":    {Reasoning: "a step", Text: "the answer"},
		"<|channel>thought<channel|>the answer":            {Text: "the answer"},
		"<|channel>thought\n<channel|>the answer":          {Text: "the answer"},
		"<|channel>thought":                                {},
		"<|channel>thoughts on it<channel|>the answer":     {Reasoning: "thoughts on it", Text: "the answer"},
		"<|channel>thought\nthought\n<channel|>the answer": {Reasoning: "thought", Text: "the answer"},
	} {
		if p := f.Parse(text, false, ""); !reflect.DeepEqual(p, want) {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

func TestOpens(t *testing.T) {
	f, _ := New("qwen3", None, "")
	for prompt, want := range map[string]bool{
		"<|im_start|>assistant\n<think>\n":               true,
		"<|im_start|>assistant\n":                        false,
		"<|im_start|>assistant\n<think>\n\n</think>\n\n": false,
		"<|im_start|>user\nwhat is <think><|im_end|>\n":  false,
	} {
		if f.Opens(prompt) != want {
			t.Errorf("%q: %v", prompt, !want)
		}
	}
	for text, want := range map[string]bool{"<think>\nI": true, "<think>a</think>b": false, "": false,
		"<think>a</think>b<think>": true} {
		if f.Within(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	if f, _ := New("gemma4", None, ""); !f.Opens("<|turn>model\n<|channel>thought\n") || f.Opens("a thought\n") {
		t.Error("the first line of Gemma's reasoning in the prompt")
	}
	var none Forms
	if none.Opens("<think>") {
		t.Error("a model without reasoning")
	}
}

type callCase struct {
	name, text string
	want       []ToolCall
	rest       string
}

// TestToolCalls parses calls in completions. The cases follow vLLM's tests of its parsers, in our own words.
func TestToolCalls(t *testing.T) {
	one := func(name, arguments string) ToolCall { return ToolCall{Name: name, Arguments: arguments} }
	add, sea := one("add", `{"a": 1}`), one("look", `{"at": "the {sea}; [and] \"sky\""}`)
	bodies := func(c ToolCall, key string) string {
		return `{"name": "` + c.Name + `", "` + key + `": ` + c.Arguments + `}`
	}
	a, s := bodies(add, "arguments"), bodies(sea, "arguments")
	for parser, cases := range map[string][]callCase{
		"hermes": {
			{"one", "<tool_call>\n" + a + "\n</tool_call>", []ToolCall{add}, ""},
			{"two", "<tool_call>" + a + "</tool_call>\n<tool_call>" + s + "</tool_call>", []ToolCall{add, sea}, ""},
			{"behind text", "I look.\n<tool_call>\n" + s + "\n</tool_call>", []ToolCall{sea}, "I look."},
			{"before text", "<tool_call>" + s + "</tool_call>\nI wait.", []ToolCall{sea}, "I wait."},
			{"without its end mark", "<tool_call>\n" + a, []ToolCall{add}, ""},
			{"cut off", "<tool_call>\n" + a[:len(a)-1], nil, "<tool_call>\n" + a[:len(a)-1]},
			{"one of two cut off", "<tool_call>" + a + "</tool_call><tool_call>{", []ToolCall{add}, "<tool_call>{"},
			{"without the mark between two", "<tool_call>" + a + "\n<tool_call>" + s + "</tool_call>",
				[]ToolCall{add, sea}, ""},
			{"arguments as text", `<tool_call>{"name": "add", "arguments": "{\"a\": 1}"}</tool_call>`,
				[]ToolCall{add}, ""},
			{"arguments of no object", `<tool_call>{"name": "add", "arguments": "one"}</tool_call>`, nil,
				`<tool_call>{"name": "add", "arguments": "one"}</tool_call>`},
			{"no name", `<tool_call>{"arguments": {}}</tool_call>`, nil, `<tool_call>{"arguments": {}}</tool_call>`},
			{"no arguments", `<tool_call>{"name": "add"}</tool_call>`, nil, `<tool_call>{"name": "add"}</tool_call>`},
			{"more behind the object", "<tool_call>" + a + " and</tool_call>", nil,
				"<tool_call>" + a + " and</tool_call>"},
			{"no call", "a tool_call is none", nil, "a tool_call is none"},
		},
		"llama3_json": {
			{"one", bodies(add, "parameters"), []ToolCall{add}, ""},
			{"the other key", a, []ToolCall{add}, ""},
			{"two", bodies(add, "parameters") + "; " + bodies(sea, "parameters"), []ToolCall{add, sea}, ""},
			{"two by lines", bodies(add, "parameters") + "\n" + bodies(sea, "parameters"), []ToolCall{add, sea}, ""},
			{"python tag", "<|python_tag|>" + bodies(add, "parameters"), []ToolCall{add}, ""},
			{"in text", "I look. " + bodies(sea, "parameters") + " Shall I {go on}?", []ToolCall{sea},
				"I look. Shall I {go on}?"},
			{"an object of the text", bodies(add, "parameters") + ` with {"a": 1}`, []ToolCall{add}, `with {"a": 1}`},
			{"nested", `{"name": "add", "parameters": {"a": {"b": {"c": [1]}}}}`,
				[]ToolCall{one("add", `{"a": {"b": {"c": [1]}}}`)}, ""},
			{"empty", `{"name": "add", "parameters": {}}`, []ToolCall{one("add", "{}")}, ""},
			{"cut off", `{"name": "add", "parameters": {`, nil, `{"name": "add", "parameters": {`},
			{"no name", `{"parameters": {}}`, nil, `{"parameters": {}}`},
			{"no arguments", `{"name": "add"}`, nil, `{"name": "add"}`},
			{"no call", "nothing; to call", nil, "nothing; to call"},
		},
		"mistral": {
			{"list", "[TOOL_CALLS][" + a + "]", []ToolCall{add}, ""},
			{"list of two", "[TOOL_CALLS] [" + a + ", " + s + "]", []ToolCall{add, sea}, ""},
			{"behind text", "I look.[TOOL_CALLS] [" + s + "]", []ToolCall{sea}, "I look."},
			{"before text", "[TOOL_CALLS] [" + s + "]\nI wait.", []ToolCall{sea}, "I wait."},
			{"arguments first", `[TOOL_CALLS] [{"arguments": {"a": 1}, "name": "add"}]`, []ToolCall{add}, ""},
			{"with an id", `[TOOL_CALLS] [{"name": "add", "arguments": {"a": 1}, "id": "abcdefghi"}]`,
				[]ToolCall{{"abcdefghi", "add", `{"a": 1}`}}, ""},
			{"by name", `[TOOL_CALLS]add{"a": 1}`, []ToolCall{add}, ""},
			{"two by name", `[TOOL_CALLS]add{"a": 1}[TOOL_CALLS]look` + sea.Arguments, []ToolCall{add, sea}, ""},
			{"by name with arguments marked", `[TOOL_CALLS]add[ARGS]{"a": 1}`, []ToolCall{add}, ""},
			{"by name with an id", `[TOOL_CALLS]add[CALL_ID]abcdefghi[ARGS]{"a": 1}`,
				[]ToolCall{{"abcdefghi", "add", `{"a": 1}`}}, ""},
			{"cut off", `[TOOL_CALLS]add{"a": 1`, nil, `[TOOL_CALLS]add{"a": 1`},
			{"one of a list cut off", `[TOOL_CALLS][` + a + `, {"name": "f`, []ToolCall{add}, `{"name": "f`},
			{"one of a list is none", `[TOOL_CALLS][{"name": "f"}, ` + a + `] So.`, []ToolCall{add},
				`{"name": "f"} So.`},
			{"list cut off", `[TOOL_CALLS][{"name": "add"`, nil, `[TOOL_CALLS][{"name": "add"`},
			{"no object", "[TOOL_CALLS] nothing", nil, "[TOOL_CALLS] nothing"},
			{"no name", `[TOOL_CALLS]{"a": 1}`, nil, `[TOOL_CALLS]{"a": 1}`},
			{"no call", "TOOL_CALLS", nil, "TOOL_CALLS"},
		},
	} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			p := f.Parse(c.text, false, "")
			if !reflect.DeepEqual(p.ToolCalls, c.want) || p.Text != c.rest {
				t.Errorf("%s, %s: %q is %+v", parser, c.name, c.text, p)
			}
		}
	}
}

// TestBoth looks for calls in the answer alone, whether the reasoning stays in the text or not.
func TestBoth(t *testing.T) {
	const text = "<think>\nI could <tool_call>{}</tool_call>.\n</think>\n\nI do.\n" +
		`<tool_call>{"name": "f", "arguments": {}}</tool_call>`
	f, err := New("qwen3", "hermes", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []ToolCall{{Name: "f", Arguments: "{}"}}
	p := f.Parse(text, false, "")
	if !reflect.DeepEqual(p, Parsed{"I could <tool_call>{}</tool_call>.", "I do.", want}) {
		t.Errorf("%+v", p)
	}
	f.KeepReasoning = true
	p = f.Parse(text, false, "")
	if !reflect.DeepEqual(p, Parsed{"", text[:strings.Index(text, "\n<tool_call>{\"name")], want}) {
		t.Errorf("%+v", p)
	}
}

// TestCallsAmongOthers finds the calls of each format in reasoning that does not end, between texts, and next to a
// truncated call.
func TestCallsAmongOthers(t *testing.T) {
	for name, form := range requiredForms {
		for parser, marks := range map[string][2]string{"qwen3": {"<think>", "</think>"},
			"mistral": {"[THINK]", "[/THINK]"}, "seed_oss": {"<seed:think>", "</seed:think>"},
			"gemma4": {"<|channel>thought\n", "<channel|>"}} {
			f, err := New(parser, form.parser, form.template)
			if err != nil {
				t.Fatal(err)
			}
			call := form.call("add", `{"a": 1}`)
			want := []ToolCall{{Name: "add", Arguments: `{"a": 1}`}}
			expect := func(text string, open bool, want Parsed) {
				t.Helper()
				p := f.Parse(text, open, someTools)
				for i := range p.ToolCalls {
					p.ToolCalls[i].ID = ""
				}
				if !reflect.DeepEqual(p, want) {
					t.Errorf("%s: %q is %+v", name, text, p)
				}
			}
			expect(marks[0]+"so\n"+marks[1]+"\n\n"+call, false, Parsed{"so", "", want})
			// One that is closed is reasoning.
			expect(marks[0]+"so"+call+marks[1]+"yes", false, Parsed{Reasoning: "so" + call, Text: "yes"})
			if f.calls.whole == nil {
				expect("Yes.\n\n"+call+"\n\nThen.", false, Parsed{"", "Yes.\n\nThen.", want})
				expect("Yes. "+call, false, Parsed{"", "Yes.", want})
			}
			if !f.calls.marked() {
				expect(marks[0]+"so"+call, false, Parsed{Reasoning: "so" + call})
				continue
			}
			expect(marks[0]+"so\n"+call, false, Parsed{"so", "", want})
			expect("so"+call, true, Parsed{"so", "", want})
			expect(marks[0]+"so"+call+"\n"+marks[1]+"\n", false, Parsed{"so", "", want})
			expect(call+"\nThen.", true, Parsed{"", "Then.", want})
			start := f.calls.starts[0]
			expect(marks[0]+"so "+start+"` is a mark", false, Parsed{Reasoning: "so " + start + "` is a mark"})
			expect(marks[0]+"so "+start, false, Parsed{Reasoning: "so " + start})
			f.KeepReasoning = true
			expect(marks[0]+"so\n"+call, false, Parsed{"", marks[0] + "so\n", want})
		}
	}
}

// TestGoodCallsStay reads the calls that follow their form where others do not, and leaves these in the text.
func TestGoodCallsStay(t *testing.T) {
	const tools = `[{"function": {"name": "f", "parameters": {"properties": {"n": {"type": "integer"}}}}}]`
	item := func(n int) string { return `{"name": "f", "arguments": {"n": ` + strconv.Itoa(n) + `}}` }
	kimi := func(n int) string {
		return kimiCall + "functions.f:0" + kimiArgs + `{"n": ` + strconv.Itoa(n) + `}` + kimiDone
	}
	deep := func(n int) string { return deepCall + "f" + deepSep + `{"n": ` + strconv.Itoa(n) + `}` + deepDone }
	invoke := func(n int) string {
		return invokeStart + `f">` + givenStart + `n" string="false">` + strconv.Itoa(n) + givenEnd + "\n" + invokeEnd
	}
	gemma := func(n int) string { return gemmaStart + "call:f{n:" + strconv.Itoa(n) + "}" + gemmaEnd }
	glm := func(n int) string {
		return callStart + "f\n" + keyStart + "n" + keyEnd + valueStart + strconv.Itoa(n) + valueEnd + callEnd
	}
	coder := func(n int) string {
		return callStart + "<function=f><parameter=n>" + strconv.Itoa(n) + "</parameter></function>" + callEnd
	}
	hermes := func(n int) string { return callStart + item(n) + callEnd }
	for parser, of := range map[string]struct {
		one                    func(n int) string
		before, between, after string
		bad                    []string
	}{
		"hermes": {hermes, "", "\n", "", []string{callStart + `{"name": "f"}` + callEnd,
			callStart + `{"name": ` + callEnd}},
		"mistral":        {item, toolCalls + "[", ", ", "]", []string{`{"name": "f"}`, "7"}},
		"granite":        {item, graniteCall + "[", ", ", "]", []string{`{"name": "f"}`, "[]"}},
		"phi4_mini_json": {item, phiCalls + "[", ", ", "]", []string{`{"name": "f"}`}},
		"llama3_json":    {item, "", "; ", "", []string{`{"name": "f"}`}},
		"qwen3_coder": {coder, "", "\n", "", []string{callStart + "<function=f><parameter=n>1" + callEnd,
			callStart + "f" + callEnd, callStart + "<function=f>1</function>" + callEnd}},
		"glm45":  {glm, "", "\n", "", []string{callStart + "f" + keyStart + "n" + keyEnd + "1" + callEnd}},
		"gemma4": {gemma, "", "", "", []string{gemmaStart + "call:f{n:1" + gemmaEnd, gemmaStart + "f{}" + gemmaEnd}},
		"kimi_k2": {kimi, kimiStart, "", kimiEnd, []string{
			kimiCall + "functions.f:0" + kimiArgs + `{"n": 1` + kimiDone, kimiCall + "f" + kimiDone, "so"}},
		"deepseek_v3": {deep, deepStart, "\n", deepEnd, []string{deepCall + "f" + deepSep + `{"n": 1` + deepDone,
			deepCall + "f{}" + deepDone}},
		"deepseek_v4": {invoke, blockStart[1] + "\n", "\n", "\n" + blockEnd[1], []string{
			invokeStart + `f">` + givenStart + `n">1` + givenEnd + invokeEnd,
			invokeStart + `f">` + givenStart + `n" string="false">one` + givenEnd + invokeEnd}},
	} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range of.bad {
			for at := range 3 {
				parts := []string{of.one(1), of.one(2)}
				parts = slices.Insert(parts, at, bad)
				text := of.before + strings.Join(parts, of.between) + of.after
				p := f.Parse(text, false, tools)
				if len(p.ToolCalls) != 2 || p.ToolCalls[0].Arguments != `{"n": 1}` ||
					p.ToolCalls[1].Arguments != `{"n": 2}` || !strings.Contains(p.Text, bad) {
					t.Errorf("%s: %q is %+v", parser, text, p)
				}
			}
		}
	}
}

// TestAuto chooses the forms by the templates of the families.
func TestAuto(t *testing.T) {
	for file, want := range map[string]string{
		"chatml": "", "llama2": "", "llama3": "", "smollm2": "", "mistral-v0.1": "",
		"llama3.1": " llama3_json", "llama3.2": " llama3_json", "mistral-v0.3": " mistral", "qwen2.5": " hermes",
		"qwen3": "<think> hermes", "smollm3": "<think> hermes",
	} {
		template, err := os.ReadFile(filepath.Join("../testdata/templates", file+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := New(Auto, Auto, string(template))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if f.HasReasoning() {
			got = f.reasoning.start
		}
		if f.HasCalls() {
			got += " " + f.calls.names[0]
		}
		if got != want {
			t.Errorf("%s has %q, want %q", file, got, want)
		}
	}
	for _, names := range [][2]string{{"qwen4", None}, {None, "qwen4"}} {
		if _, err := New(names[0], names[1], ""); err == nil || !strings.HasPrefix(err.Error(),
			`is "qwen4", but must be auto, none, mistral, `) {
			t.Errorf("%v", err)
		}
	}
}

func TestIdentify(t *testing.T) {
	f, _ := New(None, "mistral", "")
	p := f.Parse(`[TOOL_CALLS]a{}[TOOL_CALLS]b[CALL_ID]123456789[ARGS]{}`, false, "")
	f.Identify(&p, "row", 0)
	if len(p.ToolCalls[0].ID) != 9 || p.ToolCalls[1].ID != "123456789" {
		t.Errorf("%+v", p.ToolCalls)
	}
	f, _ = New(None, "hermes", "")
	seen := map[string]bool{}
	for _, row := range []string{"a", "b", "1 a"} {
		for generation := range 3 {
			p := Parsed{ToolCalls: make([]ToolCall, 3)}
			f.Identify(&p, row, generation)
			for _, c := range p.ToolCalls {
				if seen[c.ID] || len(c.ID) != len("call_")+24 {
					t.Errorf("id %q", c.ID)
				}
				seen[c.ID] = true
			}
		}
	}
	p = Parsed{ToolCalls: []ToolCall{{"call_1", "f", `{"a": "<&>"}`}}}
	const want = `[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\": \"<&>\"}"}}]`
	if got := p.JSON(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestCallsComeBack writes calls as each family does, and reads them.
func TestCallsComeBack(t *testing.T) {
	write := map[string]func(name, arguments string) string{
		"hermes": func(name, arguments string) string {
			return "<tool_call>\n{\"name\": " + name + ", \"arguments\": " + arguments + "}\n</tool_call>\n"
		},
		"llama3_json": func(name, arguments string) string {
			return `{"name": ` + name + `, "parameters": ` + arguments + "};"
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z_]{1,8}`), 1, 4).Draw(t, "names")
		values := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "values")
		arguments, _ := marshal(values)
		for parser, one := range write {
			f, _ := New(None, parser, "")
			text := ""
			var want []ToolCall
			for _, name := range names {
				quoted, _ := json.Marshal(name)
				text += one(string(quoted), string(arguments))
				want = append(want, ToolCall{Name: name, Arguments: string(arguments)})
			}
			p := f.Parse(strings.TrimSuffix(text, ";"), false, "")
			if !reflect.DeepEqual(p.ToolCalls, want) || p.Text != "" {
				t.Fatalf("%s: %q is %+v", parser, text, p)
			}
		}
	})
}

// FuzzParse takes anything apart: parts are of the text, and arguments are objects.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"<think>a</think>b", "[f(a=1, b=['x', {'y': None}])]",
		`<|tool_call>call:f{a:[<|"|>x<|"|>,{b:1}],c:None}<tool_call|>`,
		"<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]",
		"<" + dsml + "tool_calls>" + invokeStart + `f">` + givenStart + `a" string="true">b` + givenEnd + invokeEnd,
		kimiStart + kimiCall + "functions.f:0" + kimiArgs + "{}" + kimiDone + kimiEnd,
		"<function_calls>\nf(a=-.5)\n</function_calls>",
		"<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
		"<tool_call><function=f><parameter=a>1</parameter></function></tool_call>",
		"<|channel|>analysis<|message|>a<|end|><|channel|>commentary to=functions.f<|message|>{}<|call|>",
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>" +
			"<｜tool▁calls▁end｜>", "[THINK]a[/THINK][TOOL_CALLS]f[ARGS]{}",
		`{"name":"f","parameters":{}};`,
		`<tool_call>{"name":"f","arguments":"{}"}</tool_call>`, `[TOOL_CALLS][{"name":"f","arguments":{}}]`} {
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, open bool) {
		for _, reasoning := range ReasoningNames() {
			for _, calls := range ToolCallNames() {
				forms, err := New(reasoning, calls, text)
				if err != nil {
					t.Fatal(err)
				}
				p := forms.Parse(text, open, "")
				several := forms.reasoning != nil && forms.reasoning.harmony // messages, joined
				if !several && !strings.Contains(text, p.Reasoning) || len(p.Reasoning)+len(p.Text) > len(text) {
					t.Fatalf("%s %s: %q is %+v", reasoning, calls, text, p)
				}
				if !several && len(p.ToolCalls) == 0 && !strings.Contains(text, p.Text) {
					t.Fatalf("%s %s: %q is %+v", reasoning, calls, text, p)
				}
				for _, c := range p.ToolCalls {
					var object map[string]any
					if c.Name == "" || json.Unmarshal([]byte(c.Arguments), &object) != nil {
						t.Fatalf("%s: %q has the call %+v", calls, text, c)
					}
				}
				forms.KeepReasoning = true
				if q := forms.Parse(text, open, ""); q.Reasoning != "" || len(q.ToolCalls) == 0 && q.Text != text {
					t.Fatalf("%s %s: %q keeps %+v", reasoning, calls, text, q)
				}
			}
		}
	})
}
