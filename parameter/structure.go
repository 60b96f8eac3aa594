package parameter

import "encoding/json"

// Structure says what the text of a completion must be. The zero value is any text.
type Structure struct {
	Kind StructureKind
	Text string // the JSON schema, the regular expression, the list of texts as JSON, or the grammar
}

// StructureKind is what a [Structure] is.
type StructureKind string

// The kinds, as vLLM's structured_outputs has them.
const (
	JSONSchema StructureKind = "json"
	JSONObject StructureKind = "json_object"
	Regex      StructureKind = "regex"
	Choice     StructureKind = "choice"
	Grammar    StructureKind = "grammar"
)

// String is the structure as JSON.
func (s Structure) String() string {
	b, _ := json.Marshal(s)
	return string(b)
}

// Choices are the texts of a choice.
func (s Structure) Choices() (texts []string) {
	_ = json.Unmarshal([]byte(s.Text), &texts)
	return texts
}

// MarshalJSON returns the structure as vLLM's structured_outputs has it, null for any text.
func (s Structure) MarshalJSON() ([]byte, error) {
	var value any
	switch s.Kind {
	case "":
		return []byte("null"), nil
	case JSONObject:
		value = true
	case JSONSchema, Choice:
		value = json.RawMessage(s.Text)
	default:
		value = s.Text
	}
	return json.Marshal(map[StructureKind]any{s.Kind: value})
}
