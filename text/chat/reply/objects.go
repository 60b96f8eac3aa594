package reply

import "strings"

// Marks of calls.
const (
	callStart, callEnd          = "<tool_call>", "</tool_call>"         // hermes
	pythonTag                   = "<|python_tag|>"                      // llama3_json
	toolCalls, callID, callArgs = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]" // mistral
)

// hermes reads <tool_call>{"name": ..., "arguments": {...}}</tool_call>, of Hermes and Qwen. The next call, or the end
// of the text, may replace the end mark.
func hermes(text string, _ Tools) (calls []ToolCall, left string, size int) {
	behind := text[len(callStart):]
	call, n, ok := decodeCall(behind, "arguments")
	if !ok {
		return nil, "", 0
	}
	rest, ok := ended(behind[n:], callEnd, callStart)
	if !ok {
		return nil, "", 0
	}
	return []ToolCall{call}, "", len(text) - len(rest)
}

// llama reads objects {"name": ..., "parameters": {...}} with semicolons between them, of Llama 3.
func llama(text string, _ Tools) (calls []ToolCall, left string, size int) {
	rest := strings.TrimLeft(strings.TrimPrefix(text, pythonTag), blank)
	for {
		call, n, ok := decodeCall(rest, "parameters", "arguments")
		if !ok {
			return calls, "", size
		}
		calls, size = append(calls, call), len(text)-len(rest)+n
		rest = strings.TrimLeft(text[size:], blank)
		rest = strings.TrimLeft(strings.TrimPrefix(rest, ";"), blank)
	}
}

// mistral reads [TOOL_CALLS] followed by a list of objects {"name": ..., "arguments": {...}}, or by a name and its
// arguments: [TOOL_CALLS]name{...}, [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}.
func mistral(text string, _ Tools) (calls []ToolCall, left string, size int) {
	behind := text[len(toolCalls):]
	if strings.HasPrefix(strings.TrimLeft(behind, blank), "[") {
		calls, left, n := decodeCalls(behind, "arguments")
		return calls, left, len(toolCalls) + n
	}
	head, _ := cutBefore(behind, "{")
	raw, n, ok := decodeObject(behind[len(head):])
	c := ToolCall{Name: strings.TrimSuffix(head, callArgs), Arguments: raw}
	c.Name, c.ID, _ = strings.Cut(c.Name, callID)
	if c.Name = strings.TrimSpace(c.Name); !ok || c.Name == "" || strings.Contains(head, toolCalls) {
		return nil, "", 0
	}
	return []ToolCall{c}, "", len(toolCalls) + len(head) + n
}
