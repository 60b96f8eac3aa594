package parameter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quire/quire/data/parameter"
)

func TestParseStructure(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"structured_outputs", `{"json": {"type": "object"}}`, `{"json":{"type":"object"}}`},
		{"structured_outputs", `{"json": "{\"type\": \"object\"}", "regex": null}`, `{"json":{"type":"object"}}`},
		{"structured_outputs", `"{\"regex\": \"a+\"}"`, `{"regex":"a+"}`},
		{"structured_outputs", `{"choice": ["a", "b"], "disable_fallback": true}`, `{"choice":["a","b"]}`},
		{"structured_outputs", `{"json_object": true, "disable_any_whitespace": true}`,
			`{"disable_any_whitespace":true,"json_object":true}`},
		{"structured_outputs", `{"json": {"type": "object"}, "any_order": true}`,
			`{"any_order":true,"json":{"type":"object"}}`},
		{"structured_outputs", `{"grammar": "root ::= \"a\""}`, `{"grammar":"root ::= \"a\""}`},
		{"structured_outputs", `{"json_object": false}`, `null`},
		{"response_format", `{"type": "text"}`, `null`},
		{"response_format", `{"type": "json_object"}`, `{"json_object":true}`},
		{"response_format", `{"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {}}}`,
			`{"json":{}}`},
		{"response_format", `{"type": "json_object", "schema": {"const": null}}`, `{"json":{"const":null}}`},
		{"guided_regex", `"[0-9]"`, `{"regex":"[0-9]"}`},
		{"guided_choice", `["x"]`, `{"choice":["x"]}`},
		{"guided_json", `true`, `{"json":true}`},
		{"guided_json_object", `false`, `null`},
		{"json_schema", `{"enum":[1]}`, `{"json":{"enum":[1]}}`},
	} {
		s, err := parameter.ParseStructure(c.name, []byte(c.raw))
		if err != nil || s.String() != c.want {
			t.Errorf("%s %s: %s, %v; want %s", c.name, c.raw, s, err, c.want)
		}
		var again parameter.Structure
		if err := json.Unmarshal([]byte(s.String()), &again); err != nil || again != s {
			t.Errorf("%s read again: %v, %v", s, again, err)
		}
	}
	for value, want := range map[string]bool{`{"type":null}`: false, `{}`: false, `null`: false,
		`{"type":"text"}`: true} {
		if parameter.GivesStructure("response_format", []byte(value)) != want {
			t.Errorf("response_format %s gives a structure: %v", value, !want)
		}
	}
	if !parameter.GivesStructure("json_schema", []byte("{}")) {
		t.Error("the schema {} is none")
	}
	for _, c := range []struct{ name, raw, want string }{
		{"structured_outputs", `{"json": {}, "regex": "a"}`, "has the members json and regex: give one"},
		{"structured_outputs", `{"structural_tag": "x"}`, "structural_tag, which is not supported"},
		{"structured_outputs", `["a"]`, "must be a JSON object"},
		{"structured_outputs", `{"choice": []}`, "member choice that is []"},
		{"response_format", `{"type": "xml"}`, `has the type "xml"`},
		{"response_format", `{"type": "json_schema"}`, "has no schema"},
		{"guided_regex", `7`, "guided_regex is 7, but must be text"},
		{"guided_json", `"{"`, "must be a JSON schema"},
	} {
		_, err := parameter.ParseStructure(c.name, []byte(c.raw))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.name, c.raw, err, c.want)
		}
	}
}

// Whatever is parsed is written so that it parses as the same.
func FuzzParseStructure(f *testing.F) {
	f.Add("response_format", `{"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}`)
	f.Add("structured_outputs", `{"choice": ["a"], "disable_any_whitespace": false}`)
	f.Add("structured_outputs", `{"json": {}, "any_order": true}`)
	f.Add("structured_outputs", `{"json": {}, "additional_properties": true}`)
	f.Add("structured_outputs", `{"json": {}, "disable_additional_properties": true}`)
	f.Fuzz(func(t *testing.T, name, raw string) {
		s, err := parameter.ParseStructure(name, []byte(raw))
		if err != nil {
			return
		}
		again, err := parameter.ParseStructure("structured_outputs", []byte(s.String()))
		if err != nil || again.String() != s.String() {
			t.Fatalf("%q is read as %s, and that as %s: %v", raw, s, again, err)
		}
	})
}
