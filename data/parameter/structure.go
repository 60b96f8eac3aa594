package parameter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Structure defines what the text of a completion must be. The zero value is any text.
type Structure struct {
	Kind StructureKind
	Text string // the JSON schema, the regular expression, the list of texts as JSON, or the grammar
	// Compact forbids whitespace between the parts of JSON.
	Compact bool
	// AnyOrder lets the properties of JSON objects come in any order, instead of the schema's order.
	AnyOrder bool
	// AdditionalProperties lets JSON objects have members that their schema neither lists nor restricts, and arrays
	// such items after the listed ones.
	AdditionalProperties bool
}

// StructureKind is the kind of a [Structure].
type StructureKind string

// The kinds, as in vLLM's structured_outputs.
const (
	SchemaStructure  StructureKind = "json"
	ObjectStructure  StructureKind = "json_object"
	RegexStructure   StructureKind = "regex"
	ChoiceStructure  StructureKind = "choice"
	GrammarStructure StructureKind = "grammar"
)

// CallStructure is a call of a tool, as parts of package grammar. Parameters never have it.
const CallStructure StructureKind = "call"

// NewStructure makes a structure of a kind from its value: text, or a list of texts.
func NewStructure(kind StructureKind, value any) (s Structure, err error) {
	raw, err := json.Marshal(value)
	if err == nil {
		err = s.set(kind, raw)
	}
	if err != nil {
		return Structure{}, fmt.Errorf("%s %w", kind, err)
	}
	return s, nil
}

// String returns the structure as JSON.
func (s Structure) String() string {
	b, _ := s.MarshalJSON()
	return string(b)
}

// Choices returns the texts of a choice.
func (s Structure) Choices() (texts []string) {
	_ = json.Unmarshal([]byte(s.Text), &texts)
	return texts
}

// The names of options: [Structure.Compact] in vLLM, and [Structure.AnyOrder] in XGrammar.
const (
	compactName    = "disable_any_whitespace"
	anyOrderName   = "any_order"
	additionalName = "additional_properties"
)

// MarshalJSON returns the structure in the form of vLLM's structured_outputs, null for any text.
func (s Structure) MarshalJSON() ([]byte, error) {
	var value any
	switch s.Kind {
	case "":
		return []byte("null"), nil
	case ObjectStructure:
		value = true
	case SchemaStructure, ChoiceStructure:
		value = json.RawMessage(s.Text)
	default:
		value = s.Text
	}
	object := map[string]any{string(s.Kind): value}
	if s.Compact {
		object[compactName] = true
	}
	if s.AnyOrder {
		object[anyOrderName] = true
	}
	if s.AdditionalProperties {
		object[additionalName] = true
	}
	return json.Marshal(object)
}

// UnmarshalJSON parses the output of MarshalJSON.
func (s *Structure) UnmarshalJSON(raw []byte) (err error) {
	*s, err = ParseStructure("structured_outputs", raw)
	return err
}

// ParseStructure parses the JSON value of a parameter that sets a structure: OpenAI's response_format, vLLM's
// structured_outputs, or a part of these under an engine's name for it. In place of an object, text that contains one
// is accepted.
func ParseStructure(name string, raw []byte) (s Structure, err error) {
	kind := map[string]StructureKind{
		"guided_json": SchemaStructure, "json_schema": SchemaStructure, "guided_regex": RegexStructure,
		"guided_choice": ChoiceStructure, "guided_grammar": GrammarStructure, "grammar": GrammarStructure,
		"guided_json_object": ObjectStructure,
	}[name]
	switch {
	case isNull(raw):
		return s, nil
	case kind != "":
		err = s.set(kind, raw)
	case name == "response_format":
		err = s.parseFormat(raw)
	default:
		err = s.parseOutputs(raw)
	}
	if err != nil {
		return Structure{}, fmt.Errorf("%s %w", name, err)
	}
	return s, nil
}

// GivesStructure reports whether the value of such a parameter is a structure: not null, nor an object of nulls,
// which a Parquet file has for rows that give none.
func GivesStructure(name string, raw []byte) bool {
	v, ok := decode(raw)
	members, isObject := v.(map[string]any)
	isSchema := name == "guided_json" || name == "json_schema"
	return !ok || v != nil && !(isObject && empty(v) && (len(members) > 0 || !isSchema))
}

func isNull(raw []byte) bool { return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null" }

// object parses an object, or text that contains one, without members that are null.
func object(raw []byte) (map[string]json.RawMessage, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = []byte(text)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, fmt.Errorf("is %.60s, but must be a JSON object", raw)
	}
	maps.DeleteFunc(members, func(_ string, v json.RawMessage) bool { return isNull(v) })
	return members, nil
}

// parseOutputs parses vLLM's structured_outputs.
func (s *Structure) parseOutputs(raw []byte) error {
	members, err := object(raw)
	if err != nil {
		return err
	}
	kinds := []StructureKind{SchemaStructure, ObjectStructure, RegexStructure, ChoiceStructure, GrammarStructure}
	options := map[string]*bool{compactName: &s.Compact, anyOrderName: &s.AnyOrder,
		additionalName: &s.AdditionalProperties}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		switch kind := StructureKind(name); {
		case slices.Contains(kinds, kind):
			var member Structure
			if err := member.set(kind, value); err != nil {
				return fmt.Errorf("has a member %s that %w", name, err)
			}
			if member.Kind != "" && s.Kind != "" {
				return fmt.Errorf("has the members %s and %s: give one", s.Kind, member.Kind)
			}
			if member.Kind != "" {
				s.Kind, s.Text = member.Kind, member.Text
			}
		case options[name] != nil:
			if json.Unmarshal(value, options[name]) != nil {
				return fmt.Errorf("has a member %s that is not true or false", name)
			}
		case name == "disable_additional_properties" && string(value) == "true": // this is how objects are anyway
		case name == "disable_fallback", string(value) == "false", string(value) == `""`:
		default:
			return fmt.Errorf("has the member %s, which is not supported: leave it out", name)
		}
	}
	if s.Kind == "" {
		*s = Structure{}
	}
	return nil
}

// parseFormat parses OpenAI's response_format.
func (s *Structure) parseFormat(raw []byte) error {
	members, err := object(raw)
	if err != nil {
		return err
	}
	var kind string
	_ = json.Unmarshal(members["type"], &kind)
	schema := members["schema"] // llama.cpp's form
	switch {
	case kind == "text":
		return nil
	case kind == "json_object" && schema == nil:
		return s.set(ObjectStructure, []byte("true"))
	case kind == "json_object", kind == "json_schema":
	default:
		return fmt.Errorf("has the type %q: text, json_object or json_schema is needed", kind)
	}
	if jsonSchema := members["json_schema"]; jsonSchema != nil {
		inner, err := object(jsonSchema)
		if err != nil {
			return fmt.Errorf("has a json_schema that %w", err)
		}
		schema = inner["schema"]
	}
	if schema == nil {
		return errors.New("has no schema: give it as json_schema.schema")
	}
	if err := s.set(SchemaStructure, schema); err != nil {
		return fmt.Errorf("has a schema that %w", err)
	}
	return nil
}

// set makes a structure of a kind from its JSON value.
func (s *Structure) set(kind StructureKind, raw []byte) error {
	var text string
	isText := json.Unmarshal(raw, &text) == nil
	switch kind {
	case ObjectStructure:
		var yes bool
		if json.Unmarshal(raw, &yes) != nil {
			return fmt.Errorf("is %.60s, but must be true or false", raw)
		}
		if !yes {
			return nil
		}
	case ChoiceStructure:
		var texts []string
		if json.Unmarshal(raw, &texts) != nil || len(texts) == 0 || slices.Contains(texts, "") {
			return fmt.Errorf("is %.60s, but must be a list of text that is not empty", raw)
		}
		b, err := json.Marshal(texts)
		if err != nil {
			return err
		}
		text = string(b)
	case SchemaStructure:
		if isText {
			raw = []byte(text)
		}
		if raw = bytes.TrimSpace(raw); !json.Valid(raw) || !strings.ContainsRune("{tf", rune(raw[0])) {
			return fmt.Errorf("is %.60s, but must be a JSON schema: an object, true, false, or text with one", raw)
		}
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return err
		}
		text = b.String()
	default:
		if !isText || text == "" {
			return fmt.Errorf("is %.60s, but must be text that is not empty", raw)
		}
	}
	s.Kind, s.Text = kind, text
	return nil
}
