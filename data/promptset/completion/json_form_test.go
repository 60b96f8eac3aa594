package completion

import (
	"encoding/json"
	"strings"
	"testing"
)

func FuzzJSONColumn(f *testing.F) {
	f.Add(`{"properties":{"a":{"items":{"$ref":"#"}}}}`, `{"a":[{"a":[]},null]}`)
	f.Add(`{"type":"array","items":{"enum":[1,null]}}`, `[1,"x"]`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		if !json.Valid([]byte(schema)) {
			return
		}
		typ, err := NewJSONType(strings.TrimSpace(schema))
		if err != nil {
			return
		}
		o := &Row{Result: &Result{Text: text}}
		c := Column{Name: JSONColumn, form: jsonForm{typ}, pointer: func(o *Row) any { return &o.Text }}
		if b := c.AppendJSON(nil, o); !json.Valid(b) {
			t.Fatalf("%q", b)
		}
		c.AppendValues(nil, o, 3)
	})
}
