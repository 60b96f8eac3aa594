package reply

import (
	"encoding/json"
	"strings"
)

// The marks of Gemma 4's calls.
const gemmaStart, gemmaEnd, gemmaQuote = "<|tool_call>", "<tool_call|>", `<|"|>`

// gemma parses call:name{key:<|"|>text<|"|>,other:[1,true]}, used by Gemma 4.
func gemma(text string, tools Tools) (call ToolCall, rest string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimLeft(text, blank), "call:")
	name, tail := cutBefore(text, "{")
	name = strings.TrimSpace(name)
	g := gemmaText{text: tail, params: tools.parametersOf(name)}
	object, whole := g.value("")
	return ToolCall{Name: name, Arguments: object}, g.text,
		ok && whole && name != "" && !strings.Contains(name, "<") && strings.HasPrefix(object, "{")
}

// gemmaText converts Gemma's values to JSON.
type gemmaText struct {
	text   string
	depth  int
	params parameters // parameters of the tool, whose arguments are at depth 2
}

// take consumes a mark if it comes next.
func (g *gemmaText) take(mark string) (ok bool) {
	g.text, ok = strings.CutPrefix(strings.TrimLeft(g.text, " \t\r\n"), mark)
	return ok
}

// value reads an object, a list, a text between marks, or a text without marks. key is the key of a member.
func (g *gemmaText) value(key string) (value string, ok bool) {
	if g.depth++; g.depth > mostNested {
		return "", false
	}
	defer func() { g.depth-- }()
	switch {
	case g.take("{"):
		return g.members("}", true)
	case g.take("["):
		return g.members("]", false)
	case g.take(gemmaQuote):
		var text string
		text, g.text, ok = strings.Cut(g.text, gemmaQuote)
		return quoted(text), ok
	}
	bare := g.text
	if end := strings.IndexAny(g.text, ",]}"); end >= 0 {
		bare = g.text[:end]
	}
	g.text = g.text[len(bare):]
	if bare = strings.TrimSpace(bare); bare == "" || strings.Contains(bare, gemmaEnd) {
		return "", false
	}
	as := []string{quoted(bare)}
	if bare == "None" {
		as = []string{"null", as[0]}
	} else if json.Valid([]byte(bare)) {
		as = []string{bare, as[0]}
	}
	if g.depth == 2 {
		return g.params.prefer(key, as...), true
	}
	return as[0], true
}

// members reads the members of an object or a list, up to its end.
func (g *gemmaText) members(end string, named bool) (list string, ok bool) {
	var items []string
	seen := map[string]bool{}
	for !g.take(end) {
		if len(items) > 0 && !g.take(",") {
			return "", false
		}
		key, prefix := "", ""
		if named {
			if g.take(gemmaQuote) {
				key, g.text, ok = strings.Cut(g.text, gemmaQuote+":")
			} else {
				key, g.text, ok = strings.Cut(g.text, ":")
				key = strings.TrimSpace(key)
			}
			if !ok || key == "" || seen[key] || strings.Contains(key, gemmaEnd) {
				return "", false
			}
			seen[key] = true
			prefix = quoted(key) + ": "
		}
		value, ok := g.value(key)
		if !ok {
			return "", false
		}
		items = append(items, prefix+value)
	}
	if named {
		return "{" + strings.Join(items, ", ") + "}", true
	}
	return "[" + strings.Join(items, ", ") + "]", true
}
