package reply

import "strings"

// The marks of calls that have marks for each argument.
const (
	seedStart, seedEnd           = "<seed:tool_call>", "</seed:tool_call>"
	functionStart, functionEnd   = "<function=", "</function>"
	parameterStart, parameterEnd = "<parameter=", "</parameter>"
	keyStart, keyEnd             = "<arg_key>", "</arg_key>" // GLM
	valueStart, valueEnd         = "<arg_value>", "</arg_value>"
)

// functionBetween returns what reads <function=name>...</function> between two marks, of Qwen3-Coder and Seed-OSS. Each
// of the marks may be missing.
func functionBetween(start, end string) func(string, Tools) ([]ToolCall, string, int) {
	return func(text string, tools Tools) (calls []ToolCall, left string, size int) {
		call, rest, ok := function(strings.TrimPrefix(text, start), end, tools)
		if !ok {
			return nil, "", 0
		}
		if after, ended := strings.CutPrefix(strings.TrimLeft(rest, blank), end); ended {
			rest = after
		}
		return []ToolCall{call}, "", len(text) - len(rest)
	}
}

// function parses <function=name><parameter=key>value</parameter></function>.
func function(text, end string, tools Tools) (call ToolCall, rest string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimLeft(text, blank), functionStart)
	name, text, named := strings.Cut(text, ">")
	if name = strings.TrimSpace(name); !ok || !named || name == "" || strings.ContainsAny(name, "<\n") {
		return call, "", false
	}
	a := arguments{params: tools.parametersOf(name)}
	for {
		text = strings.TrimLeft(text, blank)
		if rest, ok = strings.CutPrefix(text, functionEnd); ok {
			return ToolCall{Name: name, Arguments: a.object()}, rest, true
		}
		if strings.HasPrefix(text, end) { // </function> is missing
			return ToolCall{Name: name, Arguments: a.object()}, text, true
		}
		text, ok = strings.CutPrefix(text, parameterStart)
		key, tail, named := strings.Cut(text, ">")
		if !ok || !named {
			return call, "", false
		}
		value, after, ended := a.parameter(strings.TrimSpace(key), tail, end)
		if !ended || !a.add(key, strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")) {
			return call, "", false
		}
		text = after
	}
}

// parameter splits a text after the value of an argument. Models omit </parameter>: the start of another argument of
// the tool on its own line replaces it, or </function> before the end mark of the call, as in vLLM.
func (a *arguments) parameter(key, text, end string) (value, after string, ok bool) {
	value, after, ok = strings.Cut(text, parameterEnd)
	whole, _ := cutBefore(value, end) // a value that contains the end mark of a call lacks its own
	for from := 0; ; {
		index := strings.Index(whole[from:], "\n"+parameterStart)
		if index < 0 {
			break
		}
		from += index + 1
		next, _, named := strings.Cut(whole[from+len(parameterStart):], ">")
		if named && next != key && !a.seen[next] && (a.params.root == nil || a.params.has([]string{next})) {
			return whole[:from], text[from:], true
		}
	}
	if ok && len(whole) == len(value) {
		return value, after, true
	}
	// If </parameter> follows in this call, the end mark is part of the value, and the end of the value is ambiguous.
	if ok && !strings.Contains(value[len(whole):], functionStart) {
		return "", "", false
	}
	value, ok = strings.CutSuffix(strings.TrimRight(whole, blank), functionEnd)
	return value, text[len(value):], ok
}

// glm parses name<arg_key>key</arg_key><arg_value>value</arg_value>, used by GLM-4.5.
func glm(text string, tools Tools) (call ToolCall, rest string, ok bool) {
	index, mark := first(text, []string{keyStart, callEnd})
	name := strings.TrimSpace(text[:index])
	if mark == "" || name == "" || strings.ContainsAny(name, "<{") {
		return call, "", false
	}
	a := arguments{params: tools.parametersOf(name)}
	for text = text[index:]; ; {
		text = strings.TrimLeft(text, blank)
		if text, ok = strings.CutPrefix(text, keyStart); !ok {
			return ToolCall{Name: name, Arguments: a.object()}, text, true
		}
		key, tail, named := strings.Cut(text, keyEnd)
		tail, hasValue := strings.CutPrefix(strings.TrimLeft(tail, blank), valueStart)
		value, after, ended := strings.Cut(tail, valueEnd)
		if !named || !hasValue || !ended || strings.Contains(value, callEnd) || !a.add(key, value) {
			return call, "", false
		}
		text = after
	}
}

// Marks of DeepSeek's calls.
const (
	deepStart, deepEnd          = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
	deepCall, deepSep, deepDone = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
)

// deepSeek parses a call of DeepSeek. V3 and R1 have the type before the name, and then the arguments in a block of
// JSON; V3.1 has the name and the arguments.
func deepSeek(text string) (call ToolCall, rest string, ok bool) {
	name, tail, named := strings.Cut(text, deepSep)
	if !named {
		return call, "", false
	}
	kind, fenced, isBlock := strings.Cut(tail, "\n```json\n")
	if isBlock = isBlock && !strings.Contains(kind, "{"); isBlock {
		if name != "function" {
			return call, "", false
		}
		name, tail = kind, fenced
	}
	raw, size, ok := decodeObject(tail)
	if name = strings.TrimSpace(name); !ok || name == "" || strings.Contains(name, deepCall) {
		return call, "", false
	}
	rest = strings.TrimLeft(tail[size:], blank)
	if isBlock {
		rest = strings.TrimPrefix(rest, "```")
	}
	return ToolCall{Name: name, Arguments: raw}, rest, true
}
