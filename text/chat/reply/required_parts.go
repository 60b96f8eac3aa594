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

// tool is a tool that a completion may call.
type tool struct {
	name       string
	parameters json.RawMessage // a JSON schema; nil for no arguments
	references error           // why the parameters still have $ref
	several    bool            // it may be called alongside others
}

func literal(text string) grammar.Part { return grammar.Part{Text: text} }

// object is a call that is a JSON object of a name and of arguments under a key, between two texts.
func object(before, key, after string) func(tool) ([]grammar.Part, error) {
	return func(t tool) ([]grammar.Part, error) {
		arguments, err := t.arguments()
		schema := fmt.Sprintf(`{"type": "object", "properties": {"name": {"const": %s}, %q: %s}, `+
			`"required": ["name", %q], "additionalProperties": false}`, quoted(t.name), key, arguments, key)
		return []grammar.Part{literal(before), {Schema: json.RawMessage(schema)}, literal(after)}, err
	}
}

// named is a call that is a name and a JSON object of arguments, with texts around them.
func named(before, between, after string) func(tool) ([]grammar.Part, error) {
	return func(t tool) ([]grammar.Part, error) {
		arguments, err := t.plainArguments()
		return []grammar.Part{literal(before + t.name + between), {Schema: json.RawMessage(arguments)}, literal(after)},
			err
	}
}

// mistralCalls are calls in the one of the ways that the template has.
func mistralCalls(template string) notation {
	if strings.Contains(template, callArgs) {
		return notation{call: named(toolCalls, callArgs, "")}
	}
	return notation{open: toolCalls + "[", between: ", ", end: "]", call: object("", "arguments", "")}
}

// deepSeekCalls are calls in the one of the ways that the template has.
func deepSeekCalls(template string) notation {
	n := notation{open: deepStart, end: deepEnd, call: named(deepCall, deepSep, deepDone)}
	if strings.Contains(template, "```json") {
		n.between, n.call = "\n", named(deepCall+"function"+deepSep, "\n```json\n", "\n```"+deepDone)
	}
	return n
}

// kimiCallOf is a call in the form that [kimi] reads. A call among several has any number.
func kimiCallOf(t tool) ([]grammar.Part, error) {
	arguments, err := t.plainArguments()
	number := literal("0")
	if t.several {
		number = grammar.Part{Schema: json.RawMessage(`{"type": "integer", "minimum": 0, "maximum": 9999}`)}
	}
	return []grammar.Part{literal(kimiCall + functionsOf + t.name + ":"), number, literal(kimiArgs),
		{Schema: json.RawMessage(arguments)}, literal(kimiDone)}, err
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// plainArguments is the schema of the arguments of a tool whose name can't be confused with marks.
func (t *tool) plainArguments() (string, error) {
	if !plainName.MatchString(t.name) {
		return "", errors.New("its name has other characters than letters, digits, _, . and -")
	}
	return t.arguments()
}

// arguments is the schema of the arguments: an object.
func (t *tool) arguments() (string, error) {
	if len(t.parameters) == 0 || string(t.parameters) == "null" {
		return `{"type": "object", "properties": {}, "additionalProperties": false}`, nil
	}
	var schema map[string]any
	if err := json.Unmarshal(t.parameters, &schema); err != nil {
		return "", errors.New("its parameters are not a JSON schema of an object")
	}
	text := strings.TrimSpace(string(t.parameters))
	if t.references != nil && schema["$id"] == nil { // so that references still mean this schema
		text = `{"$id": "quire:parameters", ` + text[1:]
	}
	switch schema["type"] {
	case nil:
		return `{"allOf": [{"type": "object"}, ` + text + `]}`, nil
	case "object":
		return text, nil
	}
	return "", fmt.Errorf("its parameters are of type %v, and must be of object", schema["type"])
}

// properties are the arguments of a tool, one by one.
func (t *tool) properties() ([]property, error) {
	if t.references != nil {
		return nil, t.references
	}
	return propertiesOf(t.parameters)
}

// functionOf is a call of the form that [Tools.function] reads, between two marks.
func functionOf(start, end string) func(tool) ([]grammar.Part, error) {
	return func(t tool) ([]grammar.Part, error) {
		return t.written(start+"\n"+functionStart+t.name+">\n", functionEnd+"\n"+end,
			func(key string, _ bool) (string, string) { return parameterStart + key + ">\n", "\n" + parameterEnd },
			parameterEnd, parameterStart, end)
	}
}

// glmCall is a call of the form that [glm] reads.
func glmCall(t tool) ([]grammar.Part, error) {
	return t.written(callStart+t.name+"\n", callEnd, func(key string, _ bool) (string, string) {
		return keyStart + key + keyEnd + "\n" + valueStart, valueEnd
	}, valueEnd, callEnd)
}

// written is a call whose arguments are written one by one, in the schema's order: text as it is, without the marks
// that would end it, and other values as JSON.
func (t *tool) written(before, after string, around func(key string, isText bool) (before, after string),
	marks ...string) ([]grammar.Part, error) {
	if _, err := t.plainArguments(); err != nil {
		return nil, err
	}
	arguments, err := t.properties()
	if err != nil {
		return nil, err
	}
	parts := []grammar.Part{literal(before)}
	for _, a := range arguments {
		value, err := argument(a.schema, marks)
		if err != nil || !plainName.MatchString(a.name) {
			return nil, fmt.Errorf("its argument %s has %w", a.name, orName(err))
		}
		start, end := around(a.name, value.Schema == nil)
		one := []grammar.Part{literal(start), value, literal(end + "\n")}
		if a.required {
			parts = append(parts, one...)
		} else {
			parts = append(parts, grammar.Part{Maybe: one})
		}
	}
	return append(parts, literal(after)), nil
}

func orName(err error) error {
	if err == nil {
		return errors.New("a name with other characters than letters, digits, _, . and -")
	}
	return err
}

// argument is an argument of a schema, before marks. The schema must allow text, or JSON that contains no text.
func argument(schema json.RawMessage, marks []string) (p grammar.Part, err error) {
	var fields struct {
		Type any
		Enum []any
	}
	if json.Unmarshal(schema, &fields) != nil {
		return p, errors.New("a schema that is not an object")
	}
	if fields.Type != "string" {
		if p, ok := textualArgument(schema, marks); ok {
			return p, nil
		}
		return grammar.Part{Schema: schema}, withoutText(schema)
	}
	keys := []string{"type", "enum", "title", "description", "default", "examples"}
	if err := decodeOnly(schema, &fields, keys); err != nil {
		return p, err
	}
	if fields.Enum == nil {
		return grammar.Part{Without: marks}, nil
	}
	for _, v := range fields.Enum {
		text, ok := v.(string)
		within := func(mark string) bool { return strings.Contains(text, mark) }
		if !ok || text == "" || slices.ContainsFunc(marks, within) {
			return p, fmt.Errorf("the text %v in its enum", v)
		}
		p.Choice = append(p.Choice, text)
	}
	return p, nil
}

// withoutText refuses schemas of JSON that may have text in it, which could contain a mark: it accepts only schemas of
// numbers, truth values, null, and lists of these.
func withoutText(schema json.RawMessage) error {
	var fields struct {
		Type  any
		Items json.RawMessage
	}
	if json.Unmarshal(schema, &fields) != nil {
		return errors.New("a schema that is not an object")
	}
	types, isList := fields.Type.([]any)
	if !isList {
		types = []any{fields.Type}
	}
	for _, one := range types {
		switch one {
		case "integer", "number", "boolean", "null":
		case "array":
			if err := withoutText(fields.Items); err != nil {
				return err
			}
			for _, key := range []string{"prefixItems", "contains", "unevaluatedItems"} {
				if strings.Contains(string(schema), `"`+key+`"`) {
					return errors.New(key)
				}
			}
		default:
			return errors.New("a schema of text within JSON, which could end the argument: give type string, " +
				"integer, number, boolean, or array of these but string")
		}
	}
	return nil
}
