package completion

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// JSONColumn is the column on request that has a completion's text as a JSON value.
const JSONColumn = "json"

// JSONType is the type of [JSONColumn], which follows from a JSON schema.
type JSONType struct{ Node *schema.Node }

// Bounds of a type, far above the needs of any useful table.
const (
	maxTypeNodes = 2000
	maxTypeDepth = 32
)

// NewJSONType returns the type of the values that a JSON schema allows: structs with an object's properties, lists,
// text, 64-bit integers, doubles and booleans. A part without a single type of these is text that holds JSON, such as
// objects without properties, recursive schemas and alternatives; for the whole schema this is an error.
func NewJSONType(schema string) (*JSONType, error) {
	r := &schemaTypes{root: json.RawMessage(schema)}
	n := r.node("", r.root)
	switch {
	case r.nodes > maxTypeNodes:
		return nil, errors.New("the schema has too many properties for a column")
	case n.IsLeaf:
		return nil, errors.New("the schema fixes no type: an object with properties is needed, or a list")
	}
	return &JSONType{n}, nil
}

// schemaTypes derives types from schemas.
type schemaTypes struct {
	root  json.RawMessage
	refs  []string // references that are being followed
	depth int
	nodes int
}

// node returns the column for what a schema allows.
func (r *schemaTypes) node(name string, document json.RawMessage) *schema.Node {
	r.depth++
	defer func() { r.depth-- }()
	anything := schema.JSONAny.Node(name)
	if r.nodes++; r.nodes > maxTypeNodes || r.depth > maxTypeDepth {
		return anything
	}
	all, err := jsonvalue.MembersOf(document)
	if err != nil {
		return anything
	}
	if n := r.combined(name, all); n != nil {
		return n
	}
	switch properties, items := jsonvalue.Find(all, "properties"), jsonvalue.Find(all, "items"); typeOfSchema(all) {
	case "string":
		return schema.JSONText.Node(name)
	case "integer":
		return schema.JSONInt.Node(name)
	case "number":
		return schema.JSONDouble.Node(name)
	case "boolean":
		return schema.JSONBool.Node(name)
	case "array":
		if items != nil && jsonvalue.Find(all, "prefixItems") == nil {
			return schema.List(name, schema.Optional, r.node("", items))
		}
	case "object":
		named, err := jsonvalue.MembersOf(properties)
		if err != nil || len(named) == 0 {
			return anything
		}
		n := schema.Group(name, schema.Optional)
		for _, p := range named {
			n.Fields = append(n.Fields, r.node(p.Key, p.Raw))
		}
		return n
	}
	return anything
}

// combined returns the column of a schema that is a reference, a list of values, or alternatives; nil for other
// schemas.
func (r *schemaTypes) combined(name string, all []jsonvalue.Member) *schema.Node {
	var ref string
	if raw := jsonvalue.Find(all, "$ref"); raw != nil && json.Unmarshal(raw, &ref) == nil {
		target := r.target(ref)
		if target == nil || slices.Contains(r.refs, ref) {
			return schema.JSONAny.Node(name)
		}
		r.refs = append(r.refs, ref)
		defer func() { r.refs = r.refs[:len(r.refs)-1] }()
		return r.node(name, target)
	}
	var values []json.RawMessage
	if raw := jsonvalue.Find(all, "const"); raw != nil {
		values = []json.RawMessage{raw}
	} else if raw := jsonvalue.Find(all, "enum"); raw != nil && json.Unmarshal(raw, &values) != nil {
		return schema.JSONAny.Node(name)
	}
	if values != nil {
		t := schema.JSONNull
		for _, v := range values {
			t = schema.Unify(t, schema.TypeOfJSON(v))
		}
		if t == schema.JSONNull || t > schema.JSONText {
			t = schema.JSONAny
		}
		return t.Node(name)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var schemas []json.RawMessage
		if raw := jsonvalue.Find(all, key); raw == nil || json.Unmarshal(raw, &schemas) != nil {
			continue
		}
		if jsonvalue.Find(all, "properties") != nil || jsonvalue.Find(all, "items") != nil {
			return schema.JSONAny.Node(name)
		}
		var found *schema.Node
		for _, one := range schemas {
			members, _ := jsonvalue.MembersOf(one)
			if string(jsonvalue.Find(members, "type")) == `"null"` {
				continue
			}
			n := r.node(name, one)
			if found != nil && found.Layout() != n.Layout() || key == "allOf" && len(schemas) > 1 {
				return schema.JSONAny.Node(name)
			}
			found = n
		}
		return found
	}
	return nil
}

// typeOfSchema returns the one type that a schema names in addition to null, or that its keywords imply; "" is none.
func typeOfSchema(all []jsonvalue.Member) string {
	var names []string
	raw := jsonvalue.Find(all, "type")
	var one string
	switch {
	case raw == nil && jsonvalue.Find(all, "properties") != nil:
		return "object"
	case raw == nil && jsonvalue.Find(all, "items") != nil:
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

// target returns the schema that a reference within the document names, nil for other references.
func (r *schemaTypes) target(ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok || path != "" && path[0] != '/' {
		return nil
	}
	current := r.root
	for _, key := range strings.Split(path, "/")[1:] {
		object, err := jsonvalue.MembersOf(current)
		if err != nil {
			return nil
		}
		current = jsonvalue.Find(object, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	return current
}
