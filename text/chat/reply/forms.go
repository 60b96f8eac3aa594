package reply

import (
	"slices"
	"strings"

	"github.com/quire/quire/text/grammar"
)

// calling is a form of calls of tools. It has either starts and read, or whole.
type calling struct {
	names []string // vLLM's
	// in reports whether a chat template has the form.
	in    func(template string) bool
	marks []string
	// starts are the texts that calls begin with, and read reads the calls after one of them. If it finds none the
	// start is text.
	starts []string
	read   reading
	// whole reads the calls of a whole text, and returns the text without them.
	whole    func(text string) (calls []ToolCall, rest string)
	idLength int // length of ids that the family's templates require; 0 is any
	// one is one call of a tool as parts of a text, which is read as that call.
	one func(tool tool) ([]grammar.Part, error)
}

// marked reports whether calls have a mark of their own, which no other text begins with.
func (c *calling) marked() bool { return c.whole == nil && !slices.Contains(c.starts, "{") }

// take returns the calls of a text, the text before the first one, and the text without calls. A call that does not
// follow the form remains in the text.
func (c *calling) take(text string, tools Tools) (calls []ToolCall, before, rest string) {
	if c.whole != nil {
		calls, rest = c.whole(text)
		return calls, "", rest
	}
	var texts []string
	from := 0 // no call starts before it
	for {
		index, mark := first(text[from:], c.starts)
		if mark == "" {
			break
		}
		index += from
		found, left, size := c.read(text[index:], tools)
		if len(found) == 0 {
			from = index + len(mark)
			continue
		}
		texts, calls = append(texts, text[:index], left), append(calls, found...)
		text, from = text[index+size:], 0
	}
	texts = append(texts, text)
	return calls, texts[0], joined(texts)
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
		in: func(template string) bool { // others of these marks have XML between them
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
