package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// decodeOnly reads a JSON object which has no other keys than these. Nothing, or null, is one without keys.
func decodeOnly(raw json.RawMessage, to any, keys []string) error {
	if len(raw) == 0 {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return errors.New("a schema that is not an object")
	}
	for key := range all {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("%s, which this form of calls can't hold to", key)
		}
	}
	if json.Unmarshal(raw, to) != nil {
		return errors.New("a schema that is not well formed")
	}
	return nil
}

// membersInOrder returns the names and values of an object.
func membersInOrder(raw json.RawMessage) (names []string, values map[string]json.RawMessage, err error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	wrong := errors.New("its properties are no object")
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, wrong
	}
	values = map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, nil, wrong
		}
		name, _ := key.(string)
		if _, twice := values[name]; !twice {
			names = append(names, name)
		}
		values[name] = value
	}
	return names, values, nil
}

// property is an argument of a tool, or a member of an object within one.
type property struct {
	name     string
	schema   json.RawMessage
	required bool
}

// propertiesOf reads a schema that only defines the members of an object.
func propertiesOf(raw json.RawMessage) ([]property, error) {
	var schema struct {
		Properties json.RawMessage
		Required   []string
	}
	keys := []string{"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
	if err := decodeOnly(raw, &schema, keys); err != nil {
		return nil, fmt.Errorf("its parameters have %w", err)
	}
	names, schemas, err := membersInOrder(schema.Properties)
	if err != nil {
		return nil, err
	}
	for _, name := range schema.Required {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("its argument %s is required, and has no schema", name)
		}
	}
	var list []property
	for _, name := range names {
		list = append(list, property{name, schemas[name], slices.Contains(schema.Required, name)})
	}
	return list, nil
}
