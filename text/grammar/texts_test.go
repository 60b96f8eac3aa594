package grammar_test

import (
	"strings"
	"testing"

	"github.com/quire/quire/text/grammar"
)

// Texts of schemas: those that are taken, and those that are not, or that do not lead on.
func TestTextsOfSchemas(t *testing.T) {
	for _, c := range []struct{ schema, yes, no string }{
		// Numbers come to an end. Of a finite set each has its shortest form.
		{`{"enum":[1,2.50,-3e2,1e-2,0.0,-0]}`, `1|2.5|-300|0.01|0`, `1.0|2.50|-300.0|-3e2|1.|0.0|-0`},
		{`{"const":1}`, `1`, `1.0|1.|1e0|10`},
		{`{"const":100}`, `100`, `100.|1e2|1000`},
		{`{"type":"number","enum":[1,2,3]}`, `1|2|3`, `1.|3.0`},
		{`{"multipleOf":0.5}`, `1|1.5|-2.5|0`, `1.0|1.50|1.500|-0|.5`},
		{`{"multipleOf":1.0}`, `1|20`, `1.|20.0`},
		{`{"multipleOf":0.05,"minimum":1,"maximum":2}`, `1|1.05|1.5|2`, `1.0|1.50|2.`},
		{`{"anyOf":[{"const":1},{"multipleOf":2}]}`, `1|2|40`, `1.|2.0`},
		{`{"minimum":5,"maximum":5}`, `5`, `5.|5.0|50`},
		{`{"type":"number","minimum":2.5,"maximum":2.50}`, `2.5`, `2.50|2`},
		{`{"type":"number","not":{"multipleOf":0.5},"minimum":0,"maximum":1}`, `0.1|0.75`, `0.5|1|0.10`},
		{`{"not":{"enum":[1,1.5]},"type":"number"}`, `2|1.25`, `1|1.5|1.50|1.0`},
		{`{"type":"number","minimum":1,"maximum":5}`, `1|4.50|5.0|4.` + strings.Repeat("0", 20),
			`4.` + strings.Repeat("0", 21) + `|5.01`},
		{`{"type":"number"}`, `-1.50|2e10|1E-308|` + strings.Repeat("9", 20), strings.Repeat("9", 21) + `|1e1000|1.` +
			strings.Repeat("3", 21)},
		{`{"type":"integer"}`, `-7|18446744073709551615`, `1.|1e3|01|-0|` + strings.Repeat("1", 21)},
		{`{"type":"integer","minimum":1000000000000000000000000}`, `1000000000000000000000000`, `1` + strings.Repeat("0", 40)},
		{`{"exclusiveMinimum":0,"exclusiveMaximum":1e-25}`, `0.` + strings.Repeat("0", 25) + `1`, `0|0.1`},
		// Names that are not listed count once, and names that begin alike too.
		{`{"minProperties":2}`, `{"a":1,"e":2}|{"a":1,"a":2,"1":3}|{"":1,"é":2,"x":3}|"x"`, `{}|{"a":1}|{"a":1,"a":2}|{"":1,"é":2}`},
		{`{"minProperties":3,"properties":{"ab":{},"b":{}}}`, `{"ab":1,"b":2,"a":3}|{"ab":1,"x":3,"e":1}`, `{"ab":1,"b":2}`},
		// A leap second is the last one of a day of UTC.
		{`{"type":"string","format":"time"}`, `"23:59:60Z"|"23:59:60.5z"|"23:59:60+00:00"|"00:29:60+00:30"|"15:59:60-08:00"|` +
			`"00:59:60+01:00"|"23:29:60+23:30"|"12:00:59Z"`,
			`"22:59:60Z"|"23:58:60Z"|"23:59:61Z"|"23:59:60+01:00"|"23:59:60-01:00"|"00:29:60+00:31"|"00:59:60-01:00"`},
		{`{"type":"string","format":"date-time"}`, `"1998-12-31T23:59:60Z"|"1998-12-31T15:59:60.123-08:00"`,
			`"1998-12-31T23:58:60Z"|"1998-12-32T23:59:60Z"`},
	} {
		takes(t, c.schema, grammar.Options{}, c.yes, c.no)
	}
}

// takes looks which texts, separated by |, an automaton takes. A number's text may end in a point that leads nowhere.
func takes(t *testing.T, schema string, o grammar.Options, yes, no string) {
	t.Helper()
	a, err := grammar.JSONSchema([]byte(schema), o)
	if err != nil {
		t.Errorf("%s: %v", schema, err)
		return
	}
	for _, text := range strings.Split(yes, "|") {
		if !accepts(a, text) {
			t.Errorf("%s does not take %s", schema, text)
		}
	}
	for _, text := range strings.Split(no, "|") {
		if accepts(a, text) || (strings.HasSuffix(text, ".") && walk(a, text) != grammar.Dead) {
			t.Errorf("%s takes %s", schema, text)
		}
	}
}

// What is wrong with a schema is told by its keyword.
func TestRefusedSchemas(t *testing.T) {
	const draft4 = `"$schema":"http://json-schema.org/draft-04/schema#",`
	for schema, want := range map[string]string{
		`{"$schema":"http://json-schema.org/draft-03/schema#","type":"integer","divisibleBy":3}`: `$schema "http://json-schema.org/draft-03/schema#" is not supported`,
		`{"properties":{"a":{"divisibleBy":5}}}`:                                                 `#/properties/a: divisibleBy: it is a keyword of draft 3: write multipleOf`,
		`{` + draft4 + `"properties":{"a":{"required":true}}}`:                                   `#/properties/a: required: it is true or false`,
		`{"items":{},"prefixItems":{"a":{}}}`:                                                    `#: prefixItems: it is not a list of schemas`,
		`{"additionalProperties":false,"patternProperties":{"(":{}}}`:                            `#: patternProperties: pattern "("`,
		`{"additionalProperties":false,"properties":[]}`:                                         `#: properties: it is not an object`,
		`{"minProperties":2,"patternProperties":{"^x":{}},"additionalProperties":false}`:         `all their names begin alike`,
		`{"minProperties":2,"maxProperties":3}`:                                                  `maxProperties bounds them`,
		`{"maxLength":3,"minLength":"a"}`:                                                        `#: minLength: it is not a number`,
		`{"contains":{},"minContains":-1}`:                                                       `#: minContains: it is not a number`,
	} {
		_, err := grammar.JSONSchema([]byte(schema), grammar.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
}

// Where objects are closed they have the members that their schema lists or speaks of, and others only where some must
// come. Without closing all of these texts are taken.
func TestClosed(t *testing.T) {
	for _, c := range []struct{ schema, yes, no string }{
		{`{"properties":{"a":{"type":"null"}}}`, `{}|{"a":null}|[1]|"x"`, `{"b":1}|{"a":null,"b":1}`},
		{`{"type":"object","properties":{}}`, `{}`, `{"a":1}`},
		{`{"type":"object"}`, `{}|{"a":1}`, ``},
		{`{"type":"object","required":["a"]}`, `{"a":1}|{"a":1,"b":2}`, ``},
		{`{"properties":{"a":{}},"additionalProperties":true}`, `{"a":1,"b":2}`, ``},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"null"}}`, `{"a":1,"b":null}`, ``},
		{`{"properties":{"a":{}},"unevaluatedProperties":true}`, `{"a":1,"b":2}`, ``},
		{`{"properties":{"a":{}},"unevaluatedProperties":{"type":"null"}}`, `{"a":1,"b":null}`, ``},
		{`{"properties":{"a":{}},"patternProperties":{"^x":{}}}`, `{"a":1,"xy":2}`, `{"a":1,"b":2}|{"y":1}`},
		{`{"patternProperties":{"^x":{}}}`, `{"x":1}|{}`, `{"y":1}`},
		{`{"propertyNames":{"pattern":"^x"}}`, `{"x":1}`, ``},
		{`{"properties":{"a":{}},"required":["b"]}`, `{"b":1}|{"a":1,"b":1}`, `{"b":1,"c":1}`},
		{`{"properties":{"a":{}},"required":["a"],"minProperties":2}`, `{"a":1,"b":1}`, ``},
		{`{"properties":{"a":{}},"minProperties":2}`, `{"a":1,"b":1}|{"c":1,"x":1}|{"c":1,"x":1,"d":2}`, ``},
		{`{"properties":{"a":{},"b":{}},"minProperties":2}`, `{"a":1,"b":1}`, `{"a":1,"c":1}`},
		{`{"properties":{"a":{}},"minProperties":1}`, `{"a":1}`, `{"b":1}`},
		{`{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`,
			`{"a":1,"b":1}`, `{"a":1,"b":1,"c":1}`},
		{`{"properties":{"c":{}},"allOf":[{"$ref":"#/$defs/base"}],"$defs":{"base":{"properties":{"a":{}}}}}`,
			`{"c":1,"a":1}`, `{"c":1,"a":1,"b":1}`},
		{`{"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"const":1}},
			"required":["b"]}]}`, `{"a":1}|{"b":1}`, `{"a":1,"c":1}`},
		{`{"oneOf":[{"properties":{"k":{"const":1},"a":{}},"required":["k"]},{"properties":{"k":{"const":2},"b":{}},
			"required":["k"]}]}`, `{"k":1,"a":1}|{"k":2,"b":1}`, `{"k":1,"b":1}|{"k":2,"c":1}`},
		{`{"properties":{"a":{}},"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":{}},
			"required":["b"]}}`, `{"a":1,"b":1}|{"a":2}`, `{"a":2,"c":1}|{"a":1,"b":1,"c":1}`},
		{`{"type":"object","not":{"required":["a"]}}`, `{}|{"b":1}`, ``},
		{`{"properties":{"a":{}},"not":{"required":["a"]}}`, `{}`, `{"b":1}`},
		{`{"properties":{"a":{}},"dependentRequired":{"a":["b"]}}`, `{}|{"a":1,"b":1}`, `{"a":1,"b":1,"c":1}`},
		{`{"properties":{"n":{"$ref":"#"}}}`, `{"n":{"n":{}}}`, `{"n":{"m":1}}`},
		{`{"items":{"properties":{"a":{}}}}`, `[{"a":1},{}]`, `[{"b":1}]`},
		{`{"additionalProperties":{"properties":{"a":{}}}}`, `{"x":{"a":1}}`, `{"x":{"b":1}}`},
		{`{"prefixItems":[{},{}]}`, `[]|[1,2]`, `[1,2,3]`},
		{`{"prefixItems":[{}],"minItems":2}`, `[1,2]|[1,2,3]`, ``},
		{`{"prefixItems":[{}],"items":{}}`, `[1,2,3]`, ``},
		{`{"prefixItems":[{}],"unevaluatedItems":true}`, `[1,2,3]`, ``},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}]}`, `[1]`, `[1,2]`},
		{`{"type":"array"}`, `[1,2]`, ``},
	} {
		takes(t, c.schema, closed, c.yes, c.no)
		takes(t, c.schema, grammar.Options{}, strings.TrimSuffix(c.yes+"|"+c.no, "|"), "")
	}
}
