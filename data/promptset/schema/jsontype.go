package schema

import (
	"encoding/json"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
)

// JSONType is what is known of the values of a key. Types only widen: null becomes any other; integer and double
// become double; all other combinations become text that holds JSON. Objects and nested lists are text that holds
// JSON, too.
type JSONType int8

const (
	JSONNull JSONType = iota
	JSONBool
	JSONInt
	JSONDouble
	JSONText
	JSONMessages // list of {role, content}, both text
	JSONAny
	jsonList // plus the type of the elements; null if all lists are empty
)

func Unify(a, b JSONType) JSONType {
	switch {
	case a == b || b == JSONNull:
		return a
	case a == JSONNull:
		return b
	case a >= jsonList && b >= jsonList:
		if e := Unify(a-jsonList, b-jsonList); e <= JSONText {
			return jsonList + e
		}
		return JSONAny
	case a == jsonList && b == JSONMessages || a == JSONMessages && b == jsonList: // an empty list
		return JSONMessages
	case a >= JSONMessages || b >= JSONMessages:
		return JSONAny
	case a|b == JSONInt|JSONDouble:
		return JSONDouble
	}
	return JSONAny
}

func TypeOfJSON(raw json.RawMessage) JSONType {
	switch raw[0] {
	case 'n':
		return JSONNull
	case 't', 'f':
		return JSONBool
	case '"':
		return JSONText
	case '{':
		return JSONAny
	case '[':
	default:
		v, ok := jsonvalue.ParseNumber(raw)
		switch {
		case !ok || v.Big || v.IsFloat && !strings.ContainsAny(string(raw), ".eE"):
			return JSONAny // does not fit in 64 bits
		case v.IsFloat:
			return JSONDouble
		}
		return JSONInt
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return JSONAny
	}
	element, allMessages := JSONNull, len(items) > 0
	for _, item := range items {
		element = Unify(element, TypeOfJSON(item))
		allMessages = allMessages && isMessage(item)
	}
	switch {
	case allMessages:
		return JSONMessages
	case element <= JSONText:
		return jsonList + element
	}
	return JSONAny
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

func (t JSONType) Node(name string) *Node {
	switch t {
	case JSONBool:
		return Leaf(name, Optional, parquet.BooleanType)
	case JSONInt:
		return Leaf(name, Optional, parquet.Int64Type)
	case JSONDouble:
		return Leaf(name, Optional, parquet.DoubleType)
	case JSONText:
		return Leaf(name, Optional, parquet.String().Type())
	case JSONMessages:
		return List(name, Optional, Group("", Optional, JSONText.Node("role"), JSONText.Node("content")))
	case JSONAny:
		return Leaf(name, Optional, parquet.JSON().Type())
	case JSONNull:
		return Leaf(name, Optional, NullType)
	}
	if t == jsonList {
		return List(name, Optional, Leaf("", Optional, emptyType))
	}
	return List(name, Optional, (t - jsonList).Node(""))
}
