package reply

import (
	"encoding/json"
	"strings"
)

// ToolCall is one call of a tool.
type ToolCall struct {
	ID        string // see [Forms.Identify]
	Name      string
	Arguments string // a JSON object, as the model wrote it
}

// MarshalJSON writes a call as OpenAI's API has it.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	return marshal(struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{c.ID, "function", function{c.Name, c.Arguments}})
}

// ParseCalls reads what [Parsed.JSON] wrote.
func ParseCalls(list string) (calls []ToolCall, err error) {
	if list == "" {
		return nil, nil
	}
	var all []struct {
		ID       string
		Function struct{ Name, Arguments string }
	}
	err = json.Unmarshal([]byte(list), &all)
	for _, c := range all {
		calls = append(calls, ToolCall{c.ID, c.Function.Name, c.Function.Arguments})
	}
	return calls, err
}

// decodeCalls reads a list of calls at the start of a text, each with arguments under one of keys. left are the items
// that are no calls, and from the first one that is no JSON on all of the text.
func decodeCalls(text string, keys ...string) (calls []ToolCall, left string, size int) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, blank), "[")
	var others []string
	for ok {
		rest = strings.TrimLeft(rest, blank)
		if after, done := strings.CutPrefix(rest, "]"); done {
			return calls, strings.Join(others, "\n"), len(text) - len(after)
		}
		raw, n, isJSON := decodeValue(rest)
		if !isJSON {
			break
		}
		if call, _, isCall := decodeCall(raw, keys...); isCall {
			calls = append(calls, call)
		} else {
			others = append(others, raw)
		}
		rest = strings.TrimPrefix(strings.TrimLeft(rest[n:], blank), ",")
	}
	return calls, strings.Join(append(others, rest), "\n"), len(text)
}

// decodeCall reads an object at the start of a text, with a name and with arguments under one of keys.
func decodeCall(text string, keys ...string) (call ToolCall, size int, ok bool) {
	raw, size, ok := decodeObject(text)
	if !ok {
		return call, 0, false
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &object) != nil || json.Unmarshal(object["name"], &call.Name) != nil ||
		call.Name == "" {
		return call, 0, false
	}
	_ = json.Unmarshal(object["id"], &call.ID) // few models write an id
	for _, key := range keys {
		arguments := string(object[key])
		if arguments == "" {
			continue
		}
		var text string // models that write the arguments as text with an object in it
		if json.Unmarshal([]byte(arguments), &text) == nil {
			arguments = text
		}
		call.Arguments, _, ok = decodeObject(arguments)
		return call, size, ok
	}
	return call, 0, false
}

// ended returns what follows the end mark of a call. The start of the next call, or the end of the text, may replace
// the mark.
func ended(text, end, next string) (rest string, ok bool) {
	trimmed := strings.TrimLeft(text, blank)
	if rest, ok = strings.CutPrefix(trimmed, end); ok {
		return rest, true
	}
	return trimmed, trimmed == "" || strings.HasPrefix(trimmed, next)
}

// reading reads the calls that a text begins with. left is the text among them that is no call, and size the length of
// calls and left.
type reading func(text string, tools Tools) (calls []ToolCall, left string, size int)

// between reads one call between two marks. one reads it after the first mark. Instead of the end mark the next call
// may start, or the text may end.
func between(start, end string, one func(inner string, tools Tools) (call ToolCall, rest string, ok bool)) reading {
	return func(text string, tools Tools) (calls []ToolCall, left string, size int) {
		call, rest, ok := one(text[len(start):], tools)
		if !ok {
			return nil, "", 0
		}
		if rest, ok = ended(rest, end, start); !ok {
			return nil, "", 0
		}
		return []ToolCall{call}, "", len(text) - len(rest)
	}
}

// section reads calls between two marks each, within a section between the marks start and last. one reads a call after
// its first mark. The end of the text may replace the last end marks. Calls that do not follow the form are left.
func section(start, call, done, last string, one func(inner string) (ToolCall, string, bool)) reading {
	return func(whole string, _ Tools) (calls []ToolCall, left string, size int) {
		text := whole[len(start):]
		var others []string
		for {
			text = strings.TrimLeft(text, blank)
			rest, over := strings.CutPrefix(text, last)
			if over || text == "" {
				return calls, strings.Join(others, "\n"), len(whole) - len(rest)
			}
			if behind, found := strings.CutPrefix(text, call); found {
				if c, after, ok := one(behind); ok {
					if after, ok = ended(after, done, last); ok {
						calls, text = append(calls, c), after
						continue
					}
				}
			}
			// A part that is no call ends with its end mark, or before the next part.
			index, mark := first(text[1:], []string{call, done, last})
			if index++; mark == done {
				index += len(done)
			}
			others, text = append(others, text[:index]), text[index:]
		}
	}
}
