package reply

import (
	"bytes"
	"encoding/json"
	"strings"
)

// arguments are the arguments of a call, typed by the parameters of the tool.
type arguments struct {
	params parameters
	list   []string
	seen   map[string]bool
}

// add adds an argument that is written as text. It returns false for one that is there already.
func (a *arguments) add(key, text string) bool {
	key = strings.TrimSpace(key)
	return a.addJSON(key, a.params.argument(key, text))
}

// addJSON adds an argument as JSON. It returns false for one that is there already.
func (a *arguments) addJSON(key, value string) bool {
	if key == "" || a.seen[key] {
		return false
	}
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[key] = true
	a.list = append(a.list, quoted(key)+": "+value)
	return true
}

func (a *arguments) object() string { return "{" + strings.Join(a.list, ", ") + "}" }

// unwrapped is the object of the arguments. If a model put all of them into one argument that the tool does not have,
// "arguments" or "input", it is the value of that argument.
func (a *arguments) unwrapped() string {
	whole := a.object()
	if len(a.list) != 1 || a.seen["arguments"] == a.seen["input"] {
		return whole
	}
	for name := range a.seen {
		inner := strings.TrimPrefix(a.list[0], quoted(name)+": ")
		var text string // an object written as text
		if json.Unmarshal([]byte(inner), &text) == nil {
			inner = text
		}
		var members map[string]json.RawMessage
		if a.params.root == nil || a.params.has([]string{name}) || json.Unmarshal([]byte(inner), &members) != nil ||
			members == nil {
			return whole
		}
		var names []string
		for member := range members {
			names = append(names, member)
		}
		if a.params.has(names) {
			whole = string(bytes.TrimSpace([]byte(inner)))
		}
	}
	return whole
}
