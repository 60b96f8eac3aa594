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
	// written is how calls are written, by the chat template of a form that is written in several ways.
	written func(template string) notation
}

// notation is how calls are written: what begins them all, what separates two, what ends them all, and a call as parts
// of a text, which is read as that call.
type notation struct {
	open, between, end string
	call               func(tool) ([]grammar.Part, error)
	single             bool // a completion ends with its first call
}

// always is the notation of a form that is written in one way.
func always(n notation) func(string) notation { return func(string) notation { return n } }

// block returns calls as one list of parts: one call, or with several any number of them and at least one.
func (n *notation) block(calls [][]grammar.Part, several bool) []grammar.Part {
	all := grammar.Part{Any: calls}
	if several && !n.single {
		all = grammar.Part{Members: &grammar.Members{Separator: n.between, More: []grammar.Part{all}, Min: 1}}
	}
	return []grammar.Part{literal(n.open), all, literal(n.end)}
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
		marks: []string{toolCalls, callID, callArgs}, written: mistralCalls,
		in: func(template string) bool { return strings.Contains(template, toolCalls) }},
	{names: []string{"granite"}, starts: []string{graniteCall, callStart}, read: granite,
		marks:   []string{graniteCall},
		written: always(notation{open: graniteCall + "[", between: ", ", end: "]", call: object("", "arguments", "")}),
		in:      func(template string) bool { return strings.Contains(template, graniteCall) }},
	{names: []string{"hermes", "granite4"}, starts: []string{callStart}, read: hermes,
		marks:   []string{callStart, callEnd},
		written: always(notation{between: "\n", call: object(callStart+"\n", "arguments", "\n"+callEnd)}),
		in: func(template string) bool { // others of these marks have XML between them
			others := []string{functionStart, keyStart, "<tool_calls>", "<invoke"}
			return strings.Contains(template, callStart) && strings.Contains(template, "arguments") &&
				!slices.ContainsFunc(others, func(mark string) bool { return strings.Contains(template, mark) })
		}},
	{names: []string{"llama3_json"}, starts: []string{pythonTag, "{"}, read: llama, marks: []string{pythonTag},
		written: always(notation{between: "; ", call: object("", "parameters", "")}),
		in: func(template string) bool {
			return strings.Contains(strings.ReplaceAll(template, `\`, ""), `{"name": function name, "parameters": `)
		}},
	{names: []string{"openai"}, whole: harmony, marks: harmonyMarks,
		written: always(notation{single: true,
			call: named(channelMark+"commentary to="+functionsOf, " "+constrainMark+"json"+bodyMark, "")}),
		in: func(template string) bool {
			return strings.Contains(template, channelMark) && strings.Contains(template, callMark)
		}},
	{names: []string{"qwen3_coder", "qwen3_xml"}, starts: []string{callStart, functionStart},
		read: functionBetween(callStart, callEnd), marks: []string{callStart, callEnd},
		written: always(notation{between: "\n", call: functionOf(callStart, callEnd)}),
		in: func(template string) bool {
			return strings.Contains(template, callStart) && strings.Contains(template, functionStart)
		}},
	{names: []string{"seed_oss"}, starts: []string{seedStart, functionStart}, read: functionBetween(seedStart, seedEnd),
		marks:   []string{seedStart, seedEnd},
		written: always(notation{between: "\n", call: functionOf(seedStart, seedEnd)}),
		in:      func(template string) bool { return strings.Contains(template, seedStart) }},
	{names: []string{"glm45", "glm47"}, starts: []string{callStart}, read: between(callStart, callEnd, glm),
		marks:   []string{callStart, callEnd, keyStart, keyEnd, valueStart, valueEnd},
		written: always(notation{between: "\n", call: glmCall}),
		in: func(template string) bool {
			return strings.Contains(template, callStart) && strings.Contains(template, keyStart)
		}},
	{names: []string{"deepseek_v3", "deepseek_v31"}, starts: []string{deepStart},
		read:  section(deepStart, deepCall, deepDone, deepEnd, deepSeek),
		marks: []string{deepStart, deepEnd, deepCall, deepSep, deepDone}, written: deepSeekCalls,
		in: func(template string) bool { return strings.Contains(template, deepCall) }},
	{names: []string{"deepseek_v32", "deepseek_v4"}, starts: blockStart[:], read: deepSeekBlock,
		marks: []string{dsml}, written: deepSeekBlockCalls,
		in: func(template string) bool { return strings.Contains(template, dsml) }},
	{names: []string{"kimi_k2"}, starts: []string{kimiStart, kimiOneStart},
		read:    kimiSection,
		marks:   []string{kimiStart, kimiEnd, kimiCall, kimiArgs, kimiDone},
		written: always(notation{open: kimiStart, end: kimiEnd, call: kimiCallOf}),
		in:      func(template string) bool { return strings.Contains(template, kimiArgs) }},
	{names: []string{"gemma4"}, starts: []string{gemmaStart}, read: between(gemmaStart, gemmaEnd, gemma),
		marks: []string{gemmaStart, gemmaEnd, gemmaQuote}, written: always(notation{call: gemmaCall}),
		in: func(template string) bool { return strings.Contains(template, gemmaStart) }},
	// Its templates do not mention calls.
	{names: []string{"phi4_mini_json"}, starts: []string{phiCalls + "["}, read: phi,
		written: always(notation{open: phiCalls + "[", between: ", ", end: "]", call: object("", "arguments", "")}),
		in:      func(template string) bool { return strings.Contains(template, "<|/tool|>") }},
	{names: []string{"olmo3"}, starts: []string{callsStart}, read: olmo, marks: []string{callsStart, callsEnd},
		written: always(notation{open: callsStart + "\n", between: "\n", end: "\n" + callsEnd, call: pythonCall}),
		in:      func(template string) bool { return strings.Contains(template, callsStart) }},
	{names: []string{"lfm2"}, starts: []string{lfmStart}, read: lfm, marks: []string{lfmStart, lfmEnd},
		written: lfmCalls,
		in: func(template string) bool {
			_, mark := first(template, []string{lfmStart, lfmTools, lfmNewTools})
			return mark != ""
		}},
	{names: []string{"pythonic", "llama4_pythonic"}, whole: pythonic, marks: []string{pythonStart, pythonEnd},
		written: always(notation{open: "[", between: ", ", end: "]", call: pythonCall}),
		in:      func(template string) bool { return strings.Contains(template, pythonList) }},
}
