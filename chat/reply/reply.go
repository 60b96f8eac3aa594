// Package reply splits a completion into the parts that the model's family writes: reasoning, text, and tool calls.
//
// Formats have the names that vLLM gives them. What does not follow the format stays text: no part of a completion is
// lost except the marks themselves and blank lines next to them.
package reply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The names that do not stand for one format.
const (
	Auto = "auto" // the format of the chat template
	None = "none" // the text is not split
)

// Parsed has the parts of a completion.
type Parsed struct {
	Reasoning string // "" if there is none
	Text      string // the rest, without reasoning and calls
	ToolCalls []ToolCall
}

// ToolCall is one call of a tool.
type ToolCall struct {
	ID        string // see [Forms.Identify]
	Name      string
	Arguments string // a JSON object, as the model wrote it
}

// MarshalJSON returns a call in the form of OpenAI's API.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	return marshal(struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{c.ID, "function", function{c.Name, c.Arguments}})
}

// JSON returns the calls as a JSON list in the form of OpenAI's API, "" if there are none.
func (p *Parsed) JSON() string {
	if len(p.ToolCalls) == 0 {
		return ""
	}
	b, _ := marshal(p.ToolCalls) // cannot fail: strings, and lists of them
	return string(b)
}

// marshal is json.Marshal without escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// Forms are the formats that split a model's completions. The zero value leaves completions unchanged.
type Forms struct {
	reasoning *thinking
	calls     *calling
	template  string // the chat template
	// KeepReasoning leaves reasoning in the text. Calls are not looked for in it.
	KeepReasoning bool
}

// New returns the formats of these names, which may be [Auto] and [None]. template is the model's chat template.
func New(reasoning, calls, template string) (f Forms, err error) {
	f.template = template
	switch reasoning {
	case None:
	case Auto:
		f.reasoning = thinkingIn(template)
	default:
		if f.reasoning = thinkingOf(reasoning); f.reasoning == nil {
			return f, fmt.Errorf("is %q, but must be %s", reasoning, oneOf(ReasoningNames()))
		}
	}
	return f, f.chooseCalls(calls, template)
}

func (f *Forms) chooseCalls(name, template string) error {
	if name == None {
		return nil
	}
	for i := range callings {
		c := &callings[i]
		if name == Auto && c.in(template) || slices.Contains(c.names, name) {
			f.calls = c
			return nil
		}
	}
	if name != Auto {
		return fmt.Errorf("is %q, but must be %s", name, oneOf(ToolCallNames()))
	}
	return nil
}

// Check returns an error if name is not the name of a format among names.
func Check(name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("is %q, but must be %s", name, oneOf(names))
}

// ReasoningNames returns the names of formats of reasoning.
func ReasoningNames() []string {
	names := []string{Auto, None}
	for _, t := range thinkings {
		names = append(names, t.names...)
	}
	return names
}

// ToolCallNames returns the names of formats of calls.
func ToolCallNames() []string {
	names := []string{Auto, None}
	for _, c := range callings {
		names = append(names, c.names...)
	}
	return names
}

func oneOf(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Names returns the names of the formats, "" for none.
func (f *Forms) Names() (reasoning, calls string) {
	if f.reasoning != nil {
		reasoning = f.reasoning.names[0]
	}
	if f.calls != nil {
		calls = f.calls.names[0]
	}
	return reasoning, calls
}

// HasReasoning reports whether there is a format of reasoning.
func (f *Forms) HasReasoning() bool { return f.reasoning != nil }

// HasCalls reports whether there is a format of calls.
func (f *Forms) HasCalls() bool { return f.calls != nil }

// Marks returns the texts that the formats look for. If a tokenizer has them as special tokens, the text must include
// these.
func (f *Forms) Marks() (marks []string) {
	if f.reasoning != nil {
		if f.reasoning.harmony {
			marks = append(marks, harmonyMarks...)
		} else {
			marks = append(marks, f.reasoning.start, f.reasoning.end)
		}
	}
	if f.calls != nil {
		marks = append(marks, f.calls.marks...)
	}
	return marks
}

// ReasoningMarks returns the texts around reasoning. ok is false for a format with more marks than these.
func (f *Forms) ReasoningMarks() (start, end string, ok bool) {
	return f.reasoning.start, f.reasoning.end, !f.reasoning.harmony
}

// Opens reports whether a prompt ends with the opening of reasoning, so that the completion starts inside it.
func (f *Forms) Opens(prompt string) bool {
	if f.reasoning == nil {
		return false
	}
	prompt = strings.TrimSuffix(strings.TrimRight(prompt, " \n"), f.reasoning.label)
	return strings.HasSuffix(prompt, f.reasoning.start)
}

// Within reports whether a text ends inside reasoning.
func (f *Forms) Within(text string) bool {
	return f.reasoning != nil && strings.LastIndex(text, f.reasoning.start) > strings.LastIndex(text, f.reasoning.end)
}

// WithoutCalls returns the formats without the one of calls.
func (f Forms) WithoutCalls() Forms {
	f.calls = nil
	return f
}

// Parse splits a completion. open reports that it starts inside reasoning; tools are the row's tools.
func (f *Forms) Parse(text string, open bool, tools Tools) Parsed {
	p := Parsed{Text: text}
	before := ""
	if f.reasoning != nil && !(f.reasoning.harmony && f.KeepReasoning) {
		p.Reasoning, p.Text = f.split(text, open, tools)
		if f.KeepReasoning {
			before, p.Reasoning = text[:len(text)-len(p.Text)], ""
		}
	}
	if f.calls != nil {
		if calls, _, rest := f.calls.take(p.Text, tools); len(calls) > 0 {
			p.ToolCalls, p.Text = calls, strings.Trim(rest, "\n")
		}
	}
	p.Text = before + p.Text
	return p
}

// split returns the reasoning and what follows it, a suffix of text. Reasoning without an end, or with nothing after
// it, ends at the first call that follows the format, as in vLLM and llama.cpp.
func (f *Forms) split(text string, open bool, tools Tools) (reasoning, rest string) {
	reasoning, rest, still := f.reasoning.split(text, open)
	// With KeepReasoning, closed reasoning and what follows it stay one piece.
	last := still || !f.KeepReasoning && strings.TrimSpace(rest) == ""
	if last && f.calls != nil && f.calls.marked() {
		if calls, thought, _ := f.calls.take(reasoning, tools); len(calls) > 0 {
			reasoning, rest = thought, reasoning[len(thought):]
		}
	}
	return f.reasoning.trimmed(reasoning), rest
}

// Identify assigns an id to each call without one. The id depends only on the row's id, the generation and the call's
// index.
func (f *Forms) Identify(p *Parsed, row string, generation int) {
	for i := range p.ToolCalls {
		if c := &p.ToolCalls[i]; c.ID == "" {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", generation, i, row))
			c.ID = "call_" + hex.EncodeToString(sum[:12])
			if f.calls != nil && f.calls.idLength > 0 {
				c.ID = hex.EncodeToString(sum[:])[:f.calls.idLength]
			}
		}
	}
}
