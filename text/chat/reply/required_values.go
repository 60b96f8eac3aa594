package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/quire/quire/text/grammar"
)

// Names that Python can read: of arguments, and of functions with dots between parts.
var (
	pythonKey  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	pythonName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)
)

// pythonCall returns a call in Python's syntax.
func pythonCall(t tool) ([]grammar.Part, error) {
	if !pythonName.MatchString(t.name) {
		return nil, errors.New("its name is none that Python can read")
	}
	if _, err := t.arguments(); err != nil {
		return nil, err
	}
	arguments, err := t.properties()
	if err != nil {
		return nil, err
	}
	m := grammar.Members{Separator: ", "}
	for _, a := range arguments {
		if !pythonKey.MatchString(a.name) {
			return nil, fmt.Errorf("its argument %s has a name that Python can't read", a.name)
		}
		m.List = append(m.List, grammar.Member{Required: a.required,
			Parts: []grammar.Part{literal(a.name + "="), {Schema: a.schema, Python: true}}})
	}
	return []grammar.Part{literal(t.name + "("), {Members: &m}, literal(")")}, nil
}

// lfmCalls returns calls in the template's variant.
func lfmCalls(template string) notation {
	if strings.Contains(template, `{"name": "`) {
		return notation{call: object(lfmStart, "arguments", lfmEnd)}
	}
	return notation{open: lfmStart + "[", between: ", ", end: "]" + lfmEnd, call: pythonCall}
}

// gemmaCall returns a call in the format that [gemma] parses.
func gemmaCall(t tool) ([]grammar.Part, error) {
	if _, err := t.plainArguments(); err != nil {
		return nil, err
	}
	if t.references != nil {
		return nil, t.references
	}
	arguments, err := gemmaObject(t.parameters)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]grammar.Part{literal(gemmaStart + "call:" + t.name)}, arguments,
		[]grammar.Part{literal(gemmaEnd)}), nil
}

func gemmaObject(schema json.RawMessage) ([]grammar.Part, error) {
	members, err := propertiesOf(schema)
	if err != nil {
		return nil, err
	}
	m := grammar.Members{Separator: ","}
	for _, p := range members {
		value, err := gemmaValue(p.schema)
		if err != nil || !plainName.MatchString(p.name) {
			return nil, fmt.Errorf("its argument %s has %w", p.name, orName(err))
		}
		m.List = append(m.List, grammar.Member{Required: p.required,
			Parts: append([]grammar.Part{literal(p.name + ":")}, value...)})
	}
	return []grammar.Part{literal("{"), {Members: &m}, literal("}")}, nil
}

// gemmaValue returns a value of a schema: text between marks that it does not contain, lists and objects with
// unquoted keys, and other values as JSON.
func gemmaValue(schema json.RawMessage) ([]grammar.Part, error) {
	var fields struct {
		Type     any
		Items    json.RawMessage
		MinItems int
		MaxItems *int
	}
	if json.Unmarshal(schema, &fields) != nil {
		return nil, errors.New("a schema that is not an object")
	}
	switch fields.Type {
	case "object":
		return gemmaObject(schema)
	case "array":
		keys := []string{"type", "items", "minItems", "maxItems", "title", "description"}
		if err := decodeOnly(schema, &fields, keys); err != nil {
			return nil, err
		}
		item, err := gemmaValue(fields.Items)
		if err != nil {
			return nil, err
		}
		m := grammar.Members{Separator: ",", More: item, Min: fields.MinItems, Max: fields.MaxItems}
		return []grammar.Part{literal("["), {Members: &m}, literal("]")}, nil
	case "string":
		text, err := argument(schema, []string{gemmaQuote, gemmaEnd})
		return []grammar.Part{literal(gemmaQuote), text, literal(gemmaQuote)}, err
	}
	if text, ok := textualArgument(schema, []string{gemmaQuote, gemmaEnd}); ok {
		// drop null and others, which are not texts
		text.Choice = slices.DeleteFunc(text.Choice, func(one string) bool {
			return !(parameters{}).allowsText(schema, one)
		})
		return []grammar.Part{literal(gemmaQuote), text, literal(gemmaQuote)}, nil
	}
	return []grammar.Part{{Schema: schema}}, withoutText(schema)
}

// deepSeekBlockCalls returns calls in the format that [deepSeekBlock] parses, in the template's variant.
func deepSeekBlockCalls(template string) notation {
	block := 0
	if strings.Contains(template, "tool_calls>") {
		block = 1
	}
	return notation{open: blockStart[block] + "\n", between: "\n", end: "\n" + blockEnd[block],
		call: func(t tool) ([]grammar.Part, error) {
			return t.written(invokeStart+t.name+"\">\n", invokeEnd, func(key string, isText bool) (string, string) {
				return fmt.Sprintf("%s%s\" string=\"%v\">", givenStart, key, isText), givenEnd
			}, dsml)
		}}
}
