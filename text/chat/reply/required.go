package reply

import (
	"encoding/json"
	"errors"
	"fmt"

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
	var list []struct {
		Type     string
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(tools), &list); err != nil {
		return "", fmt.Errorf("tools: %w", err)
	}
	var calls [][]grammar.Part
	for _, entry := range list {
		t := tool{name: entry.Function.Name, parameters: entry.Function.Parameters, template: f.template}
		if name != "" && t.name != name {
			continue
		}
		if t.name == "" {
			return "", errors.New("a tool has no function with a name")
		}
		plain, err := withoutReferences(t.parameters)
		switch {
		case err == nil:
			t.parameters = plain
		case errors.Is(err, errCircle):
			t.references = fmt.Errorf("its parameters have %w", err)
		default:
			return "", fmt.Errorf("the tool %s: its parameters have %w", t.name, err)
		}
		parts, err := f.calls.one(t)
		if err != nil {
			return "", fmt.Errorf("the tool %s: %w", t.name, err)
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
