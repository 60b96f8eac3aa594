// Package reply takes a completion apart as the model's family writes it: reasoning, text, and calls of tools.
//
// A form is known by the name that vLLM has for it. What does not follow the form stays text: no part of a completion
// is lost but the marks themselves and blank lines next to them.
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

// Names of forms that are none.
const (
	Auto = "auto" // the form that the chat template has
	None = "none" // the text is not taken apart
)

// Parsed are the parts of a completion.
type Parsed struct {
	Reasoning string // "" where there is none
	Text      string // the rest, without reasoning and calls
	ToolCalls []ToolCall
}

// ToolCall is one call of a tool.
type ToolCall struct {
	ID        string // see [Forms.Identify]
	Name      string
	Arguments string // a JSON object, as the model wrote it
}

// MarshalJSON writes a call as OpenAI's API has it.
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

// JSON returns the calls as a JSON list of OpenAI's API, "" where there are none.
func (p *Parsed) JSON() string {
	if len(p.ToolCalls) == 0 {
		return ""
	}
	b, _ := marshal(p.ToolCalls) // text and lists of it
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

// Forms are how the completions of a model are taken apart. The zero value leaves them as they are.
type Forms struct {
	reasoning *thinking
	calls     *calling
	template  string // the chat template
	// KeepReasoning leaves reasoning in the text, where no calls are looked for in it.
	KeepReasoning bool
}

// New returns the forms of these names, which may be [Auto] and [None]. template is the model's chat template.
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

// Check says what is wrong with the name of a form among names.
func Check(name string, names []string) error {
	if slices.Contains(names, name) {
		return nil
	}
	return fmt.Errorf("is %q, but must be %s", name, oneOf(names))
}

// ReasoningNames are the names of forms of reasoning.
func ReasoningNames() []string {
	names := []string{Auto, None}
	for _, t := range thinkings {
		names = append(names, t.names...)
	}
	return names
}

// ToolCallNames are the names of forms of calls.
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

// Names are those of the forms, "" for none.
func (f *Forms) Names() (reasoning, calls string) {
	if f.reasoning != nil {
		reasoning = f.reasoning.names[0]
	}
	if f.calls != nil {
		calls = f.calls.names[0]
	}
	return reasoning, calls
}

// HasReasoning says whether a form of reasoning is known.
func (f *Forms) HasReasoning() bool { return f.reasoning != nil }

// HasCalls says whether a form of calls is known.
func (f *Forms) HasCalls() bool { return f.calls != nil }

// Marks are the texts that the forms look for. A tokenizer may have them as special tokens, which the text must then
// have.
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

// ReasoningMarks are the texts that reasoning stands between. ok is false for a form that marks more than that.
func (f *Forms) ReasoningMarks() (start, end string, ok bool) {
	return f.reasoning.start, f.reasoning.end, !f.reasoning.harmony
}

// Opens says whether a prompt ends with the opening of reasoning, so that the completion begins within it.
func (f *Forms) Opens(prompt string) bool {
	if f.reasoning == nil {
		return false
	}
	prompt = strings.TrimSuffix(strings.TrimRight(prompt, " \n"), f.reasoning.label)
	return strings.HasSuffix(prompt, f.reasoning.start)
}

// Within says whether a text ends within reasoning.
func (f *Forms) Within(text string) bool {
	return f.reasoning != nil && strings.LastIndex(text, f.reasoning.start) > strings.LastIndex(text, f.reasoning.end)
}

// WithoutCalls are the forms without that of calls.
func (f Forms) WithoutCalls() Forms {
	f.calls = nil
	return f
}

// Parse takes a completion apart. open says that it begins within reasoning; tools are those of the row.
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

// split returns the reasoning and what follows it, the end of text. Reasoning without an end, or without anything
// behind it, ends with the first call that follows the form, as in vLLM and llama.cpp.
func (f *Forms) split(text string, open bool, tools Tools) (reasoning, rest string) {
	reasoning, rest, still := f.reasoning.split(text, open)
	// What is kept in the text stays one piece.
	last := still || !f.KeepReasoning && strings.TrimSpace(rest) == ""
	if last && f.calls != nil && f.calls.marked() {
		if calls, thought, _ := f.calls.take(reasoning, tools); len(calls) > 0 {
			reasoning, rest = thought, reasoning[len(thought):]
		}
	}
	return f.reasoning.trimmed(reasoning), rest
}

// Identify gives each call that has no id one. It depends on the row's id, the generation and the call's place alone.
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
