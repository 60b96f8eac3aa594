package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar"
)

// Required returns the form of one call of the tools, which are a JSON list as OpenAI has it: of any of them, or of the
// one with the name. It is JSON that [grammar.Alternatives] compiles. It fails if the form of calls, or a tool, can't
// be expressed exactly.
func (f *Forms) Required(tools Tools, name string) (form string, err error) {
	if f.calls == nil {
		return "", errors.New("the chat template has no form of tool calls that Quire knows: --tool-call-parser " +
			"names one")
	}
	list, err := parseTools(tools)
	if err != nil {
		return "", err
	}
	var calls [][]grammar.Part
	for _, entry := range list {
		if name != "" && entry.name != name {
			continue
		}
		parts, err := f.callOf(entry.name, entry.parameters)
		if err != nil {
			return "", err
		}
		calls = append(calls, parts)
	}
	if len(calls) == 0 {
		if name != "" {
			return "", fmt.Errorf("no tool is called %s", name)
		}
		return "", errors.New("there are no tools")
	}
	b, err := marshal(calls)
	return string(b), err
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

// callOf returns one call of a tool.
func (f *Forms) callOf(name string, parameters json.RawMessage) ([]grammar.Part, error) {
	t := tool{name: name, parameters: parameters, template: f.template}
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
	parts, err := f.calls.one(t)
	if err != nil {
		return nil, fmt.Errorf("the tool %s: %w", t.name, err)
	}
	return parts, nil
}

// anyObject is the schema of arguments that need not fit a tool's.
const anyObject = `{"type": "object", "additionalProperties": true}`

// Strict returns the form of a completion with any number of calls, among any text: each call is of one of the tools,
// and the arguments of a tool that is strict fit its schema. wanted is false if no tool is strict. It fails as
// [Forms.Required] does, and if calls have no mark by which other text can be told from them.
func (f *Forms) Strict(tools Tools) (form string, wanted bool, err error) {
	list, err := parseTools(tools)
	if err != nil || f.calls == nil ||
		!slices.ContainsFunc(list, func(o offered) bool { return o.strict }) {
		return "", false, err
	}
	if !f.calls.marked() {
		return "", true, errors.New("calls of this form have no mark that other text lacks")
	}
	var calls [][]grammar.Part
	for _, entry := range list {
		if !entry.strict {
			entry.parameters = json.RawMessage(anyObject)
		}
		parts, err := f.callOf(entry.name, entry.parameters)
		if err != nil {
			return "", true, err
		}
		calls = append(calls, parts)
	}
	text := grammar.Part{Without: f.calls.starts}
	b, err := marshal([][]grammar.Part{{text, {Members: &grammar.Members{More: []grammar.Part{{Any: calls}, text}}}}})
	return string(b), true, err
}

// CallMarks returns the texts that calls begin with.
func (f *Forms) CallMarks() []string { return f.calls.starts }
