package reply

import (
	"encoding/json"
	"slices"
	"strings"
)

// The marks of calls with an id, a list, or a block around all of them.
const (
	kimiStart, kimiEnd           = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
	kimiOneStart, kimiOneEnd     = "<|tool_call_section_begin|>", "<|tool_call_section_end|>" // some write these
	kimiCall, kimiArgs, kimiDone = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
	graniteCall                  = "<|tool_call|>"
	phiCalls                     = "functools"
	dsml                         = "｜DSML｜" // DeepSeek V3.2 and V4
	invokeStart, invokeEnd       = "<" + dsml + `invoke name="`, "</" + dsml + "invoke>"
	givenStart, givenEnd         = "<" + dsml + `parameter name="`, "</" + dsml + "parameter>"
)

// blockStart and blockEnd enclose the calls of DeepSeek V3.2 and V4, respectively.
var (
	blockStart = [2]string{"<" + dsml + "function_calls>", "<" + dsml + "tool_calls>"}
	blockEnd   = [2]string{"</" + dsml + "function_calls>", "</" + dsml + "tool_calls>"}
)

// kimi parses functions.name:0<|tool_call_argument_begin|>{...}, used by Kimi K2.
func kimi(text string) (call ToolCall, rest string, ok bool) {
	id, tail, named := strings.Cut(text, kimiArgs)
	raw, size, ok := decodeObject(tail)
	id = strings.TrimSpace(id)
	name := strings.TrimPrefix(id, functionsOf)
	if index := strings.LastIndexByte(name, ':'); index >= 0 {
		name = name[:index]
	}
	if !named || !ok || name == "" || strings.Contains(id, kimiCall) {
		return call, "", false
	}
	return ToolCall{ID: id, Name: name, Arguments: raw}, tail[size:], true
}

// kimiSection parses a section of calls of Kimi K2, whose marks have one call or several in their names, as in vLLM.
func kimiSection(text string, tools Tools) (calls []ToolCall, left string, size int) {
	start, end := kimiStart, kimiEnd
	if strings.HasPrefix(text, kimiOneStart) {
		start, end = kimiOneStart, kimiOneEnd
	}
	return section(start, kimiCall, kimiDone, end, kimi)(text, tools)
}

// granite parses <|tool_call|>[{"name": ..., "arguments": {...}}], used by Granite 3.
func granite(text string, _ Tools) (calls []ToolCall, left string, size int) {
	_, mark := first(text, []string{graniteCall, callStart})
	calls, left, n := decodeCalls(text[len(mark):], "arguments")
	return calls, left, len(mark) + n
}

// phi parses functools[{"name": ..., "arguments": {...}}], used by Phi-4-mini.
func phi(text string, _ Tools) (calls []ToolCall, left string, size int) {
	calls, left, n := decodeCalls(text[len(phiCalls):], "arguments", "parameters")
	return calls, left, len(phiCalls) + n
}

// deepSeekBlock parses a block of <｜DSML｜invoke name="f">, each with <｜DSML｜parameter name="key" string="true">, used
// by DeepSeek V3.2 and V4.
func deepSeekBlock(text string, tools Tools) (calls []ToolCall, left string, size int) {
	for i, start := range blockStart {
		if !strings.HasPrefix(text, start) {
			continue
		}
		return section(start, invokeStart, invokeEnd, blockEnd[i], func(inner string) (ToolCall, string, bool) {
			return invoked(inner, tools)
		})(text, tools)
	}
	return nil, "", 0
}

// invoked reads a call after its first mark.
func invoked(text string, tools Tools) (call ToolCall, rest string, ok bool) {
	name, text, ok := strings.Cut(text, `">`)
	if !ok || name == "" || strings.ContainsAny(name, "<\n") {
		return call, "", false
	}
	a := arguments{params: tools.parametersOf(name)}
	for {
		text = strings.TrimLeft(text, blank)
		if text, ok = strings.CutPrefix(text, givenStart); !ok {
			return ToolCall{Name: name, Arguments: a.unwrapped()}, text, true
		}
		head, tail, named := strings.Cut(text, `">`)
		key, isText, typed := strings.Cut(head, `" string="`)
		value, after, ended := strings.Cut(tail, givenEnd)
		if !named || !typed || !ended || strings.Contains(value, invokeEnd) {
			return call, "", false
		}
		as := []string{quoted(value)}
		if trimmed := strings.TrimSpace(value); json.Valid([]byte(trimmed)) {
			as = append(as, trimmed)
		}
		if isText != "true" {
			if slices.Reverse(as); len(as) == 1 && !a.params.takes(key, as[0]) {
				return call, "", false
			}
		}
		if !a.addJSON(key, a.params.prefer(key, as...)) {
			return call, "", false
		}
		text = after
	}
}
