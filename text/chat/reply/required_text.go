package reply

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/quire/quire/text/grammar"
)

// textual are arguments that are written as text although the schema also allows other types: any text, or some texts.
type textual struct {
	any    bool     // any text
	choice []string // the other allowed texts, except numbers
	number bool     // numbers are allowed
	texts  int      // the number of choices that are strings
}

// textualArgument is an argument before marks, for a schema of strings, null, booleans and numbers. ok is false for
// schemas without strings and for all other schemas. The argument is read as a value that the schema allows (see
// [parameters.argument]): null and numbers are texts, too.
func textualArgument(schema json.RawMessage, marks []string) (p grammar.Part, ok bool) {
	var t textual
	switch {
	case !t.add(schema, marks), !t.any && t.texts == 0:
		return p, false
	case t.any:
		return grammar.Part{Without: marks}, true
	}
	return grammar.Part{Choice: t.choice}, !t.number
}

// annotations are keywords that do not restrict values.
var annotations = []string{"title", "description", "default", "examples", "deprecated"}

// add adds what a schema allows. It returns false if that can't be expressed.
func (t *textual) add(schema json.RawMessage, marks []string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil {
		return false
	}
	for _, key := range annotations {
		delete(members, key)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		var list []json.RawMessage
		if json.Unmarshal(members[key], &list) != nil {
			continue
		}
		if len(members) != 1 || len(list) == 0 || key == "allOf" && len(list) > 1 {
			return false
		}
		for _, one := range list {
			if !t.add(one, marks) {
				return false
			}
		}
		// oneOf rejects a value that several of its schemas allow.
		return key != "oneOf" || !t.any || t.texts == 0
	}
	types, _ := decoded(string(members["type"])).([]any)
	if types == nil && members["type"] != nil {
		types = []any{decoded(string(members["type"]))}
	}
	enum, isEnum := members["enum"]
	constant, isConst := members["const"]
	delete(members, "type")
	delete(members, "enum")
	delete(members, "const")
	switch {
	case len(members) > 0 || isEnum && isConst:
		return false
	case isConst:
		enum = json.RawMessage("[" + string(constant) + "]")
	case !isEnum:
		return len(types) > 0 && !slices.ContainsFunc(types, func(one any) bool { return !t.addType(one) })
	}
	values, _ := decoded(string(enum)).([]any)
	return len(values) > 0 && !slices.ContainsFunc(values, func(v any) bool { return !t.addValue(v, types, marks) })
}

func (t *textual) addType(name any) bool {
	switch name {
	case "string":
		t.any = true
	case "integer", "number":
		t.number = true
	case "null":
		return t.addChoice("null")
	case "boolean":
		return t.addChoice("true") && t.addChoice("false")
	default:
		return false
	}
	return true
}

// addValue adds a value of an enum if it has one of types, or if there are no types.
func (t *textual) addValue(v any, types []any, marks []string) bool {
	if types != nil && !slices.ContainsFunc(types, func(one any) bool { return isOf(v, one) }) {
		return true
	}
	switch v := v.(type) {
	case string:
		t.texts++
		within := func(mark string) bool { return strings.Contains(v, mark) }
		return v != "" && !slices.ContainsFunc(marks, within) && t.addChoice(v)
	case nil:
		return t.addChoice("null")
	case bool, json.Number:
		text, _ := marshal(v)
		return t.addChoice(string(text))
	}
	return false
}

// addChoice adds a text. It returns false if the text exists already, because it may then mean two values.
func (t *textual) addChoice(text string) bool {
	if slices.Contains(t.choice, text) {
		return false
	}
	t.choice = append(t.choice, text)
	return true
}
