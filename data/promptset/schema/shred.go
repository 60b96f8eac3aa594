package schema

import (
	"encoding/json"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
)

// Shredder converts JSON values to the values of Parquet columns.
type Shredder struct {
	Columns [][]parquet.Value // by leaf
}

// nulls adds one null to every leaf below n.
func (s *Shredder) nulls(n *Node, rep, def int) {
	for c := n.Column; c < n.Column+n.Leaves; c++ {
		s.Columns[c] = append(s.Columns[c], parquet.NullValue().Level(rep, def, c))
	}
}

// Put adds a value of n; def is the definition level of the node that contains n. A value that does not fit n's type
// becomes null.
func (s *Shredder) Put(n *Node, raw json.RawMessage, rep, def int) {
	switch {
	case n.Rep == Repeated:
		s.items(n, n, raw, rep, def)
	case n.Rep == Required:
		s.present(n, raw, rep, def)
	case jsonvalue.IsNull(raw) || !holds(n, raw):
		s.nulls(n, rep, def)
	default:
		s.present(n, raw, rep, def+1)
	}
}

// items adds a list whose repeated node is middle; element is middle itself or the node that it wraps.
func (s *Shredder) items(middle, element *Node, raw json.RawMessage, rep, def int) {
	var items []json.RawMessage
	if jsonvalue.IsNull(raw) || json.Unmarshal(raw, &items) != nil && middle.IsLeaf {
		items = []json.RawMessage{raw} // one text in place of a list
	}
	if jsonvalue.IsNull(raw) || len(items) == 0 {
		s.nulls(middle, rep, def)
		return
	}
	for i, item := range items {
		if i > 0 {
			rep = middle.MaxRep
		}
		if middle == element {
			s.present(element, item, rep, def+1)
		} else {
			s.Put(element, item, rep, def+1)
		}
	}
}

// present adds a value that is not null; def is n's own level.
func (s *Shredder) present(n *Node, raw json.RawMessage, rep, def int) {
	switch {
	case n.IsLeaf:
		v, ok := LeafValue(n, raw)
		if !ok {
			v = parquet.ZeroValue(n.Type.Kind())
		}
		s.Columns[n.Column] = append(s.Columns[n.Column], v.Level(rep, def, n.Column))
	case n.IsList():
		if raw[0] == '"' { // one stop text in place of a list
			raw = slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))
		}
		s.items(n.Fields[0], n.Element(), raw, rep, def)
	default:
		var object map[string]json.RawMessage
		json.Unmarshal(raw, &object)
		for _, f := range n.Fields {
			s.Put(f, object[f.Name], rep, def)
		}
	}
}

// holds reports whether a column can represent a JSON value. It does not check the elements of lists.
func holds(n *Node, raw json.RawMessage) bool {
	switch {
	case n.IsLeaf:
		_, ok := LeafValue(n, raw)
		return ok
	case n.IsList():
		return raw[0] == '[' || raw[0] == '"' && parameter.TypeOf(n.Name) == parameter.TextList
	}
	return raw[0] == '{'
}

// LeafValue converts a JSON value to a value of a leaf's type.
func LeafValue(n *Node, raw json.RawMessage) (parquet.Value, bool) {
	switch n.Type.Kind() {
	case parquet.Boolean:
		return parquet.BooleanValue(raw[0] == 't'), raw[0] == 't' || raw[0] == 'f'
	case parquet.ByteArray:
		if n.IsJSON() {
			return parquet.ByteArrayValue(jsonvalue.Compact(raw)), true
		}
		var text string
		if v, ok := jsonvalue.ParseNumber(raw); ok && n.Name == ParentName { // a parent may be a number, as ids may
			return parquet.ByteArrayValue([]byte(v.String())), true
		}
		err := json.Unmarshal(raw, &text)
		return parquet.ByteArrayValue([]byte(text)), err == nil
	}
	v, ok := jsonvalue.ParseNumber(raw)
	if !ok {
		return parquet.Value{}, false
	}
	if k := n.Type.Kind(); k == parquet.Double || k == parquet.Float {
		f := v.Float
		if !v.IsFloat {
			f = float64(v.Int)
			if v.Big {
				f = float64(v.Uint)
			}
		}
		if k == parquet.Float {
			return parquet.FloatValue(float32(f)), true
		}
		return parquet.DoubleValue(f), true
	}
	v, ok = v.Whole()
	signed, _ := Integer(n.Type)
	switch {
	case !ok, v.Big && signed, v.Int < 0 && !signed:
		return parquet.Value{}, false
	case n.Type.Kind() == parquet.Int32:
		return parquet.Int32Value(int32(v.Int)), int64(int32(v.Int)) == v.Int
	}
	return parquet.Int64Value(int64(v.Uint)), n.Type.Kind() == parquet.Int64
}
