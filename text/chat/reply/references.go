package reply

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// values are the keywords whose values are not schemas.
var values = []string{"const", "enum", "default", "examples"}

// errCircle is the error of a reference within what it names.
var errCircle = errors.New("within what it names, which is not supported in this form of a call")

// references replaces the references of a schema by what they name, because a call uses parts of the schema without the
// rest.
type references struct {
	root json.RawMessage
	open []string // the references that are being resolved
}

// withoutReferences returns a schema without $ref. It fails if a reference names something outside of the schema, or a
// schema that contains itself.
func withoutReferences(schema json.RawMessage) (json.RawMessage, error) {
	if !strings.Contains(string(schema), `"$ref"`) {
		return schema, nil
	}
	r := &references{root: schema}
	return r.replaced(schema, true)
}

// replaced returns a JSON text without references. isSchema distinguishes a schema from a map of schemas.
func (r *references) replaced(raw json.RawMessage, isSchema bool) (json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i, item := range list {
			var err error
			if list[i], err = r.replaced(item, true); err != nil {
				return nil, err
			}
		}
		return json.Marshal(list)
	}
	names, members, err := membersInOrder(raw)
	if err != nil { // neither a list nor an object
		return raw, nil
	}
	var ref string
	if isSchema && members["$ref"] != nil && json.Unmarshal(members["$ref"], &ref) != nil {
		return nil, errors.New("a $ref that is not a string")
	}
	var b strings.Builder
	for _, name := range names {
		value := members[name]
		switch {
		case isSchema && (name == "$defs" || name == "definitions" || name == "$ref"):
			continue
		case !isSchema || !slices.Contains(values, name):
			isMap := isSchema && slices.Contains([]string{"properties", "patternProperties", "dependentSchemas"}, name)
			if value, err = r.replaced(value, !isMap); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(&b, ",%s:%s", quoted(name), value)
	}
	siblings := strings.TrimPrefix(b.String(), ",")
	if ref == "" {
		return json.RawMessage("{" + siblings + "}"), nil
	}
	to, err := r.named(ref)
	if err != nil || siblings == "" {
		return to, err
	}
	return merged(to, json.RawMessage("{"+siblings+"}")), nil
}

// merged combines a schema and the keywords next to a reference to it: in one object, unless both have the same
// keyword.
func merged(schema, siblings json.RawMessage) json.RawMessage {
	names, members, err := membersInOrder(schema)
	more, others, _ := membersInOrder(siblings)
	annotations := []string{"title", "description", "default", "examples", "deprecated"}
	for _, name := range more {
		if err != nil || members[name] != nil && !slices.Contains(annotations, name) {
			return json.RawMessage(fmt.Sprintf(`{"allOf":[%s,%s]}`, schema, siblings))
		}
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = others[name]
	}
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, ",%s:%s", quoted(name), members[name])
	}
	return json.RawMessage("{" + strings.TrimPrefix(b.String(), ",") + "}")
}

// named returns what a reference names, without references.
func (r *references) named(ref string) (json.RawMessage, error) {
	if slices.Contains(r.open, ref) {
		return nil, fmt.Errorf("a $ref %q %w", ref, errCircle)
	}
	pointer, local := strings.CutPrefix(ref, "#")
	if unescaped, err := url.PathUnescape(pointer); err == nil {
		pointer = unescaped
	}
	to := r.root
	for i, part := range strings.Split(pointer, "/") {
		if i == 0 {
			local = local && part == ""
			continue
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		var list []json.RawMessage
		_, members, err := membersInOrder(to)
		if err != nil {
			_ = json.Unmarshal(to, &list)
		}
		if n, e := strconv.Atoi(part); e == nil && n >= 0 && n < len(list) {
			to = list[n]
		} else {
			to = members[part]
		}
		if to == nil {
			break
		}
	}
	if !local || to == nil {
		return nil, fmt.Errorf("a $ref %q, which names nothing in its schema", ref)
	}
	r.open = append(r.open, ref)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.replaced(to, true)
}
