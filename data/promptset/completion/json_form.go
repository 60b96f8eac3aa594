package completion

import (
	"encoding/json"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// jsonForm stores text as the JSON value that it contains, null if it does not contain one of the type. Without a
// type it is any value, stored as text that holds JSON.
type jsonForm struct{ *JSONType }

func (f jsonForm) node(name string, _ schema.Repetition) *schema.Node {
	if f.JSONType == nil {
		return schema.JSONAny.Node(name)
	}
	n := f.JSONType.Node.Clone()
	n.Name = name
	return n
}

func (f jsonForm) fits(*schema.Node) bool { return true }

func (f jsonForm) setJSON(any, json.RawMessage) error { return nil }

func (f jsonForm) set(any, parquet.Value) {}

// value returns the value of a text, nil if it has none.
func (f jsonForm) value(text string) json.RawMessage {
	raw := json.RawMessage(strings.TrimSpace(text))
	if !json.Valid(raw) || jsonvalue.HasLoneSurrogate(raw) {
		return nil
	}
	value, ok := conform(f.node("", schema.Optional), raw)
	if !ok || jsonvalue.IsNull(value) {
		return nil
	}
	return value
}

func (f jsonForm) appendJSON(b []byte, ptr any) []byte {
	if value := f.value(*ptr.(*string)); value != nil {
		return append(b, value...)
	}
	return append(b, "null"...)
}

func (f jsonForm) appendValues(row parquet.Row, ptr any, column, _ int) parquet.Row {
	n := f.node(JSONColumn, schema.Optional)
	schema.Number(schema.Group("row", schema.Required, n))
	s := schema.Shredder{Columns: make([][]parquet.Value, n.Leaves)}
	s.Put(n, f.value(*ptr.(*string)), 0, 0)
	for i, values := range s.Columns {
		for _, v := range values {
			row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), column+i))
		}
	}
	return row
}

// conform converts a JSON value to a column's: from an object it keeps the column's members, in the column's order.
// It returns false for a value that the column cannot represent.
func conform(n *schema.Node, raw json.RawMessage) (json.RawMessage, bool) {
	switch {
	case jsonvalue.IsNull(raw):
		return json.RawMessage("null"), true
	case n.IsJSON():
		return jsonvalue.Compact(raw), true
	case n.IsLeaf:
		v, ok := schema.LeafValue(n, raw)
		if ok && v.Kind() == parquet.Int64 {
			return schema.AppendValue(nil, v, n.Type), true
		}
		return raw, ok
	case n.IsList():
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return nil, false
		}
		out := []byte{'['}
		for i, item := range items {
			value, ok := conform(n.Element(), item)
			if !ok {
				return nil, false
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, value...)
		}
		return append(out, ']'), true
	}
	object, err := jsonvalue.MembersOf(raw)
	if err != nil {
		return nil, false
	}
	var out []jsonvalue.Member
	for _, f := range n.Fields {
		value := jsonvalue.Find(object, f.Name)
		if value == nil {
			continue
		}
		value, ok := conform(f, value)
		if !ok {
			return nil, false
		}
		out = append(out, jsonvalue.Member{Key: f.Name, Raw: value})
	}
	return jsonvalue.Join(out), true
}
