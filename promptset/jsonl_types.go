package promptset

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// maxKeys bounds the columns that a JSONL file can make.
const maxKeys = 10_000

// jsonType is what is known of the values of a key so far. Types only widen: null, then one of the others; integer and
// double make double; anything else that differs makes text holding JSON, which also holds objects and nested lists.
type jsonType int8

const (
	jsonNull jsonType = iota
	jsonBool
	jsonInt
	jsonDouble
	jsonText
	jsonMessages // list of {role, content}, both text
	jsonAny
	jsonList // plus the type of the elements; null where all lists are empty
)

func unify(a, b jsonType) jsonType {
	switch {
	case a == b || b == jsonNull:
		return a
	case a == jsonNull:
		return b
	case a >= jsonList && b >= jsonList:
		if e := unify(a-jsonList, b-jsonList); e <= jsonText {
			return jsonList + e
		}
		return jsonAny
	case a == jsonList && b == jsonMessages || a == jsonMessages && b == jsonList: // an empty list
		return jsonMessages
	case a >= jsonMessages || b >= jsonMessages:
		return jsonAny
	case a|b == jsonInt|jsonDouble:
		return jsonDouble
	}
	return jsonAny
}

func typeOfJSON(raw json.RawMessage) jsonType {
	switch raw[0] {
	case 'n':
		return jsonNull
	case 't', 'f':
		return jsonBool
	case '"':
		return jsonText
	case '{':
		return jsonAny
	case '[':
	default:
		v, ok := parseNumber(raw)
		switch {
		case !ok || v.big || v.isFloat && !strings.ContainsAny(string(raw), ".eE"):
			return jsonAny // does not fit 64 bits
		case v.isFloat:
			return jsonDouble
		}
		return jsonInt
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return jsonAny
	}
	element, allMessages := jsonNull, len(items) > 0
	for _, item := range items {
		element = unify(element, typeOfJSON(item))
		allMessages = allMessages && isMessage(item)
	}
	switch {
	case allMessages:
		return jsonMessages
	case element <= jsonText:
		return jsonList + element
	}
	return jsonAny
}

func isMessage(raw json.RawMessage) bool {
	if raw[0] != '{' {
		return false
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || len(m) != 2 {
		return false
	}
	role, content := m["role"], m["content"]
	return role != nil && content != nil && role[0] == '"' && content[0] == '"'
}

func (t jsonType) node(name string) *node {
	switch t {
	case jsonBool:
		return leafNode(name, optional, parquet.BooleanType)
	case jsonInt:
		return leafNode(name, optional, parquet.Int64Type)
	case jsonDouble:
		return leafNode(name, optional, parquet.DoubleType)
	case jsonText:
		return leafNode(name, optional, parquet.String().Type())
	case jsonMessages:
		return listNode(name, optional, groupNode("", optional, jsonText.node("role"), jsonText.node("content")))
	case jsonAny:
		return leafNode(name, optional, parquet.JSON().Type())
	case jsonNull:
		return leafNode(name, optional, nullType)
	}
	if t == jsonList {
		return listNode(name, optional, leafNode("", optional, emptyType))
	}
	return listNode(name, optional, (t - jsonList).node(""))
}

// knownNode is the column of a known key, and of another name of a parameter. Its type does not depend on its values;
// those that do not fit are errors of their rows, and null in the output. It is nil for other keys and for messages,
// which may hold more than role and content.
func knownNode(name string) *node {
	switch name {
	case "prompt", "id", parentName:
		return jsonText.node(name)
	case "parent_generation", "parent_length":
		return jsonInt.node(name)
	case "prompt_token_ids":
		return listNode(name, optional, leafNode("", optional, parquet.Int32Type))
	}
	switch parameter.TypeOf(name) {
	case parameter.Number:
		return jsonDouble.node(name)
	case parameter.Integer:
		return jsonInt.node(name)
	case parameter.Seed:
		return leafNode(name, optional, parquet.Uint(64).Type())
	case parameter.TextList:
		return listNode(name, optional, jsonText.node(""))
	case parameter.Boolean:
		return jsonBool.node(name)
	case parameter.Word:
		return jsonText.node(name)
	case parameter.Object, parameter.List:
		if concernsAll(name) {
			return jsonAny.node(name)
		}
	}
	return nil
}

// shredder turns JSON values into the values of Parquet columns.
type shredder struct {
	columns [][]parquet.Value // by leaf
}

// nulls gives every leaf below n one null.
func (s *shredder) nulls(n *node, rep, def int) {
	for c := n.column; c < n.column+n.leaves; c++ {
		s.columns[c] = append(s.columns[c], parquet.NullValue().Level(rep, def, c))
	}
}

// put adds a value of n; def is the definition level of what n is in. A value that does not fit n's type is null.
func (s *shredder) put(n *node, raw json.RawMessage, rep, def int) {
	switch {
	case n.rep == repeated:
		s.items(n, n, raw, rep, def)
	case n.rep == required:
		s.present(n, raw, rep, def)
	case isNullJSON(raw) || !holds(n, raw):
		s.nulls(n, rep, def)
	default:
		s.present(n, raw, rep, def+1)
	}
}

// items adds a list, whose repeated node is middle; element is middle itself or what it wraps.
func (s *shredder) items(middle, element *node, raw json.RawMessage, rep, def int) {
	var items []json.RawMessage
	if isNullJSON(raw) || json.Unmarshal(raw, &items) != nil && middle.leaf {
		items = []json.RawMessage{raw} // one text for a list of it
	}
	if isNullJSON(raw) || len(items) == 0 {
		s.nulls(middle, rep, def)
		return
	}
	for i, item := range items {
		if i > 0 {
			rep = middle.maxRep
		}
		if middle == element {
			s.present(element, item, rep, def+1)
		} else {
			s.put(element, item, rep, def+1)
		}
	}
}

// present adds a value that is not null, def being n's own level.
func (s *shredder) present(n *node, raw json.RawMessage, rep, def int) {
	switch {
	case n.leaf:
		v, ok := leafValue(n, raw)
		if !ok {
			v = parquet.ZeroValue(n.typ.Kind())
		}
		s.columns[n.column] = append(s.columns[n.column], v.Level(rep, def, n.column))
	case n.isList():
		if raw[0] == '"' { // one stop text where a list may be
			raw = slices.Concat(json.RawMessage("["), raw, json.RawMessage("]"))
		}
		s.items(n.fields[0], n.element(), raw, rep, def)
	default:
		var object map[string]json.RawMessage
		json.Unmarshal(raw, &object)
		for _, f := range n.fields {
			s.put(f, object[f.name], rep, def)
		}
	}
}

// holds says whether a column can hold a JSON value; elements of lists are looked at one by one.
func holds(n *node, raw json.RawMessage) bool {
	switch {
	case n.leaf:
		_, ok := leafValue(n, raw)
		return ok
	case n.isList():
		return raw[0] == '[' || raw[0] == '"' && parameter.TypeOf(n.name) == parameter.TextList
	}
	return raw[0] == '{'
}

// leafValue converts a JSON value to one of a leaf's type.
func leafValue(n *node, raw json.RawMessage) (parquet.Value, bool) {
	switch n.typ.Kind() {
	case parquet.Boolean:
		return parquet.BooleanValue(raw[0] == 't'), raw[0] == 't' || raw[0] == 'f'
	case parquet.ByteArray:
		if n.isJSON() {
			return parquet.ByteArrayValue(compactJSON(raw)), true
		}
		var text string
		if v, ok := parseNumber(raw); ok && n.name == parentName { // which may be a number, as ids may
			return parquet.ByteArrayValue([]byte(v.String())), true
		}
		err := json.Unmarshal(raw, &text)
		return parquet.ByteArrayValue([]byte(text)), err == nil
	}
	v, ok := parseNumber(raw)
	if !ok {
		return parquet.Value{}, false
	}
	if k := n.typ.Kind(); k == parquet.Double || k == parquet.Float {
		f := v.f
		if !v.isFloat {
			f = float64(v.i)
			if v.big {
				f = float64(v.u)
			}
		}
		if k == parquet.Float {
			return parquet.FloatValue(float32(f)), true
		}
		return parquet.DoubleValue(f), true
	}
	v, ok = v.whole()
	signed, _ := integer(n.typ)
	switch {
	case !ok, v.big && signed, v.i < 0 && !signed:
		return parquet.Value{}, false
	case n.typ.Kind() == parquet.Int32:
		return parquet.Int32Value(int32(v.i)), int64(int32(v.i)) == v.i
	}
	return parquet.Int64Value(int64(v.u)), n.typ.Kind() == parquet.Int64
}
