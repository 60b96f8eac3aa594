package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar"
)

// Required returns the form of calls of the tools, which are a JSON list as OpenAI has it: one call of the one with the
// name, or without a name one call of any of them, or with several any number of such calls. It is JSON that
// [grammar.Alternatives] compiles. It fails if the form of calls, or a tool, can't be expressed exactly.
func (f *Forms) Required(tools Tools, name string, several bool) (form string, err error) {
	if f.calls == nil {
		return "", errors.New("the chat template has no form of tool calls that Quire knows: --tool-call-parser " +
			"names one")
	}
	list, err := parseTools(tools)
	if err != nil {
		return "", err
	}
	if name != "" {
		several = false
		list = slices.DeleteFunc(list, func(o offered) bool { return o.name != name })
	}
	switch {
	case len(list) == 0 && name != "":
		return "", fmt.Errorf("no tool is called %s", name)
	case len(list) == 0:
		return "", errors.New("there are no tools")
	}
	block, err := f.block(list, several)
	if err != nil {
		return "", err
	}
	b, err := marshal([][]grammar.Part{block})
	return string(b), err
}

// block returns calls of tools as parts of a text: one call, or with several any number of them and at least one.
func (f *Forms) block(tools []offered, several bool) ([]grammar.Part, error) {
	n := f.calls.written(f.template)
	var calls [][]grammar.Part
	for _, o := range tools {
		t := tool{name: o.name, parameters: o.parameters, several: several}
		if t.name == "" {
			return nil, errors.New("a tool has no function with a name")
		}
		plain, err := withoutReferences(t.parameters)
		switch {
		case err == nil:
			t.parameters = plain
		case errors.Is(err, errCircle):
			t.references = fmt.Errorf("its parameters have %w", err)
		default:
			return nil, fmt.Errorf("the tool %s: its parameters have %w", t.name, err)
		}
		parts, err := n.call(t)
		if err != nil {
			return nil, fmt.Errorf("the tool %s: %w", t.name, err)
		}
		calls = append(calls, parts)
	}
	return n.block(calls, several), nil
}

// offered is a tool of a list in the form of OpenAI's API.
type offered struct {
	name       string
	parameters json.RawMessage
	strict     bool
}

func parseTools(tools Tools) (all []offered, err error) {
	var list []struct {
		Type     string
		Function struct {
			Name       string
			Parameters json.RawMessage
			Strict     bool
		}
	}
	if err := json.Unmarshal([]byte(tools), &list); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	for _, entry := range list {
		f := &entry.Function
		all = append(all, offered{f.Name, f.Parameters, f.Strict})
	}
	return all, nil
}

// anyObject is the schema of arguments that need not fit a tool's.
const anyObject = `{"type": "object", "additionalProperties": true}`

// Strict returns the form of a completion with any number of calls, or without several at most one, among any text:
// each call is of one of the tools, and the arguments of a tool that is strict fit its schema. wanted is false if the
// form allows everything: no tool is strict, and several calls may be made. It fails as [Forms.Required] does, and if
// calls have no mark by which other text can be told from them.
func (f *Forms) Strict(tools Tools, several bool) (form string, wanted bool, err error) {
	list, err := parseTools(tools)
	if err != nil || f.calls == nil ||
		several && !slices.ContainsFunc(list, func(o offered) bool { return o.strict }) {
		return "", false, err
	}
	if !f.calls.marked() {
		return "", true, errors.New("calls of this form have no mark that other text lacks")
	}
	for i := range list {
		if !list[i].strict {
			list[i].parameters = json.RawMessage(anyObject)
		}
	}
	// Calls without a frame around them come one by one, since other text may separate them, too.
	n := f.calls.written(f.template)
	calls, err := f.block(list, several && n.open != "")
	if err != nil {
		return "", true, err
	}
	text := grammar.Part{Without: f.calls.starts}
	calls = append(calls, text)
	rest := grammar.Part{Maybe: calls}
	if several {
		rest = grammar.Part{Members: &grammar.Members{More: calls}}
	}
	b, err := marshal([][]grammar.Part{{text, rest}})
	return string(b), true, err
}

// CallMarks returns the texts that calls begin with.
func (f *Forms) CallMarks() []string { return f.calls.starts }
