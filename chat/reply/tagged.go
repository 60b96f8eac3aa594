package reply

import (
	"encoding/json"
	"strings"
)

// Marks of calls with a mark for each argument.
const (
	seedStart, seedEnd           = "<seed:tool_call>", "</seed:tool_call>"
	functionStart, functionEnd   = "<function=", "</function>"
	parameterStart, parameterEnd = "<parameter=", "</parameter>"
	keyStart, keyEnd             = "<arg_key>", "</arg_key>" // GLM
	valueStart, valueEnd         = "<arg_value>", "</arg_value>"
)

// Tools are the tools that a row has, as a JSON list; "" for none. Forms without types take those of the arguments from
// there.
type Tools string

// isText says that an argument of a tool is text: the schema says so, or nothing.
func (t Tools) isText(tool, argument string) bool {
	var list []struct {
		Function struct {
			Name       string
			Parameters struct {
				Properties map[string]struct{ Type any }
			}
		}
	}
	if json.Unmarshal([]byte(t), &list) != nil {
		return true
	}
	for _, of := range list {
		if of.Function.Name == tool {
			property, known := of.Function.Parameters.Properties[argument]
			return !known || property.Type == "string"
		}
	}
	return true
}

// argument is a value as JSON: what is written, where that is JSON or a value of Python and the argument is none of
// text, else text.
func (t Tools) argument(tool, name, value string) string {
	if trimmed := strings.TrimSpace(value); !t.isText(tool, name) {
		if json.Valid([]byte(trimmed)) {
			return trimmed
		}
		p := python{text: trimmed} // as templates write values that they do not make JSON of
		if v, ok := p.value(); ok && p.atEnd() {
			return v
		}
	}
	return quoted(value)
}

// marked reads calls between two marks, each by one. The end of the text may stand for the last end mark.
func marked(text, start, end string, one func(inner string) (ToolCall, bool)) (calls []ToolCall, rest string, ok bool) {
	var left strings.Builder
	for {
		before, behind, found := strings.Cut(text, start)
		if !found {
			left.WriteString(text)
			return calls, left.String(), len(calls) > 0
		}
		left.WriteString(strings.TrimRight(before, "\n"))
		inner, after, _ := strings.Cut(behind, end)
		call, ok := one(inner)
		if !ok {
			return nil, "", false
		}
		calls, text = append(calls, call), strings.TrimLeft(after, "\n")
	}
}

// qwenCoder reads <tool_call><function=name><parameter=key>value</parameter></function></tool_call>, of Qwen3-Coder.
func qwenCoder(text string, tools Tools) (calls []ToolCall, rest string, ok bool) {
	return marked(text, callStart, callEnd, tools.function)
}

// seed is qwenCoder with the marks of Seed-OSS.
func seed(text string, tools Tools) (calls []ToolCall, rest string, ok bool) {
	return marked(text, seedStart, seedEnd, tools.function)
}

// function reads <function=name>...</function>.
func (t Tools) function(text string) (call ToolCall, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(text), functionStart)
	inner, ended := strings.CutSuffix(text, functionEnd)
	name, text, named := strings.Cut(inner, ">")
	if !ok || !ended || !named || name == "" {
		return call, false
	}
	a := arguments{of: t, tool: name}
	for text = strings.TrimLeft(text, " \n"); text != ""; text = strings.TrimLeft(text, " \n") {
		text, ok = strings.CutPrefix(text, parameterStart)
		key, behind, named := strings.Cut(text, ">")
		value, after, ended := strings.Cut(behind, parameterEnd)
		if !ok || !named || !ended || !a.add(key, strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")) {
			return call, false
		}
		text = after
	}
	return ToolCall{Name: name, Arguments: a.object()}, true
}

// glm reads <tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>, of GLM-4.5.
func glm(text string, tools Tools) (calls []ToolCall, rest string, ok bool) {
	return marked(text, callStart, callEnd, func(text string) (call ToolCall, ok bool) {
		name, text := cutBefore(text, keyStart)
		if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, "<{") {
			return call, false
		}
		a := arguments{of: tools, tool: name}
		for text != "" {
			text, ok = strings.CutPrefix(text, keyStart)
			key, behind, named := strings.Cut(text, keyEnd)
			behind, hasValue := strings.CutPrefix(strings.TrimLeft(behind, " \n"), valueStart)
			value, after, ended := strings.Cut(behind, valueEnd)
			if !ok || !named || !hasValue || !ended || !a.add(key, value) {
				return call, false
			}
			text = strings.TrimLeft(after, " \n")
		}
		return ToolCall{Name: name, Arguments: a.object()}, true
	})
}

// cutBefore cuts a text before the first mark.
func cutBefore(text, mark string) (before, rest string) {
	if at := strings.Index(text, mark); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// arguments are those of a call, with their types of the tools.
type arguments struct {
	of   Tools
	tool string
	list []string
	seen map[string]bool
}

// add adds an argument. It returns false for one that is there already.
func (a *arguments) add(key, value string) bool {
	if key = strings.TrimSpace(key); key == "" || a.seen[key] {
		return false
	}
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[key] = true
	a.list = append(a.list, quoted(key)+": "+a.of.argument(a.tool, key, value))
	return true
}

func (a *arguments) object() string { return "{" + strings.Join(a.list, ", ") + "}" }

// Marks of DeepSeek's calls.
const (
	deepStart, deepEnd          = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
	deepCall, deepSep, deepDone = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
)

// deepSeek reads calls of DeepSeek: of V3 and R1 with the type before the name, and the arguments in a block of JSON
// behind it; of V3.1 the name, and the arguments.
func deepSeek(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	before, behind, found := strings.Cut(text, deepStart)
	if !found {
		return nil, "", false
	}
	calls, after, ok := objects(behind, deepCall, deepDone, deepEnd, func(text string) (call ToolCall, ok bool) {
		name, text, named := strings.Cut(text, deepSep)
		if kind, fenced, isBlock := strings.Cut(text, "\n```json\n"); isBlock {
			if name != "function" {
				return call, false
			}
			name, text = kind, strings.TrimSuffix(strings.TrimSpace(fenced), "```")
		}
		raw, size, isObject := decodeObject(text)
		return ToolCall{Name: strings.TrimSpace(name), Arguments: raw},
			named && isObject && strings.TrimSpace(name) != "" && strings.TrimSpace(text[size:]) == ""
	})
	return calls, strings.TrimRight(before, "\n") + after, ok
}

// objects reads calls between two marks, each by one, up to a mark that ends all of them. Their arguments are JSON, in
// whose texts the marks may stand. The end of the text may stand for the last end marks.
func objects(text, start, end, last string, one func(inner string) (ToolCall, bool)) (calls []ToolCall, rest string,
	ok bool) {
	for {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" && len(calls) > 0 {
			return calls, "", true
		}
		text = strings.TrimLeft(text, " \n")
		if after, ended := strings.CutPrefix(text, last); ended && len(calls) > 0 {
			return calls, after, true
		}
		behind, found := strings.CutPrefix(text, start)
		if !found {
			return nil, "", false
		}
		var call ToolCall
		for size, found := 0, false; !found; {
			// What ends within a text of the arguments is no object yet.
			at := nearest(behind[size:], end, last)
			inner := behind[:size+at]
			if call, found = one(inner); found {
				text = strings.TrimPrefix(behind[len(inner):], end)
			} else if size += at + 1; size > len(behind) {
				return nil, "", false
			}
		}
		calls = append(calls, call)
	}
}

// nearest is where the first of two marks stands, or the end of the text.
func nearest(text, a, b string) int {
	at := len(text)
	for _, mark := range []string{a, b} {
		if i := strings.Index(text[:at], mark); i >= 0 {
			at = i
		}
	}
	return at
}
