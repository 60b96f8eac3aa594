// Package reply parses a completion in the format of the model's family: reasoning, text, and calls of tools.
//
// Forms have the names that vLLM uses. Text that does not follow the form remains text: no part of a completion is lost
// except the marks themselves and blank lines next to them.
package reply

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// The names that do not stand for one format.
const (
	Auto = "auto" // the form that the chat template has
	None = "none" // the text is not parsed
)

// Parsed has the parts of a completion.
type Parsed struct {
	Reasoning string // "" if there is none
	Text      string // the rest, without reasoning and calls
	ToolCalls []ToolCall
}

// JSON returns the calls as a JSON list of OpenAI's API, or "" if there are none.
func (p *Parsed) JSON() string {
	if len(p.ToolCalls) == 0 {
		return ""
	}
	b, _ := marshal(p.ToolCalls) // cannot fail: strings, and lists of them
	return string(b)
}

// Forms are how the completions of a model are parsed. The zero value leaves them as they are.
type Forms struct {
	reasoning *thinking
	calls     *calling
	template  string // the chat template
	// KeepReasoning leaves reasoning in the text. Calls in it are not parsed.
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

// Name names the formats: completions are taken apart in the same way by formats of the same name.
func (f *Forms) Name() string {
	name := "reasoning"
	if f.KeepReasoning {
		name += " kept"
	}
	if f.reasoning != nil {
		name += " " + strings.Join(f.reasoning.names, " ")
	}
	if f.calls != nil {
		name += ", calls " + strings.Join(f.calls.names, " ")
	}
	return name
}

// Check returns an error if the name of a form is not one of names.
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

// Names returns the names of the forms, "" for no form.
func (f *Forms) Names() (reasoning, calls string) {
	if f.reasoning != nil {
		reasoning = f.reasoning.names[0]
	}
	if f.calls != nil {
		calls = f.calls.names[0]
	}
	return reasoning, calls
}

// HasReasoning reports whether there is a form of reasoning.
func (f *Forms) HasReasoning() bool { return f.reasoning != nil }

// HasCalls reports whether there is a form of calls.
func (f *Forms) HasCalls() bool { return f.calls != nil }

// Marks are the texts that the forms search for. If a tokenizer has them as special tokens, the text must include
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

// ReasoningMarks returns the texts before and after reasoning. ok is false for a form that marks more than reasoning.
func (f *Forms) ReasoningMarks() (start, end string, ok bool) {
	return f.reasoning.start, f.reasoning.end, !f.reasoning.harmony
}

// Opens reports whether a prompt ends with the start of reasoning, so that the completion begins within it.
func (f *Forms) Opens(prompt string) bool {
	if f.reasoning == nil {
		return false
	}
	prompt = strings.TrimSuffix(strings.TrimRight(prompt, " \n"), f.reasoning.label)
	return strings.HasSuffix(prompt, f.reasoning.start)
}

// Within reports whether a text ends within reasoning.
func (f *Forms) Within(text string) bool {
	return f.reasoning != nil && strings.LastIndex(text, f.reasoning.start) > strings.LastIndex(text, f.reasoning.end)
}

// WithoutCalls returns the forms without the form of calls.
func (f Forms) WithoutCalls() Forms {
	f.calls = nil
	return f
}

// Parse parses a completion. open reports whether it begins within reasoning; tools are the tools of the row.
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

// split returns the reasoning and the rest of the text. Reasoning without an end, or with nothing after it, ends with
// the first call that follows the form, as in vLLM and llama.cpp.
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
