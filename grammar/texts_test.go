package grammar_test

import (
	"strings"
	"testing"

	"github.com/quire/quire/grammar"
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
	} {
		a, err := grammar.JSONSchema([]byte(c.schema), grammar.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range strings.Split(c.yes, "|") {
			if !accepts(a, text) {
				t.Errorf("%s does not take %s", c.schema, text)
			}
		}
		for _, text := range strings.Split(c.no, "|") {
			if accepts(a, text) || (strings.HasSuffix(text, ".") && walk(a, text) != grammar.Dead) {
				t.Errorf("%s takes %s", c.schema, text)
			}
		}
	}
}
