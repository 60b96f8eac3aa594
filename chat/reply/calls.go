package reply

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/quire/quire/grammar"
)

// calling is a format of tool calls. It has either starts and read, or whole.
type calling struct {
	names []string // vLLM's names
	// in reports whether a chat template uses the format.
	in    func(template string) bool
	marks []string
	// starts are the texts that calls start with, and read parses the calls that a text starts with. left is the text
	// among them that is not a call; size is the length of everything parsed. If there are no calls, the start mark
	// counts as text.
	starts []string
	read   func(text string, tools Tools) (calls []ToolCall, left string, size int)
	// whole parses the calls of a whole text, and returns the text without them.
	whole    func(text string) (calls []ToolCall, rest string)
	idLength int // length of ids that the family's templates require; 0 is any
	// one returns one call of a tool as parts of a text that parses as that call.
	one func(tool tool) ([]grammar.Part, error)
}

// marked reports whether calls start with a mark that no other text starts with.
func (c *calling) marked() bool { return c.whole == nil && !slices.Contains(c.starts, "{") }

// take returns the calls of a text, the text before the first one, and the text without them. A call that does not
// follow the format stays in the text.
func (c *calling) take(text string, tools Tools) (calls []ToolCall, before, rest string) {
	if c.whole != nil {
		calls, rest = c.whole(text)
		return calls, "", rest
	}
	var texts []string
	from := 0 // a start mark before this is not the start of a call
	for {
		at, mark := first(text[from:], c.starts)
		if mark == "" {
			break
		}
		at += from
		found, left, size := c.read(text[at:], tools)
		if len(found) == 0 {
			from = at + len(mark)
			continue
		}
		texts, calls = append(texts, text[:at], left), append(calls, found...)
		text, from = text[at+size:], 0
	}
	texts = append(texts, text)
	return calls, texts[0], joined(texts)
}

// first returns the position of the first of several marks in a text, and the mark; "" if there is none.
func first(text string, marks []string) (at int, mark string) {
	at = len(text)
	for _, m := range marks {
		if i := strings.Index(text[:min(len(text), at+len(m))], m); i >= 0 && i < at {
			at, mark = i, m
		}
	}
	return at, mark
}

// blank has the characters that separate words and lines.
const blank = " \t\r\n"

// joined joins the texts around calls. Two texts are separated by the blank space that they had there, or else by a
// newline.
func joined(texts []string) string {
	var b strings.Builder
	last := ""
	for _, text := range texts {
		inner := strings.Trim(text, blank)
		if inner == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(separator(last[len(strings.TrimRight(last, blank)):],
				text[:len(text)-len(strings.TrimLeft(text, blank))]))
		}
		b.WriteString(inner)
		last = text
	}
	return b.String()
}

// separator returns the stronger of two separators.
func separator(before, after string) string {
	lines := func(text string) int { return strings.Count(text, "\n") }
	switch {
	case before == "" && after == "":
		return "\n"
	case lines(after) > lines(before), before == "":
		return after
	}
	return before
}

var callings = []calling{
	{names: []string{"mistral"}, starts: []string{toolCalls}, read: mistral, idLength: 9,
		marks: []string{toolCalls, callID, callArgs}, one: mistralCall,
		in: func(template string) bool { return strings.Contains(template, toolCalls) }},
	{names: []string{"granite"}, starts: []string{graniteCall, callStart}, read: granite,
		marks: []string{graniteCall}, one: object(graniteCall+"[", "arguments", "]"),
		in: func(template string) bool { return strings.Contains(template, graniteCall) }},
	{names: []string{"hermes", "granite4"}, starts: []string{callStart}, read: hermes,
		marks: []string{callStart, callEnd}, one: object(callStart+"\n", "arguments", "\n"+callEnd),
		in: func(template string) bool { // other templates with these marks have XML between them
			others := []string{functionStart, keyStart, "<tool_calls>", "<invoke"}
			return strings.Contains(template, callStart) && strings.Contains(template, "arguments") &&
				!slices.ContainsFunc(others, func(mark string) bool { return strings.Contains(template, mark) })
		}},
	{names: []string{"llama3_json"}, starts: []string{pythonTag, "{"}, read: llama, marks: []string{pythonTag},
		one: object("", "parameters", ""),
		in: func(template string) bool {
			return strings.Contains(strings.ReplaceAll(template, `\`, ""), `{"name": function name, "parameters": `)
		}},
	{names: []string{"openai"}, whole: harmony, marks: harmonyMarks,
		one: named(channelMark+"commentary to="+functionsOf, " "+constrainMark+"json"+bodyMark, ""),
		in: func(template string) bool {
			return strings.Contains(template, channelMark) && strings.Contains(template, callMark)
		}},
	{names: []string{"qwen3_coder", "qwen3_xml"}, starts: []string{callStart, functionStart},
		read: functionBetween(callStart, callEnd), marks: []string{callStart, callEnd},
		one: functionOf(callStart, callEnd),
		in: func(template string) bool {
			return strings.Contains(template, callStart) && strings.Contains(template, functionStart)
		}},
	{names: []string{"seed_oss"}, starts: []string{seedStart, functionStart}, read: functionBetween(seedStart, seedEnd),
		marks: []string{seedStart, seedEnd}, one: functionOf(seedStart, seedEnd),
		in: func(template string) bool { return strings.Contains(template, seedStart) }},
	{names: []string{"glm45", "glm47"}, starts: []string{callStart}, read: between(callStart, callEnd, glm),
		marks: []string{callStart, callEnd, keyStart, keyEnd, valueStart, valueEnd}, one: glmCall,
		in: func(template string) bool {
			return strings.Contains(template, callStart) && strings.Contains(template, keyStart)
		}},
	{names: []string{"deepseek_v3", "deepseek_v31"}, starts: []string{deepStart},
		read:  section(deepStart, deepCall, deepDone, deepEnd, deepSeek),
		marks: []string{deepStart, deepEnd, deepCall, deepSep, deepDone}, one: deepSeekCall,
		in: func(template string) bool { return strings.Contains(template, deepCall) }},
	{names: []string{"deepseek_v32", "deepseek_v4"}, starts: blockStart[:], read: deepSeekBlock,
		marks: []string{dsml}, one: deepSeekBlockCall,
		in: func(template string) bool { return strings.Contains(template, dsml) }},
	{names: []string{"kimi_k2"}, starts: []string{kimiStart},
		read:  section(kimiStart, kimiCall, kimiDone, kimiEnd, kimi),
		marks: []string{kimiStart, kimiEnd, kimiCall, kimiArgs, kimiDone},
		one:   named(kimiStart+kimiCall+functionsOf, ":0"+kimiArgs, kimiDone+kimiEnd),
		in:    func(template string) bool { return strings.Contains(template, kimiArgs) }},
	{names: []string{"gemma4"}, starts: []string{gemmaStart}, read: between(gemmaStart, gemmaEnd, gemma),
		marks: []string{gemmaStart, gemmaEnd, gemmaQuote}, one: gemmaCall,
		in: func(template string) bool { return strings.Contains(template, gemmaStart) }},
	// Its templates do not mention calls.
	{names: []string{"phi4_mini_json"}, starts: []string{phiCalls + "["}, read: phi,
		one: object(phiCalls+"[", "arguments", "]"),
		in:  func(template string) bool { return strings.Contains(template, "<|/tool|>") }},
	{names: []string{"olmo3"}, starts: []string{callsStart}, read: olmo, marks: []string{callsStart, callsEnd},
		one: pythonCall(callsStart+"\n", "\n"+callsEnd),
		in:  func(template string) bool { return strings.Contains(template, callsStart) }},
	{names: []string{"lfm2"}, starts: []string{lfmStart}, read: lfm, marks: []string{lfmStart, lfmEnd}, one: lfmCall,
		in: func(template string) bool {
			_, mark := first(template, []string{lfmStart, lfmTools, lfmNewTools})
			return mark != ""
		}},
	{names: []string{"pythonic", "llama4_pythonic"}, whole: pythonic, marks: []string{pythonStart, pythonEnd},
		one: pythonCall("[", "]"),
		in:  func(template string) bool { return strings.Contains(template, pythonList) }},
}

// The marks of calls.
const (
	callStart, callEnd          = "<tool_call>", "</tool_call>"         // hermes
	pythonTag                   = "<|python_tag|>"                      // llama3_json
	toolCalls, callID, callArgs = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]" // mistral
)

// hermes parses <tool_call>{"name": ..., "arguments": {...}}</tool_call>, used by Hermes and Qwen. The start of the
// next call, or the end of the text, may replace the end mark.
func hermes(text string, _ Tools) (calls []ToolCall, left string, size int) {
	tail := text[len(callStart):]
	call, n, ok := decodeCall(tail, "arguments")
	if !ok {
		return nil, "", 0
	}
	rest, ok := ended(tail[n:], callEnd, callStart)
	if !ok {
		return nil, "", 0
	}
	return []ToolCall{call}, "", len(text) - len(rest)
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

// llama parses objects {"name": ..., "parameters": {...}} separated by semicolons, used by Llama 3.
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

// mistral parses [TOOL_CALLS] followed by a list of objects {"name": ..., "arguments": {...}}, or a name with its
// arguments: [TOOL_CALLS]name{...}, [TOOL_CALLS]name[CALL_ID]id[ARGS]{...}.
func mistral(text string, _ Tools) (calls []ToolCall, left string, size int) {
	tail := text[len(toolCalls):]
	if strings.HasPrefix(strings.TrimLeft(tail, blank), "[") {
		calls, left, n := decodeCalls(tail, "arguments")
		return calls, left, len(toolCalls) + n
	}
	head, _ := cutBefore(tail, "{")
	raw, n, ok := decodeObject(tail[len(head):])
	c := ToolCall{Name: strings.TrimSuffix(head, callArgs), Arguments: raw}
	c.Name, c.ID, _ = strings.Cut(c.Name, callID)
	if c.Name = strings.TrimSpace(c.Name); !ok || c.Name == "" || strings.Contains(head, toolCalls) {
		return nil, "", 0
	}
	return []ToolCall{c}, "", len(toolCalls) + len(head) + n
}

// decodeCalls parses a list of calls at the start of a text, each with arguments under one of keys. left has the
// items that are not calls, and everything after the first item that is not JSON.
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

// decodeCall parses an object at the start of a text, with a name and with arguments under one of keys.
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
		var text string // some models write the arguments as text that contains an object
		if json.Unmarshal([]byte(arguments), &text) == nil {
			arguments = text
		}
		call.Arguments, _, ok = decodeObject(arguments)
		return call, size, ok
	}
	return call, 0, false
}

// decodeObject returns the JSON object that a text starts with, verbatim.
func decodeObject(text string) (raw string, size int, ok bool) {
	if trimmed := strings.TrimLeft(text, blank); !strings.HasPrefix(trimmed, "{") {
		return "", 0, false
	}
	return decodeValue(text)
}

// decodeValue returns the JSON value that a text starts with, verbatim.
func decodeValue(text string) (raw string, size int, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	var value json.RawMessage
	if d.Decode(&value) != nil {
		return "", 0, false
	}
	return string(value), int(d.InputOffset()), true
}
