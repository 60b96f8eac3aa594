package reply

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/quire/quire/text/grammar"
)

// typedTools has an argument for each way in which a schema defines what it allows.
const typedTools = `[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
	"text": {"type": "string"}, "any": {}, "described": {"description": "it"},
	"textOrNull": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "oneOf": {"oneOf": [{"type": "null"}, {"type": "string"}]},
	"types": {"type": ["string", "null"]}, "untypedEnum": {"enum": ["a", "1"]}, "mixedEnum": {"enum": ["a", 1, null]},
	"const": {"const": "1"}, "constNumber": {"const": 1}, "ref": {"$ref": "#/$defs/Code"},
	"refOrNull": {"anyOf": [{"$ref": "#/$defs/Code"}, {"type": "null"}]}, "all": {"allOf": [{"$ref": "#/$defs/Text"}]},
	"round": {"$ref": "#/$defs/Round"}, "lost": {"$ref": "#/$defs/None"}, "count": {"$ref": "#/$defs/Count"},
	"integer": {"type": "integer"}, "integerOrNull": {"type": ["integer", "null"]}, "textOrInteger": {"type": ["string", "integer"]},
	"pattern": {"anyOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"type": "integer"}]},
	"list": {"type": ["array", "null"], "items": {"type": "string"}}, "textOrList": {"anyOf": [{"type": "string"},
		{"type": "array"}]}, "object": {"type": "object"}, "short": {"type": "string", "enum": ["a"]},
	"python": {"type": "str"}, "made": {"type": "dict"}, "flag": {"type": "boolean"}, "never": false},
	"additionalProperties": {"type": "number"},
	"$defs": {"Code": {"type": "string", "enum": ["1", "x"]}, "Text": {"type": "string"}, "Count": {"type": "integer"}, "None": {"$ref": "#/$defs/no"},
		"Round": {"anyOf": [{"$ref": "#/$defs/Round"}, {"type": "string"}]}}}}},
	{"type": "function", "function": {"name": "g", "parameters": {"$ref": "#/$defs/Of", "$defs": {"Of": {"properties":
		{"zip": {"type": "integer"}}}}}}}]`

// TestTypesOfArguments reads bare text as what the schema of the argument allows.
func TestTypesOfArguments(t *testing.T) {
	p := Tools(typedTools).parametersOf("f")
	for _, c := range [][3]string{
		{"text", "12345", `"12345"`}, {"text", "null", `"null"`}, {"text", `{"a": 1}`, `"{\"a\": 1}"`},
		{"textOrNull", "12345", `"12345"`}, {"textOrNull", "null", "null"}, {"textOrNull", " x", `" x"`},
		{"textOrNull", "true", `"true"`}, {"oneOf", "1.5", `"1.5"`}, {"oneOf", "null", "null"},
		{"types", "12345", `"12345"`}, {"types", "null", "null"}, {"types", "[1]", `"[1]"`},
		{"untypedEnum", "1", `"1"`}, {"untypedEnum", "a", `"a"`}, {"untypedEnum", `"a"`, `"a"`},
		{"untypedEnum", "7", `"7"`},
		{"mixedEnum", "1", "1"}, {"mixedEnum", "a", `"a"`}, {"mixedEnum", "null", "null"}, {"mixedEnum", "1.0", "1.0"},
		{"const", "1", `"1"`}, {"constNumber", "1", "1"}, {"ref", "1", `"1"`}, {"refOrNull", "1", `"1"`},
		{"refOrNull", "null", "null"}, {"all", "1", `"1"`}, {"round", "1", `"1"`}, {"lost", "1", `"1"`},
		{"count", "7", "7"},
		{"integer", "1", "1"}, {"integer", "one", `"one"`}, {"integer", "+1", "1"}, {"integerOrNull", "None", "null"},
		{"textOrInteger", "007", `"007"`}, {"textOrInteger", "7", `"7"`}, {"pattern", "7", "7"},
		{"pattern", "seven", `"seven"`},
		{"list", `["1"]`, `["1"]`}, {"list", "null", "null"}, {"list", "['1', None]", `["1", null]`},
		{"textOrList", `["1"]`, `["1"]`}, {"textOrList", "1", `"1"`}, {"object", `{"a": 1}`, `{"a": 1}`},
		{"short", "7", `"7"`}, {"python", "7", `"7"`}, {"made", "{'a': 7}", `{"a": 7}`}, {"flag", "True", "true"},
		{"any", "7", `"7"`}, {"any", `{"a": 1}`, `"{\"a\": 1}"`}, {"described", "7", `"7"`}, {"never", "7", `"7"`},
		{"other", "7", "7"}, {"other", "seven", `"seven"`},
		{"integer", " 12345678901234567890 ", "12345678901234567890"},
	} {
		if got := p.argument(c[0], c[1]); got != c[2] {
			t.Errorf("%s of %q is %s, want %s", c[0], c[1], got, c[2])
		}
	}
	for _, tools := range []Tools{"", "{", `[{"function": {"name": "f"}}]`,
		`[{"function": {"name": "f", "parameters": 7}}]`,
		`[{"function": {"name": "f", "parameters": {"properties": {"a": {"$ref": "#"}}}}}]`} {
		if got := tools.parametersOf("f").argument("a", "7"); got != `"7"` {
			t.Errorf("%s: %s", tools, got)
		}
	}
	if got := Tools(typedTools).parametersOf("g").argument("zip", "7"); got != "7" {
		t.Errorf("parameters by reference: %s", got)
	}
}

// TestTypedForms reads an argument of text that looks like a number in each form that has types of the tools.
func TestTypedForms(t *testing.T) {
	const want = `{"textOrNull": "12345", "integer": 7}`
	for parser, text := range map[string]string{
		"qwen3_coder": "<tool_call><function=f><parameter=textOrNull>12345</parameter>" +
			"<parameter=integer>7</parameter></function></tool_call>",
		"seed_oss": "<seed:tool_call><function=f><parameter=textOrNull>12345</parameter>" +
			"<parameter=integer>\n7\n</parameter></function></seed:tool_call>",
		"glm45": "<tool_call>f<arg_key>textOrNull</arg_key><arg_value>12345</arg_value><arg_key>integer</arg_key>" +
			"<arg_value>7</arg_value></tool_call>",
		"gemma4": "<|tool_call>call:f{textOrNull:12345,integer:7}<tool_call|>",
		"deepseek_v4": blockStart[1] + invokeStart + `f">` + givenStart + `textOrNull" string="false">12345` +
			givenEnd + givenStart + `integer" string="true">7` + givenEnd + invokeEnd + blockEnd[1],
	} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		if p := f.Parse(text, false, typedTools); len(p.ToolCalls) != 1 || p.ToolCalls[0].Arguments != want {
			t.Errorf("%s: %+v", parser, p)
		}
	}
}

// TestWrappedArguments takes arguments out of one that the tool does not have.
func TestWrappedArguments(t *testing.T) {
	f, err := New(None, "deepseek_v4", "")
	if err != nil {
		t.Fatal(err)
	}
	const tools = `[{"function": {"name": "f", "parameters": {"properties": {"a": {}, "b": {}}}}},
		{"function": {"name": "g", "parameters": {"properties": {"input": {"type": "object"}}}}}]`
	for _, c := range [][4]string{
		{"f", "arguments", `{"a": 1}`, `{"a": 1}`}, {"f", "input", ` {"a": 1, "b": []} `, `{"a": 1, "b": []}`},
		{"f", "arguments", `{"c": 1}`, `{"arguments": {"c": 1}}`}, {"f", "arguments", `7`, `{"arguments": 7}`},
		{"f", "other", `{"a": 1}`, `{"other": {"a": 1}}`}, {"g", "input", `{"a": 1}`, `{"input": {"a": 1}}`},
		{"h", "arguments", `{"a": 1}`, `{"arguments": {"a": 1}}`}, {"f", "arguments", `{}`, `{}`},
	} {
		for _, isText := range []string{"true", "false"} {
			text := blockStart[1] + invokeStart + c[0] + `">` + givenStart + c[1] + `" string="` + isText +
				`">` + c[2] + givenEnd + invokeEnd + blockEnd[1]
			want := c[3]
			if isText == "true" && strings.Contains(want, c[1]) {
				continue // text stays text
			}
			if p := f.Parse(text, false, tools); len(p.ToolCalls) != 1 || p.ToolCalls[0].Arguments != want {
				t.Errorf("%s: %+v, want %s", text, p, want)
			}
		}
	}
}

// TestArgumentsAreValid writes values that a schema allows as bare text, and reads ones that it allows.
func TestArgumentsAreValid(t *testing.T) {
	leaf := rapid.SampledFrom([]string{`{"type": "string"}`, `{"type": "null"}`, `{"type": "integer"}`,
		`{"type": "number"}`,
		`{"type": "boolean"}`, `{"enum": ["1", "true", "null", "a"]}`, `{"enum": [1, true, null]}`, `{"const": "2"}`,
		`{"type": ["string", "null"]}`, `{"type": "array", "items": {"type": "integer"}}`,
		`{"type": "string", "pattern": "^x"}`,
		`{"$ref": "#/$defs/s"}`, `{"type": "object"}`})
	values := []string{"1", "2", "true", "null", "a", "xyz", "[1]", "{}", "1.5", "-0", "\"a\""}
	rapid.Check(t, func(t *rapid.T) {
		schema := leaf.Draw(t, "schema")
		if many := rapid.SampledFrom([]string{"", "anyOf", "oneOf", "allOf"}).Draw(t, "of"); many != "" {
			schema = `{"` + many + `": [` + strings.Join(rapid.SliceOfN(leaf, 1, 3).Draw(t, "schemas"), ", ") + `]}`
		}
		const defs = `, "$defs": {"s": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}`
		whole := `{"properties": {"a": ` + schema + `}` + defs
		text := rapid.SampledFrom(values).Draw(t, "text")
		got := Tools(`[{"function": {"name": "f", "parameters": `+whole+`}}]`).parametersOf("f").argument("a", text)
		valid := func(value string) bool {
			c := jsonschema.NewCompiler()
			doc, _ := jsonschema.UnmarshalJSON(strings.NewReader(whole))
			if err := c.AddResource("of.json", doc); err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
			if err != nil {
				t.Fatal(err)
			}
			return c.MustCompile("of.json#/properties/a").Validate(v) == nil
		}
		asText, _ := marshal(text)
		if !valid(got) && (valid(string(asText)) || json.Valid([]byte(text)) && valid(text)) {
			// oneOf may allow what several of it allow, which is not looked at.
			if !strings.Contains(schema, "oneOf") {
				t.Fatalf("%s of %s is %s", text, schema, got)
			}
		}
	})
}

// TestRequiredTexts takes arguments of schemas of text and other values, which are read as what these allow.
func TestRequiredTexts(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}`:              true,
		`{"oneOf": [{"type": "null"}, {"type": "string"}]}`:                               true,
		`{"type": ["string", "null"], "description": "it"}`:                               true,
		`{"type": ["integer", "string", "boolean"]}`:                                      true,
		`{"enum": ["a", "1", "true"]}`:                                                    true,
		`{"enum": ["a", 1, null, false]}`:                                                 true,
		`{"const": "1"}`:                                                                  true,
		`{"anyOf": [{"type": "string", "enum": ["celsius", "null "]}, {"type": "null"}]}`: true,
		`{"allOf": [{"type": "string", "enum": ["x"]}], "title": "X"}`:                    true,
		`{"type": "string", "enum": ["x", "y"]}`:                                          true,
		`{"type": ["integer", "null"]}`:                                                   true,
		`{"enum": ["1", 1]}`:                                                              false,
		`{"oneOf": [{"type": "string"}, {"enum": ["a"]}]}`:                                false,
		`{"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}`: false,
		`{"anyOf": [{"type": "string", "pattern": "x"}, {"type": "null"}]}`:               false,
		`{"enum": ["a", []]}`:                                                             false,
		`{"enum": [""]}`:                                                                  false,
		`{"anyOf": []}`:                                                                   false,
	} {
		parameters := `{"type": "object", "properties": {"note": ` + schema + `}, "required": ["note"]}`
		tools := Tools(`[{"function": {"name": "f", "parameters": ` + parameters + `}}]`)
		for name, form := range requiredForms {
			if !form.typed {
				continue
			}
			f, err := New(None, form.parser, form.template)
			if err != nil {
				t.Fatal(err)
			}
			parts, err := f.Required(tools, "", false)
			if (err == nil) != want {
				t.Errorf("%s of %s: %v", schema, name, err)
			}
			if err == nil {
				testRequiredTexts(t, &f, parts, tools, parameters, form.call)
			}
		}
	}
}

// testRequiredTexts reads calls that are allowed, and asks another implementation whether the schema allows them.
func testRequiredTexts(t *testing.T, f *Forms, parts string, tools Tools, parameters string,
	call func(name, arguments string) string) {
	t.Helper()
	a, err := grammar.Alternatives([]byte(parts), grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(parameters))
	if err == nil {
		err = c.AddResource("of.json", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	of, taken := c.MustCompile("of.json"), 0
	for _, value := range []string{"null", "7", "-1.5", "true", "false", "x y", "a", "1", "x", "celsius",
		"[1]", "null ", "{}"} {
		text := call("f", `{"note": `+quoted(value)+`}`)
		if !accepts(a, text) {
			continue
		}
		taken++
		p := f.Parse(text, false, tools)
		if len(p.ToolCalls) != 1 || p.Text != "" {
			t.Fatalf("%q is read as %+v", text, p)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(p.ToolCalls[0].Arguments))
		if err != nil || of.Validate(v) != nil {
			t.Errorf("%q is read as %s, which %s refuses", text, p.ToolCalls[0].Arguments, parameters)
		}
	}
	if taken == 0 && !strings.Contains(parameters, `["integer", "null"]`) {
		t.Errorf("no text of %s is taken", parameters)
	}
}

// Blank space around a name, and a missing </function> before the end of the call, lose no call.
func TestLooseFunctions(t *testing.T) {
	for parser, marks := range map[string][2]string{"qwen3_coder": {callStart, callEnd},
		"seed_oss": {seedStart, seedEnd}} {
		f, err := New(None, parser, "")
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]string{
			"<function=f >\n<parameter=integer >\n7\n</parameter>\n</function>\n": `{"integer": 7}`,
			"<function=f>\n<parameter=integer>\n7\n</parameter>\n":                `{"integer": 7}`,
			"<function=f>\n": "{}",
		} {
			p := f.Parse(marks[0]+text+marks[1]+" So.", false, typedTools)
			if len(p.ToolCalls) != 1 || p.ToolCalls[0].Name != "f" || p.ToolCalls[0].Arguments != want ||
				strings.TrimSpace(p.Text) != "So." {
				t.Errorf("%s: %q is %+v", parser, text, p)
			}
		}
	}
}
