package reply

import (
	"encoding/json"
	"strings"
)

// Marks of Gemma 4's calls.
const gemmaStart, gemmaEnd, gemmaQuote = "<|tool_call>", "<tool_call|>", `<|"|>`

// gemma reads <|tool_call>call:name{key:<|"|>text<|"|>,other:[1,true]}<tool_call|>, of Gemma 4.
func gemma(text string, _ Tools) (calls []ToolCall, rest string, ok bool) {
	return marked(text, gemmaStart, gemmaEnd, func(text string) (call ToolCall, ok bool) {
		text, ok = strings.CutPrefix(strings.TrimSpace(text), "call:")
		name, behind := cutBefore(text, "{")
		g := gemmaText{text: behind}
		object, whole := g.value()
		return ToolCall{Name: strings.TrimSpace(name), Arguments: object},
			ok && whole && g.atEnd() && strings.TrimSpace(name) != "" && strings.HasPrefix(object, "{")
	})
}

// gemmaText reads Gemma's values as JSON.
type gemmaText struct {
	text  string
	depth int
}

func (g *gemmaText) atEnd() bool { return strings.TrimSpace(g.text) == "" }

// take takes a mark, if it comes next.
func (g *gemmaText) take(mark string) (ok bool) {
	g.text, ok = strings.CutPrefix(strings.TrimLeft(g.text, " \t\r\n"), mark)
	return ok
}

// value reads an object, a list, a text between marks, or what stands there without.
func (g *gemmaText) value() (value string, ok bool) {
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
	switch bare = strings.TrimSpace(bare); {
	case bare == "":
		return "", false
	case bare == "None":
		return "null", true
	case json.Valid([]byte(bare)):
		return bare, true
	}
	return quoted(bare), true
}

// members reads what an object or a list has, up to its end.
func (g *gemmaText) members(end string, named bool) (list string, ok bool) {
	var items []string
	seen := map[string]bool{}
	for !g.take(end) {
		if len(items) > 0 && !g.take(",") {
			return "", false
		}
		key := ""
		if named {
			if g.take(gemmaQuote) {
				key, g.text, ok = strings.Cut(g.text, gemmaQuote+":")
			} else {
				key, g.text, ok = strings.Cut(g.text, ":")
				key = strings.TrimSpace(key)
			}
			if !ok || key == "" || seen[key] {
				return "", false
			}
			seen[key] = true
			key = quoted(key) + ": "
		}
		value, ok := g.value()
		if !ok {
			return "", false
		}
		items = append(items, key+value)
	}
	if named {
		return "{" + strings.Join(items, ", ") + "}", true
	}
	return "[" + strings.Join(items, ", ") + "]", true
}
