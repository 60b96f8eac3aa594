package grammar_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/grammar/schema"
)

// inAnyOrder and closed are of schemas.
var (
	inAnyOrder = grammar.Options{Schema: schema.Options{AnyOrder: true}}
	closed     = grammar.Options{Schema: schema.Options{Closed: true}}
)

// schemas have each keyword, and keywords that meet.
var schemas = []string{
	person,
	`{"type":"integer","minimum":-12,"exclusiveMaximum":1043,"multipleOf":3}`,
	`{"type":"number","exclusiveMinimum":-0.25,"maximum":2.05}`,
	`{"type":"number","multipleOf":0.05,"minimum":1}`,
	`{"type":"number","not":{"multipleOf":0.5},"minimum":-3,"maximum":3}`,
	`{"type":"string","minLength":2,"maxLength":4,"pattern":"a|^b.$"}`,
	`{"type":"string","pattern":"^\\S+\\.\\d{2,3}$","not":{"pattern":"x"}}`,
	`{"enum":["a\"\n\u0001é",1.50,null,true,{"b":[1],"a":2},[]]}`,
	`{"type":"object","properties":{"n":{"type":"null"},"next":{"$ref":"#"}},"required":["n"],"maxProperties":2}`,
	`{"type":"object","patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":3}},"additionalProperties":false,
		"minProperties":1}`,
	`{"type":"object","propertyNames":{"maxLength":2,"pattern":"^[a-c]"},"additionalProperties":{"enum":[1]}}`,
	`{"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":{"const":7},"minItems":1,"maxItems":4}`,
	`{"type":"array","items":{"type":["integer","null"]},"contains":{"const":5}}`,
	`{"oneOf":[{"type":"object","properties":{"k":{"const":"x"},"v":{"type":"null"}},"required":["k"]},
		{"type":"object","properties":{"k":{"const":"y"}},"required":["k","w"]}]}`,
	`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{"type":"null"},
		"b":{"type":"null"}},"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"enum":[1,2]},"b":{"type":"boolean"}},"required":["a"],
		"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"else":{"not":{"required":["b"]}},
		"additionalProperties":false}`,
	`{"type":"object","dependentRequired":{"a":["b"]},"properties":{"a":{"type":"null"},"b":{"type":"null"}},
		"additionalProperties":false,"maxProperties":2}`,
	`{"allOf":[{"$ref":"#/$defs/x"},{"properties":{"b":{"maximum":9}}}],"$defs":{"x":{"type":"object",
		"properties":{"a":{"type":"null"},"b":{"type":"integer"}},"required":["b"],"additionalProperties":false}}}`,
	`{"type":"number","not":{"type":"integer"},"minimum":-2,"maximum":2}`,
	`{"oneOf":[{"type":"integer","minimum":-3},{"type":"number","maximum":2.5},{"multipleOf":0.5,"maximum":4}]}`,
	`{"type":"object","not":{"additionalProperties":{"type":"integer"},"properties":{"a":true}},
		"additionalProperties":{"type":["integer","null"]}}`,
	`{"type":"object","not":{"patternProperties":{"^a":false}},"additionalProperties":{"const":1},"maxProperties":3}`,
	`{"type":"object","not":{"propertyNames":{"maxLength":2}},"properties":{"abc":{"const":1},"d":{"const":2}},
		"additionalProperties":false}`,
	`{"type":"object","allOf":[{"not":{"additionalProperties":{"maximum":3}}},{"not":{"patternProperties":{"b":
		{"minimum":2}}}}],"propertyNames":{"pattern":"^[abc]$"},"additionalProperties":{"enum":[1,2,3,4]}}`,
	`{"oneOf":[{"type":"object","properties":{"a":{"const":1},"b":{"const":2}},"additionalProperties":false},
		{"type":"object","properties":{"b":{"const":2},"c":{"const":3}},"additionalProperties":false}]}`,
	`{"type":"array","items":{"enum":[1,2,3]},"contains":{"const":2},"minContains":2,"maxContains":3}`,
	`{"type":"array","prefixItems":[{"const":1}],"items":{"enum":[1,2,3]},"contains":{"minimum":2},"maxContains":1,
		"maxItems":6}`,
	`{"type":"array","allOf":[{"contains":{"type":"null"}},{"contains":{"type":"boolean"}}],"maxItems":3}`,
	`{"type":"array","not":{"items":{"type":"integer"},"prefixItems":[{"type":"null"}]},"items":{"enum":[null,1]}}`,
	`{"type":"array","not":{"contains":{"const":1},"minContains":2},"items":{"enum":[0,1]}}`,
	`{"type":"array","uniqueItems":true,"items":{"enum":["a","b",1.0,2.50,null,true]},"minItems":2}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":-2,"exclusiveMaximum":3}}`,
	`{"type":"array","uniqueItems":true,"prefixItems":[{"enum":[1,2.5,"a"]},{"enum":["a",1.0,null]},{"type":"boolean"},
		{"type":["null","boolean"]}],"items":false,"minItems":2}`,
	`{"type":"array","uniqueItems":true,"prefixItems":[{"type":"string"},{"type":"null"},{"type":"number"}],
		"items":false}`,
	apart, `{"type":"object","minProperties":3,"properties":{"a":{"type":"null"}},"propertyNames":{"maxLength":2}}`,
	`{"type":"object","minProperties":4,"additionalProperties":{"type":"null"}}`,
	`{"type":"object","minProperties":2,"patternProperties":{"^x":{"type":"null"}},"additionalProperties":{"const":1}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"string"},"maxItems":4}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[ab]{0,12}$"},"minItems":6}`,
	`{"type":"array","uniqueItems":true,"items":{"type":["number","boolean"],"minimum":0,"maximum":2}}`,
	`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":2}}},
		"additionalProperties":{"type":"array","uniqueItems":true,"items":{"enum":["x",1]}}}`,
	`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"type":"string"},"minItems":3},
		{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":3},"maxItems":2}]}`,
	`{"type":"string","format":"date-time"}`, `{"type":"string","format":"ipv6"}`, `{"type":"string","format":"uuid"}`,
	`{"type":"string","format":"duration"}`, `{"type":"string","format":"uri","maxLength":30}`,
	`{"type":"string","format":"json-pointer","maxLength":9}`, `{"type":"string","format":"time"}`,
	`{"type":"string","format":"hostname","maxLength":20}`, `{"type":"string","format":"email","maxLength":20}`,
}

// draw walks an automaton to the end of a text, by bytes that end things where it can. It returns false if that takes
// too long.
func draw(t *testing.T, rnd *rand.Rand, a *grammar.Automaton) (string, bool) {
	s := a.Start()
	var text []byte
	for len(text) < 3000 {
		if a.Accepts(s) && (len(text) > 200 || rnd.IntN(3) == 0) {
			return string(text), true
		}
		var can, ends, plain []byte
		for c := range 256 {
			if a.Next(s, byte(c)) == grammar.Dead {
				continue
			}
			can = append(can, byte(c))
			if strings.IndexByte(`"]}`, byte(c)) >= 0 {
				ends = append(ends, byte(c))
			} else if c > ' ' && c < 0x7F && c != ',' && c != '\\' && c != '[' && c != '{' {
				plain = append(plain, byte(c))
			}
		}
		if len(can) == 0 {
			if !a.Accepts(s) && a.Memory().Err == nil {
				t.Fatalf("%q leads nowhere", text)
			}
			return string(text), a.Accepts(s)
		}
		if k := rnd.IntN(10); len(ends) > 0 && (k < 4 || len(text) > 300) {
			can = ends
		} else if len(plain) > 0 && k < 8 {
			can = plain
		}
		c := can[rnd.IntN(len(can))]
		text = append(text, c)
		s = a.Settle(a.Next(s, c), text)
	}
	return "", false
}

// validator compiles a schema by a library that knows nothing of automata, nil if it can't.
func validator(schema string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, name := range []string{"semver", "period"} { // which no draft has: annotations
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) { return regexp.Compile(spaces(pattern)) })
	if c.AddResource("quire.json", doc) != nil {
		return nil
	}
	s, err := c.Compile("quire.json")
	if err != nil {
		return nil
	}
	return s
}

// spaces has the white space of ECMAScript in a pattern, of which package regexp has that of ASCII alone.
func spaces(pattern string) string {
	const all = `\s\v\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	var b strings.Builder
	inside := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			switch of := pattern[i]; {
			case of == 's' && inside:
				b.WriteString(all)
			case of == 's':
				b.WriteString("[" + all + "]")
			case of == 'S' && !inside:
				b.WriteString("[^" + all + "]")
			default:
				b.Write([]byte{'\\', of})
			}
			continue
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		}
		b.WriteByte(pattern[i])
	}
	return b.String()
}

// validates asks a validator about a value. It returns false where the validator fails: it can not compare numbers of
// very many digits.
func validates(v *jsonschema.Schema, value any) (asked bool, err error) {
	defer func() { asked = recover() == nil }()
	return true, v.Validate(value)
}

// check draws texts and asks the validator. It returns how many it asked about.
func check(t *testing.T, name, schema string, o grammar.Options, texts int) int {
	a, err := grammar.JSONSchema([]byte(schema), o)
	if err != nil {
		if name == schema {
			t.Errorf("%s: %v", schema, err)
		}
		return 0
	}
	v := validator(schema)
	if v == nil {
		return 0
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(schema))))
	n := 0
	for range texts {
		text, ok := draw(t, rnd, a)
		if !ok {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %q is not JSON: %v", name, text, err)
			continue
		}
		asked, err := validates(v, value)
		if !asked {
			continue
		}
		n++
		if err != nil {
			t.Errorf("%s: %s is not valid: %v", name, text, err)
			return n
		}
	}
	return n
}

// What the automaton of a schema makes is valid by a validator that others wrote.
func TestMadeTextsAreValid(t *testing.T) {
	n, texts := 0, 50
	if testing.Short() {
		texts = 15
	}
	for _, schema := range append(schemas, unevaluated...) {
		n += check(t, schema, schema, grammar.Options{}, texts)
		n += check(t, schema, schema, inAnyOrder, texts)
		n += check(t, schema, schema, closed, texts)
	}
	if t.Logf("%d texts", n); n < 1000 {
		t.Errorf("only %d texts came to an end", n)
	}
}

// The same for the schemas of MaskBench.
func TestMaskBenchMadeTextsAreValid(t *testing.T) {
	n, of := 0, 0
	for name, m := range readMaskBench(t) {
		k := check(t, name, string(m.Schema), grammar.Options{}, 3)
		if k += check(t, name, string(m.Schema), closed, 3); k > 0 {
			n, of = n+k, of+1
		}
	}
	t.Logf("%d texts of %d schemas", n, of)
}
