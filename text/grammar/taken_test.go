package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quire/quire/text/grammar"
)

// unevaluated are schemas whose meaning depends on what other schemas have looked at, and on what led to a reference.
// Their names are a to d.
var unevaluated = []string{
	`{"properties":{"a":{"const":1}},"patternProperties":{"^b":true},"unevaluatedProperties":false}`,
	`{"allOf":[{"properties":{"a":{"type":"integer"}}},{"$ref":"#/$defs/x"}],"$defs":{"x":{"properties":{"b":true}}},
		"unevaluatedProperties":{"type":"null"}}`,
	`{"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"const":2}},"required":["b"]},
		{"required":["c"]}],"unevaluatedProperties":false}`,
	`{"oneOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":true},"required":["b"]}],
		"unevaluatedProperties":false}`,
	`{"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":true}},
		"else":{"properties":{"c":true}},"unevaluatedProperties":false}`,
	`{"properties":{"a":true},"dependentSchemas":{"a":{"properties":{"b":{"const":null}}}},
		"unevaluatedProperties":false}`,
	`{"allOf":[{"properties":{"a":true},"unevaluatedProperties":{"const":1}}],"unevaluatedProperties":false}`,
	`{"allOf":[{"unevaluatedProperties":false}],"properties":{"a":true}}`,
	`{"not":{"properties":{"a":true},"unevaluatedProperties":false}}`,
	`{"$ref":"#/$defs/x","unevaluatedProperties":false,"properties":{"b":true},"$defs":{"x":{"anyOf":[
		{"additionalProperties":{"const":2},"required":["a"]},{"properties":{"d":true}}]}}}`,
	`{"prefixItems":[{"const":1}],"unevaluatedItems":{"type":"null"}}`,
	`{"anyOf":[{"prefixItems":[{"const":1},{"const":2}]},{"prefixItems":[true,true,{"const":1}]}],
		"unevaluatedItems":false}`,
	`{"contains":{"const":1},"unevaluatedItems":{"const":2}}`,
	`{"allOf":[{"contains":{"const":1}},{"contains":{"type":"null"},"minContains":0}],"unevaluatedItems":false}`,
	`{"if":{"contains":{"const":2}},"then":true,"else":{"items":{"const":1}},"unevaluatedItems":{"type":"null"}}`,
	`{"oneOf":[{"prefixItems":[{"const":1}],"minItems":2},{"prefixItems":[{"const":2},{"const":2}]}],
		"unevaluatedItems":{"type":"boolean"}}`,
	`{"$id":"https://q.test/list","$ref":"tree","$defs":{"leaf":{"$dynamicAnchor":"T","type":"integer"},"t":{"$id":"tree",
		"items":{"$dynamicRef":"#T"},"$defs":{"any":{"$dynamicAnchor":"T"}}}}}`,
	`{"$id":"https://q.test/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,"$defs":{"t":
		{"$id":"tree","$dynamicAnchor":"node","properties":{"a":{"$dynamicRef":"#node"},"b":true}}}}`,
	`{"$id":"https://q.test/a/b.json","properties":{"a":{"$ref":"c/d.json"}},"$defs":{"x":{"$id":"c/d.json",
		"$ref":"./e.json"},"y":{"$id":"c/e.json","const":1}}}`,
}

// value draws a value of few names and few others, deep values seldom.
func value(rnd *rand.Rand, depth int) any {
	n := 6
	if depth == 0 {
		n = 4
	}
	switch rnd.IntN(n) {
	case 0, 1:
		return 1 + rnd.IntN(2)
	case 2:
		return nil
	case 3:
		return rnd.IntN(2) == 0
	case 4:
		list := make([]any, rnd.IntN(4))
		for i := range list {
			list[i] = value(rnd, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for range rnd.IntN(4) {
		object[string(rune('a'+rnd.IntN(4)))] = value(rnd, depth-1)
	}
	return object
}

// A value is taken if and only if a validator that others wrote finds it valid.
func TestTakesWhatIsValid(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 4))
	for _, schema := range append(unevaluated, `{"type":"array","uniqueItems":true,"items":{"type":["string","null"]}}`,
		`{"type":"object","additionalProperties":{"type":"array","uniqueItems":true,"items":{"type":"number"}}}`, `{"allOf":[{"properties":{"a":{"type":"null"}},"required":["b"]},
		{"anyOf":[{"minProperties":2},{"properties":{"b":{"const":1}}}]}],"not":{"required":["c"]}}`) {
		a, err := grammar.JSONSchema([]byte(schema), inAnyOrder)
		if err != nil {
			t.Error(schema, err)
			continue
		}
		v := validator(schema)
		if v == nil {
			t.Fatal("the validator does not take", schema)
		}
		taken := 0
		for range 3000 {
			text, err := json.Marshal(value(rnd, 2))
			if err != nil {
				t.Fatal(err)
			}
			of, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			want, got := v.Validate(of), accepts(a, string(text))
			if got != (want == nil) {
				t.Fatalf("%s: %s: taken %v, but %v", schema, text, got, want)
			}
			if kind := text[0]; got && (kind == '{' || kind == '[') && len(text) > 4 {
				taken++
			}
		}
		if taken < 3 {
			t.Errorf("%s: only %d values are valid", schema, taken)
		}
	}
}

// Patterns with look-aheads take what a reading of them by hand does.
func TestLookAheads(t *testing.T) {
	has := strings.HasPrefix
	none := func(string) bool { return false }
	somewhere := func(is func(before, behind string) bool) func(string) bool {
		return func(s string) bool {
			for i := range len(s) + 1 {
				if is(s[:i], s[i:]) {
					return true
				}
			}
			return false
		}
	}
	for pattern, want := range map[string]func(string) bool{
		`^(?!a)`:             func(s string) bool { return !has(s, "a") },
		`^(?!ab$).*$`:        func(s string) bool { return s != "ab" },
		`^(?!.*bb)[ab]+$`:    func(s string) bool { return s != "" && strings.Trim(s, "ab") == "" && !strings.Contains(s, "bb") },
		`^(?=[ab]{2}c?$)a`:   func(s string) bool { return s == "aa" || s == "ab" || s == "aac" || s == "abc" },
		`a(?=b)`:             func(s string) bool { return strings.Contains(s, "ab") },
		`a(?!b)`:             somewhere(func(_, s string) bool { return has(s, "a") && !has(s, "ab") }),
		`(?!^a|b)c`:          func(s string) bool { return strings.Contains(s, "c") },
		`(?!^c)c`:            func(s string) bool { return strings.LastIndex(s, "c") > 0 },
		`^(?!^a|ba).*`:       func(s string) bool { return !has(s, "a") && !has(s, "ba") },
		`(?:a(?!b)|b(?=a))c`: func(s string) bool { return strings.Contains(s, "ac") },
		`^(?:(?!aa)[ab]){2}$`: func(s string) bool {
			return len(s) == 2 && strings.Trim(s, "ab") == "" && s != "aa"
		},
		`^(?:(?=a)){0,2}b$|(?=$)a`: func(s string) bool { return s == "b" },
		`(?!)`:                     none,
		`(?=a(?!.*c))`:             somewhere(func(_, s string) bool { return has(s, "a") && !strings.Contains(s, "c") }),
		`(?!^)(?=c$)`:              func(s string) bool { return len(s) > 1 && strings.HasSuffix(s, "c") },
	} {
		schema, err := json.Marshal(map[string]any{"type": "string", "pattern": pattern})
		if err != nil {
			t.Fatal(err)
		}
		a, err := grammar.JSONSchema(schema, grammar.Options{})
		if err != nil && !strings.Contains(err.Error(), "no text can be complete") {
			t.Error(err)
			continue
		}
		texts := []string{""}
		for i := 0; i < len(texts); i++ {
			if len(texts[i]) < 5 {
				texts = append(texts, texts[i]+"a", texts[i]+"b", texts[i]+"c")
			}
			if got := err == nil && accepts(a, `"`+texts[i]+`"`); got != want(texts[i]) {
				t.Errorf("%s on %q: %v", pattern, texts[i], got)
			}
		}
	}
	for _, pattern := range []string{`(?<=a)b`, `^(?:(?!a).)*$`, `(?=a)*`} {
		if _, err := grammar.JSONSchema([]byte(`{"type":"string","pattern":"`+pattern+`"}`), grammar.Options{}); err == nil {
			t.Errorf("%s is taken", pattern)
		}
	}
}
