package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Required is the form of a completion that is one call: JSON of a schema between two texts.
type Required struct{ Before, Schema, After string }

// Required returns the form of one call of the tools, which are a JSON list as OpenAI has it: of any of them, or of the
// one that is named. It is an error where the form of calls, or a tool, can't be said exactly.
func (f *Forms) Required(tools Tools, name string) (r Required, err error) {
	switch {
	case f.calls == nil:
		return r, errors.New("the chat template has no form of tool calls that Quire knows: --tool-call-parser names " +
			"one")
	case f.calls.argumentsKey == "":
		return r, fmt.Errorf("a call of the form %s has no JSON schema: leave it out", f.calls.names[0])
	}
	var list []struct {
		Type     string
		Function struct {
			Name       string
			Parameters json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(tools), &list); err != nil {
		return r, fmt.Errorf("tools: %w", err)
	}
	var calls []any
	for _, tool := range list {
		of := tool.Function
		if name != "" && of.Name != name {
			continue
		}
		if of.Name == "" {
			return r, errors.New("a tool has no function with a name")
		}
		arguments, err := argumentsOf(of.Parameters)
		if err != nil {
			return r, fmt.Errorf("the tool %s: %w", of.Name, err)
		}
		calls = append(calls, json.RawMessage(fmt.Sprintf(`{"type": "object", "properties": {"name": {"const": %s}, `+
			`%q: %s}, "required": ["name", %q], "additionalProperties": false}`, quoted(of.Name), f.calls.argumentsKey,
			arguments, f.calls.argumentsKey)))
	}
	if len(calls) == 0 {
		if name != "" {
			return r, fmt.Errorf("no tool is called %s", name)
		}
		return r, errors.New("there are no tools")
	}
	schema, err := marshal(map[string]any{"anyOf": calls})
	return Required{f.calls.before, string(schema), f.calls.after}, err
}

// argumentsOf is the schema of the arguments of a tool: an object.
func argumentsOf(parameters json.RawMessage) (string, error) {
	if len(parameters) == 0 || string(parameters) == "null" {
		return `{"type": "object", "properties": {}, "additionalProperties": false}`, nil
	}
	var schema map[string]any
	if err := json.Unmarshal(parameters, &schema); err != nil {
		return "", errors.New("its parameters are no JSON schema of an object")
	}
	if strings.Contains(string(parameters), `"$ref"`) {
		return "", errors.New("its parameters have $ref, which is not supported within a call: write the schema there")
	}
	switch schema["type"] {
	case nil:
		return `{"allOf": [{"type": "object"}, ` + string(parameters) + `]}`, nil
	case "object":
		return string(parameters), nil
	}
	return "", fmt.Errorf("its parameters are of type %v, and must be of object", schema["type"])
}
