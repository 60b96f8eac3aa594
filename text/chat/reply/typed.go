package reply

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tools are the tools of a row, as a JSON list; "" for none. Formats that write arguments as bare text take the types
// of arguments from it.
type Tools string

// parameters are the parameters of a tool: a JSON schema, even if it is invalid. It allows what it does not mention.
type parameters struct{ root any }

// parametersOf returns the parameters of the tool with a name. They are empty if there is no such tool.
func (t Tools) parametersOf(name string) parameters {
	var list []struct {
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if json.Unmarshal([]byte(t), &list) != nil {
		return parameters{}
	}
	for _, entry := range list {
		if entry.Function.Name == name {
			return parameters{decoded(string(entry.Function.Parameters))}
		}
	}
	return parameters{}
}

// decoded parses JSON and keeps numbers as they are written. It is nil if the text is not JSON.
func decoded(text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

// argument converts an argument that is written as bare text to JSON. It becomes null, a list or an object if the
// schema names that type, unless it allows the text alone; otherwise text if the schema allows this text or restricts
// nothing; otherwise the JSON as it is written, or a value in Python's syntax. If the schema allows neither, the type
// is the schema's.
func (p parameters) argument(name, text string) string {
	schema, known := p.property(p.root, name, mostFollowed)
	types := map[string]bool{}
	if known {
		p.types(schema, types, mostFollowed)
	}
	value, isValue := valueOf(strings.TrimSpace(text))
	if len(types) == 0 || !isValue {
		return quoted(text)
	}
	v := decoded(value)
	allowed, textAllowed := p.allows(schema, v, mostFollowed), p.allows(schema, text, mostFollowed)
	switch kind := kindOf(v); {
	case (kind == "null" || kind == "array" || kind == "object") && types[kind] && (allowed || !textAllowed):
		return value
	case textAllowed:
		return quoted(text)
	case allowed || !types["string"]:
		return value
	}
	return quoted(text)
}

// valueOf returns a value as JSON that is written as JSON or in Python's syntax.
func valueOf(text string) (value string, ok bool) {
	if json.Valid([]byte(text)) {
		return text, true
	}
	p := python{text: text} // templates write values so that they do not convert to JSON
	value, ok = p.value()
	return value, ok && p.atEnd()
}

// prefer returns the first of several values that the schema of an argument allows, or else the first one. The values
// are JSON.
func (p parameters) prefer(name string, values ...string) string {
	for _, value := range values {
		if p.takes(name, value) {
			return value
		}
	}
	return values[0]
}

// takes reports whether an argument has a schema that allows a value, which is JSON.
func (p parameters) takes(name, value string) bool {
	schema, known := p.property(p.root, name, mostFollowed)
	return known && p.allows(schema, decoded(value), mostFollowed)
}

// allowsText reports whether a schema without references allows a text.
func (p parameters) allowsText(schema json.RawMessage, text string) bool {
	return p.allows(decoded(string(schema)), text, mostFollowed)
}

// has reports whether there are arguments of these names.
func (p parameters) has(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, known := p.property(p.root, name, mostFollowed)
		return !known
	})
}

// mostFollowed bounds the depth of nested references and alternatives that are followed.
const mostFollowed = 40

// alternatives calls f for each schema that a schema refers to or is composed of.
func (p parameters) alternatives(schema any, f func(schema any)) {
	object, _ := schema.(map[string]any)
	if to, ok := object["$ref"].(string); ok {
		f(p.resolve(to))
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		list, _ := object[key].([]any)
		for _, one := range list {
			f(one)
		}
	}
}

// resolve returns the schema that a reference within the parameters names, or nil if it names none.
func (p parameters) resolve(reference string) any {
	path, ok := strings.CutPrefix(reference, "#")
	if !ok {
		return nil
	}
	current := p.root
	for _, key := range strings.Split(path, "/")[1:] {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		switch node := current.(type) {
		case map[string]any:
			current = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			current = node[i]
		default:
			return nil
		}
	}
	return current
}

// property returns the schema that an object's schema has for a member.
func (p parameters) property(schema any, name string, depth int) (property any, known bool) {
	object, _ := schema.(map[string]any)
	if object == nil || depth == 0 {
		return nil, false
	}
	properties, _ := object["properties"].(map[string]any)
	if property, known = properties[name]; known {
		return property, true
	}
	p.alternatives(schema, func(one any) {
		if !known {
			property, known = p.property(one, name, depth-1)
		}
	})
	if property, isSchema := object["additionalProperties"].(map[string]any); !known && isSchema {
		return property, true
	}
	return property, known
}

// types adds the types of values that a schema names.
func (p parameters) types(schema any, types map[string]bool, depth int) {
	object, _ := schema.(map[string]any)
	if object == nil || depth == 0 {
		return
	}
	for _, name := range listOf(object["type"]) {
		if name, ok := name.(string); ok {
			types[typeNamed(name)] = true
		}
	}
	values, _ := object["enum"].([]any)
	if constant, ok := object["const"]; ok {
		values = append(slices.Clone(values), constant)
	}
	for _, v := range values {
		types[kindOf(v)] = true
	}
	p.alternatives(schema, func(one any) { p.types(one, types, depth-1) })
}

// allows reports whether a schema allows a value, considering types, values, patterns, references and alternatives.
func (p parameters) allows(schema, v any, depth int) bool {
	object, isObject := schema.(map[string]any)
	if !isObject || depth == 0 {
		return schema != false
	}
	isType := func(name any) bool { return isOf(v, name) }
	if names, ok := object["type"]; ok && !slices.ContainsFunc(listOf(names), isType) {
		return false
	}
	equal := func(one any) bool { return sameValue(one, v) }
	if values, ok := object["enum"].([]any); ok && !slices.ContainsFunc(values, equal) {
		return false
	}
	if constant, ok := object["const"]; ok && !equal(constant) {
		return false
	}
	if text, isText := v.(string); isText {
		pattern, _ := object["pattern"].(string)
		if r, err := regexp.Compile(pattern); err == nil && !r.MatchString(text) {
			return false
		}
	}
	if to, ok := object["$ref"].(string); ok && !p.allows(p.resolve(to), v, depth-1) {
		return false
	}
	allowed := func(one any) bool { return p.allows(one, v, depth-1) }
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, ok := object[key].([]any); ok && !slices.ContainsFunc(list, allowed) {
			return false
		}
	}
	all, _ := object["allOf"].([]any)
	return !slices.ContainsFunc(all, func(one any) bool { return !allowed(one) })
}

func listOf(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

// kindOf returns the JSON type of a value.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case json.Number:
		if isInteger(v) {
			return "integer"
		}
		return "number"
	}
	return "object"
}

func isInteger(n json.Number) bool {
	_, err := strconv.ParseInt(string(n), 10, 64)
	x, _ := n.Float64()
	return err == nil || x == float64(int64(x))
}

// isOf reports whether a value has the type with a name. Unknown names allow any type.
func isOf(v any, name any) bool {
	text, _ := name.(string)
	kind, wanted := kindOf(v), typeNamed(text)
	known := []string{"null", "boolean", "string", "array", "object", "number", "integer"}
	return kind == wanted || kind == "integer" && wanted == "number" || !slices.Contains(known, wanted)
}

// typeNamed returns the JSON type of a name. Hand-written schemas use the names of programming languages.
func typeNamed(name string) string {
	switch name = strings.ToLower(strings.TrimSpace(name)); name {
	case "str", "text":
		return "string"
	case "int", "long":
		return "integer"
	case "float", "double":
		return "number"
	case "bool":
		return "boolean"
	case "dict":
		return "object"
	case "list":
		return "array"
	}
	return name
}

// sameValue reports whether two JSON values are equal. Numbers are compared by value.
func sameValue(a, b any) bool {
	x, isNumber := a.(json.Number)
	y, too := b.(json.Number)
	if isNumber && too {
		f, _ := x.Float64()
		g, _ := y.Float64()
		return f == g
	}
	return reflect.DeepEqual(a, b)
}
