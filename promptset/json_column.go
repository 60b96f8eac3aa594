package promptset

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// JSONColumn is the column on request that has the text of a completion as a value.
const JSONColumn = "json"

// JSONType is the type of [JSONColumn], which follows from a JSON schema.
type JSONType struct{ node *node }

// Bounds of a type, far above those of any that is of use in a table.
const (
	maxTypeNodes = 2000
	maxTypeDepth = 32
)

// NewJSONType returns the type of the values that a JSON schema allows: structs of an object's properties, lists, text,
// 64-bit integers, doubles and booleans. What has no one type of these is text that holds JSON, such as objects without
// properties, recursive schemas and alternatives; the whole may not be.
func NewJSONType(schema string) (*JSONType, error) {
	r := &schemaTypes{root: json.RawMessage(schema)}
	n := r.node("", r.root)
	switch {
	case r.nodes > maxTypeNodes:
		return nil, errors.New("the schema has too many properties for a column")
	case n.leaf:
		return nil, errors.New("the schema fixes no type: an object with properties is needed, or a list")
	}
	return &JSONType{n}, nil
}

// schemaTypes finds the types of schemas.
type schemaTypes struct {
	root  json.RawMessage
	refs  []string // that are being followed
	depth int
	nodes int
}

// node is the column of what a schema allows.
func (r *schemaTypes) node(name string, document json.RawMessage) *node {
	r.depth++
	defer func() { r.depth-- }()
	anything := jsonAny.node(name)
	if r.nodes++; r.nodes > maxTypeNodes || r.depth > maxTypeDepth {
		return anything
	}
	all, err := objectOf(document)
	if err != nil {
		return anything
	}
	if n := r.combined(name, all); n != nil {
		return n
	}
	switch properties, items := valueOf(all, "properties"), valueOf(all, "items"); typeOfSchema(all) {
	case "string":
		return jsonText.node(name)
	case "integer":
		return jsonInt.node(name)
	case "number":
		return jsonDouble.node(name)
	case "boolean":
		return jsonBool.node(name)
	case "array":
		if items != nil && valueOf(all, "prefixItems") == nil {
			return listNode(name, optional, r.node("", items))
		}
	case "object":
		named, err := objectOf(properties)
		if err != nil || len(named) == 0 {
			return anything
		}
		n := groupNode(name, optional)
		for _, p := range named {
			n.fields = append(n.fields, r.node(p.key, p.raw))
		}
		return n
	}
	return anything
}

// combined is the column of a schema that is another one, values, or alternatives; nil for others.
func (r *schemaTypes) combined(name string, all []member) *node {
	var ref string
	if raw := valueOf(all, "$ref"); raw != nil && json.Unmarshal(raw, &ref) == nil {
		target := r.target(ref)
		if target == nil || slices.Contains(r.refs, ref) {
			return jsonAny.node(name)
		}
		r.refs = append(r.refs, ref)
		defer func() { r.refs = r.refs[:len(r.refs)-1] }()
		return r.node(name, target)
	}
	var values []json.RawMessage
	if raw := valueOf(all, "const"); raw != nil {
		values = []json.RawMessage{raw}
	} else if raw := valueOf(all, "enum"); raw != nil && json.Unmarshal(raw, &values) != nil {
		return jsonAny.node(name)
	}
	if values != nil {
		t := jsonNull
		for _, v := range values {
			t = unify(t, typeOfJSON(v))
		}
		if t == jsonNull || t > jsonText {
			t = jsonAny
		}
		return t.node(name)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var schemas []json.RawMessage
		if raw := valueOf(all, key); raw == nil || json.Unmarshal(raw, &schemas) != nil {
			continue
		}
		if valueOf(all, "properties") != nil || valueOf(all, "items") != nil {
			return jsonAny.node(name)
		}
		var found *node
		for _, one := range schemas {
			of, _ := objectOf(one)
			if string(valueOf(of, "type")) == `"null"` {
				continue
			}
			n := r.node(name, one)
			if found != nil && found.layout() != n.layout() || key == "allOf" && len(schemas) > 1 {
				return jsonAny.node(name)
			}
			found = n
		}
		return found
	}
	return nil
}

// objectOf returns the members of an object.
func objectOf(raw json.RawMessage) ([]member, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, errors.New("no object")
	}
	return membersOf(raw)
}

// typeOfSchema is the one type that a schema names beside null, or what its keywords are for; "" is none.
func typeOfSchema(all []member) string {
	var names []string
	raw := valueOf(all, "type")
	var one string
	switch {
	case raw == nil && valueOf(all, "properties") != nil:
		return "object"
	case raw == nil && valueOf(all, "items") != nil:
		return "array"
	case raw == nil:
		return ""
	case json.Unmarshal(raw, &one) == nil:
		return one
	case json.Unmarshal(raw, &names) != nil:
		return ""
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "null" })
	slices.Sort(names)
	switch strings.Join(names, " ") {
	case "integer number":
		return "number"
	default:
		if len(names) == 1 {
			return names[0]
		}
	}
	return ""
}

// target is the schema that a reference within the document names, nil for another reference.
func (r *schemaTypes) target(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil
	}
	at := r.root
	for _, key := range strings.Split(path, "/")[1:] {
		object, err := objectOf(at)
		if err != nil {
			return nil
		}
		at = valueOf(object, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	return at
}

// jsonForm is text as the JSON value that it is, null where it is none of its type. Without a type it is any value, as
// text that holds JSON.
type jsonForm struct{ *JSONType }

func (f jsonForm) node(name string, _ repetition) *node {
	if f.JSONType == nil {
		return jsonAny.node(name)
	}
	n := f.JSONType.node.clone()
	n.name = name
	return n
}

func (f jsonForm) fits(*node) bool                    { return true }
func (f jsonForm) setJSON(any, json.RawMessage) error { return nil }
func (f jsonForm) set(any, parquet.Value)             {}

// value is the value of a text, nil if it has none.
func (f jsonForm) value(text string) json.RawMessage {
	raw := json.RawMessage(strings.TrimSpace(text))
	if !json.Valid(raw) || loneSurrogate(raw) {
		return nil
	}
	value, ok := conform(f.node("", optional), raw)
	if !ok || isNullJSON(value) {
		return nil
	}
	return value
}

func (f jsonForm) appendJSON(b []byte, at any) []byte {
	if value := f.value(*at.(*string)); value != nil {
		return append(b, value...)
	}
	return append(b, "null"...)
}

func (f jsonForm) appendValues(row parquet.Row, at any, column, _ int) parquet.Row {
	n := f.node(JSONColumn, optional)
	number(groupNode("row", required, n))
	s := shredder{columns: make([][]parquet.Value, n.leaves)}
	s.put(n, f.value(*at.(*string)), 0, 0)
	for i, values := range s.columns {
		for _, v := range values {
			row = append(row, v.Level(v.RepetitionLevel(), v.DefinitionLevel(), column+i))
		}
	}
	return row
}

// conform returns a JSON value as one of a column: of an object the members that are the column's, in its order. It
// returns false for a value that the column cannot hold.
func conform(n *node, raw json.RawMessage) (json.RawMessage, bool) {
	switch {
	case isNullJSON(raw):
		return json.RawMessage("null"), true
	case n.isJSON():
		return compactJSON(raw), true
	case n.leaf:
		v, ok := leafValue(n, raw)
		if ok && v.Kind() == parquet.Int64 {
			return appendValue(nil, v, n.typ), true
		}
		return raw, ok
	case n.isList():
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil {
			return nil, false
		}
		out := []byte{'['}
		for i, item := range items {
			value, ok := conform(n.element(), item)
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
	object, err := objectOf(raw)
	if err != nil {
		return nil, false
	}
	var out []member
	for _, f := range n.fields {
		value := valueOf(object, f.name)
		if value == nil {
			continue
		}
		value, ok := conform(f, value)
		if !ok {
			return nil, false
		}
		out = append(out, member{f.name, value})
	}
	return joinMembers(out), true
}

// typeJSON gives [JSONColumn] a type.
func (o *outputColumns) typeJSON(t *JSONType) *outputColumns {
	i := slices.IndexFunc(o.results, func(c *Column) bool { return c.Name == JSONColumn })
	if i >= 0 && t != nil {
		c := *o.results[i]
		c.form = jsonForm{t}
		o.results[i], o.root.fields[len(o.input)+i] = &c, c.node()
		number(o.root)
	}
	return o
}
