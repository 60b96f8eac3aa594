package reply

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/quire/quire/grammar"
)

// calling is a form of calls of tools.
type calling struct {
	names []string // vLLM's
	// in says whether a chat template has the form.
	in    func(template string) bool
	marks []string
	// parse returns the calls of a text, and the text without them. It is all or nothing: a text with a call that does
	// not follow the form has none.
	parse    func(text string, tools Tools) (calls []ToolCall, rest string, ok bool)
	idLength int // that the family's templates want ids to have; 0 is any
	// one is one call of a tool as parts of a text, which parse reads as that call.
	one func(tool tool) ([]grammar.Part, error)
}

var callings = []calling{
	{names: []string{"mistral"}, parse: mistral, idLength: 9, marks: []string{toolCalls, callID, callArgs},
		one: mistralCall,
		in:  func(template string) bool { return strings.Contains(template, toolCalls) }},
	{names: []string{"granite"}, parse: granite, marks: []string{graniteCall},
		one: object(graniteCall+"[", "arguments", "]"),
		in:  func(template string) bool { return strings.Contains(template, graniteCall) }},
	{names: []string{"hermes", "granite4"}, parse: hermes, marks: []string{callStart, callEnd},
		one: object(callStart+"\n", "arguments", "\n"+callEnd),
		in: func(template string) bool { // others of these marks have XML between them
			others := []string{functionStart, keyStart, "<tool_calls>", "<invoke"}
			return strings.Contains(template, callStart) && strings.Contains(template, "arguments") &&
				!slices.ContainsFunc(others, func(mark string) bool { return strings.Contains(template, mark) })
		}},
	{names: []string{"llama3_json"}, parse: llama, marks: []string{pythonTag}, one: object("", "parameters", ""),
		in: func(template string) bool {
			return strings.Contains(strings.ReplaceAll(template, `\`, ""), `{"name": function name, "parameters": `)
		}},
	{names: []string{"openai"}, parse: harmony, marks: harmonyMarks,
		one: named(channelMark+"commentary to="+functionsOf, " "+constrainMark+"json"+bodyMark, ""),
		in: func(template string) bool {
			return strings.Contains(template, channelMark) && strings.Contains(template, callMark)
		}},
	{names: []string{"qwen3_coder", "qwen3_xml"}, parse: qwenCoder, marks: []string{callStart, callEnd},
		one: functionOf(callStart, callEnd),
		in: func(template string) bool {
			return strings.Contains(template, callStart) && strings.Contains(template, functionStart)
		}},
	{names: []string{"seed_oss"}, parse: seed, marks: []string{seedStart, seedEnd},
		one: functionOf(seedStart, seedEnd),
		in:  func(template string) bool { return strings.Contains(template, seedStart) }},
	{names: []string{"glm45", "glm47"}, parse: glm,
		marks: []string{callStart, callEnd, keyStart, keyEnd, valueStart, valueEnd}, one: glmCall,
		in: func(template string) bool {
			return strings.Contains(template, callStart) && strings.Contains(template, keyStart)
		}},
	{names: []string{"deepseek_v3", "deepseek_v31"}, parse: deepSeek,
		marks: []string{deepStart, deepEnd, deepCall, deepSep, deepDone}, one: deepSeekCall,
		in: func(template string) bool { return strings.Contains(template, deepCall) }},
	{names: []string{"deepseek_v32", "deepseek_v4"}, parse: deepSeekBlock, marks: []string{dsml},
		one: deepSeekBlockCall,
		in:  func(template string) bool { return strings.Contains(template, dsml) }},
	{names: []string{"kimi_k2"}, parse: kimi, marks: []string{kimiStart, kimiEnd, kimiCall, kimiArgs, kimiDone},
		one: named(kimiStart+kimiCall+functionsOf, ":0"+kimiArgs, kimiDone+kimiEnd),
		in:  func(template string) bool { return strings.Contains(template, kimiArgs) }},
	{names: []string{"gemma4"}, parse: gemma, marks: []string{gemmaStart, gemmaEnd, gemmaQuote},
		one: gemmaCall,
		in:  func(template string) bool { return strings.Contains(template, gemmaStart) }},
	// Its templates say nothing of calls.
	{names: []string{"phi4_mini_json"}, parse: phi, one: object(phiCalls+"[", "arguments", "]"),
		in: func(template string) bool { return strings.Contains(template, "<|/tool|>") }},
	{names: []string{"olmo3"}, parse: olmo, marks: []string{callsStart, callsEnd},
		one: pythonCall(callsStart+"\n", "\n"+callsEnd),
		in:  func(template string) bool { return strings.Contains(template, callsStart) }},
	{names: []string{"pythonic", "llama4_pythonic"}, parse: pythonic, marks: []string{pythonStart, pythonEnd},
		one: pythonCall("[", "]"),
		in:  func(template string) bool { return strings.Contains(template, pythonList) }},
}

// Marks of calls.
const (
	callStart, callEnd          = "<tool_call>", "</tool_call>"         // hermes
	pythonTag                   = "<|python_tag|>"                      // llama3_json
	toolCalls, callID, callArgs = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]" // mistral
)

// hermes reads <tool_call>{"name": ..., "arguments": {...}}</tool_call>, of Hermes and Qwen. The end of the text may
// stand for the last end mark.
func hermes(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	var left strings.Builder
	for {
		before, behind, found := strings.Cut(text, callStart)
		if !found {
			left.WriteString(text)
			return calls, left.String(), len(calls) > 0
		}
		left.WriteString(strings.TrimRight(before, "\n"))
		call, size, ok := decodeCall(behind, "arguments")
		if !ok {
			return nil, "", false
		}
		text = strings.TrimLeft(behind[size:], " \n")
		if after, ended := strings.CutPrefix(text, callEnd); ended {
			text = after
		} else if text != "" {
			return nil, "", false
		}
		calls = append(calls, call)
	}
}

// llama reads objects {"name": ..., "parameters": {...}} with semicolons between them, of Llama 3. They may stand in
// other text.
func llama(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	var left strings.Builder
	for {
		at := strings.IndexByte(text, '{')
		if at < 0 {
			left.WriteString(text)
			return calls, strings.Trim(left.String(), " \n"), len(calls) > 0
		}
		call, size, ok := decodeCall(text[at:], "parameters", "arguments")
		if !ok {
			left.WriteString(text[:at+1])
			text = text[at+1:]
			continue
		}
		before := strings.TrimSuffix(strings.TrimRight(text[:at], " \n"), pythonTag)
		if between := strings.Trim(before, " \n"); between != ";" || len(calls) == 0 {
			left.WriteString(before)
		}
		calls, text = append(calls, call), text[at+size:]
	}
}

// mistral reads [TOOL_CALLS] with a list of objects {"name": ..., "arguments": {...}} behind it, or a name with its
// arguments behind each: [TOOL_CALLS]name{...}, [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}.
func mistral(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	before, behind, found := strings.Cut(text, toolCalls)
	if !found {
		return nil, "", false
	}
	if list := strings.TrimLeft(behind, " \n"); strings.HasPrefix(list, "[{") || strings.HasPrefix(list, "[ ") {
		calls, size, ok := decodeCalls(list, "arguments")
		return calls, before + strings.TrimLeft(list[size:], "\n"), ok
	}
	for found {
		head, _ := cutBefore(behind, "{")
		raw, size, ok := decodeObject(behind[len(head):])
		c := ToolCall{Name: strings.TrimSuffix(head, callArgs), Arguments: raw}
		c.Name, c.ID, _ = strings.Cut(c.Name, callID)
		if c.Name = strings.TrimSpace(c.Name); !ok || c.Name == "" || strings.Contains(head, toolCalls) {
			return nil, "", false
		}
		calls = append(calls, c)
		var between string
		between, behind, found = strings.Cut(behind[len(head)+size:], toolCalls)
		before += strings.TrimLeft(between, "\n")
	}
	return calls, before, true
}

// decodeCalls reads a list of calls at the start of a text, each with arguments under one of keys.
func decodeCalls(text string, keys ...string) (calls []ToolCall, size int, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	var items []json.RawMessage
	if d.Decode(&items) != nil || len(items) == 0 {
		return nil, 0, false
	}
	for _, item := range items {
		call, _, ok := decodeCall(string(item), keys...)
		if !ok {
			return nil, 0, false
		}
		calls = append(calls, call)
	}
	return calls, int(d.InputOffset()), true
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
	_ = json.Unmarshal(object["id"], &call.ID) // which few models write
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

// decodeObject returns the JSON object that a text begins with, as it is written.
func decodeObject(text string) (raw string, size int, ok bool) {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	if !strings.HasPrefix(trimmed, "{") {
		return "", 0, false
	}
	d := json.NewDecoder(strings.NewReader(trimmed))
	var object json.RawMessage
	if d.Decode(&object) != nil {
		return "", 0, false
	}
	return string(object), len(text) - len(trimmed) + int(d.InputOffset()), true
}
