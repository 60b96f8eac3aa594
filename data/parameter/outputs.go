package parameter

import (
	"encoding/json"
	"fmt"
)

// Outputs is what a row has: see Set.Outputs.
type Outputs struct {
	Text, Embedding bool
	Choice          Structure // whose texts have probabilities; the zero value for none
}

// outputsForm is what the list must be.
const outputsForm = `a list of "text", "embedding" and an object with choice, each once`

// ParseOutputs parses [Set].Outputs, which is not "".
func ParseOutputs(list ListJSON) (o Outputs, err error) {
	wrong := fmt.Errorf("is not %s", outputsForm)
	var items []json.RawMessage
	if json.Unmarshal([]byte(list), &items) != nil {
		return Outputs{}, wrong
	}
	for _, item := range items {
		var name string
		_ = json.Unmarshal(item, &name)
		before := o
		switch {
		case name == "text":
			o.Text = true
		case name == "embedding":
			o.Embedding = true
		case name == "":
			var object map[string]json.RawMessage
			if json.Unmarshal(item, &object) != nil || len(object) != 1 || object["choice"] == nil ||
				o.Choice.Kind != "" {
				return Outputs{}, wrong
			}
			if err := o.Choice.set(ChoiceStructure, object["choice"]); err != nil {
				return Outputs{}, fmt.Errorf("has a choice, which %w", err)
			}
		default:
			return Outputs{}, wrong
		}
		if o == before {
			return Outputs{}, wrong
		}
	}
	return o, nil
}
