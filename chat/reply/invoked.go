package reply

import (
	"encoding/json"
	"strings"
)

// Marks of calls with an id, a list, or a block around all of them.
const (
	kimiStart, kimiEnd           = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
	kimiCall, kimiArgs, kimiDone = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
	graniteCall                  = "<|tool_call|>"
	phiCalls                     = "functools"
	dsml                         = "｜DSML｜" // DeepSeek V3.2 and V4
	invokeStart, invokeEnd       = "<" + dsml + `invoke name="`, "</" + dsml + "invoke>"
	givenStart, givenEnd         = "<" + dsml + `parameter name="`, "</" + dsml + "parameter>"
)

// kimi reads <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}<|tool_call_end|>, of Kimi K2, within
// the marks of a section.
func kimi(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	before, behind, found := strings.Cut(text, kimiStart)
	if !found {
		return nil, "", false
	}
	calls, after, ok := objects(behind, kimiCall, kimiDone, kimiEnd, func(text string) (call ToolCall, ok bool) {
		id, text, named := strings.Cut(text, kimiArgs)
		raw, size, isObject := decodeObject(text)
		id = strings.TrimSpace(id)
		name := strings.TrimPrefix(id, functionsOf)
		if at := strings.LastIndexByte(name, ':'); at >= 0 {
			name = name[:at]
		}
		return ToolCall{ID: id, Name: name, Arguments: raw},
			named && isObject && name != "" && strings.TrimSpace(text[size:]) == ""
	})
	return calls, strings.TrimRight(before, " \n") + strings.TrimLeft(after, " \n"), ok
}

// granite reads <|tool_call|>[{"name": ..., "arguments": {...}}], of Granite 3.
func granite(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	before, behind, found := strings.Cut(text, graniteCall)
	if !found {
		before, behind, found = strings.Cut(text, callStart)
	}
	calls, size, ok := decodeCalls(behind, "arguments")
	if !found || !ok {
		return nil, "", false
	}
	return calls, before + strings.TrimLeft(behind[size:], "\n"), true
}

// phi reads functools[{"name": ..., "arguments": {...}}], of Phi-4-mini.
func phi(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	before, behind, found := strings.Cut(text, phiCalls+"[")
	if !found {
		return nil, "", false
	}
	calls, size, ok := decodeCalls("["+behind, "arguments", "parameters")
	if !ok {
		return nil, "", false
	}
	return calls, before + strings.TrimLeft(behind[size-1:], "\n"), true
}

// deepSeekBlock reads a block of <｜DSML｜invoke name="f">, each with <｜DSML｜parameter name="key" string="true">, of
// DeepSeek V3.2 and V4.
func deepSeekBlock(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	for _, block := range []string{"function_calls>", "tool_calls>"} {
		before, behind, found := strings.Cut(text, "<"+dsml+block)
		if !found {
			continue
		}
		inner, after, _ := strings.Cut(behind, "</"+dsml+block)
		calls, left, ok := marked(inner, invokeStart, invokeEnd, invoked)
		if !ok || strings.TrimSpace(left) != "" {
			return nil, "", false
		}
		return calls, strings.TrimRight(before, "\n") + after, true
	}
	return nil, "", false
}

// invoked reads a call behind its first mark.
func invoked(text string) (call ToolCall, ok bool) {
	name, text, ok := strings.Cut(text, `">`)
	if !ok || name == "" {
		return call, false
	}
	var list []string
	seen := map[string]bool{}
	for text = strings.TrimLeft(text, " \n"); text != ""; text = strings.TrimLeft(text, " \n") {
		text, ok = strings.CutPrefix(text, givenStart)
		head, behind, named := strings.Cut(text, `">`)
		key, isText, typed := strings.Cut(head, `" string="`)
		value, after, ended := strings.Cut(behind, givenEnd)
		if !ok || !named || !typed || !ended || seen[key] || isText != "true" && !json.Valid([]byte(value)) {
			return call, false
		}
		if isText == "true" {
			value = quoted(value)
		}
		seen[key] = true
		list, text = append(list, quoted(key)+": "+strings.TrimSpace(value)), after
	}
	return ToolCall{Name: name, Arguments: "{" + strings.Join(list, ", ") + "}"}, true
}
