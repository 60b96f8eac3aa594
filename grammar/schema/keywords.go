package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quire/quire/grammar/automaton"
)

// keywords are those that say what is valid, each with the form that it makes of itself and those that belong to it.
// The first of a group does so for all of it.
var keywords map[string]func(*compiler, *schemaNode, string, *value) (*form, error)

func init() { // they refer to each other
	keywords = map[string]func(*compiler, *schemaNode, string, *value) (*form, error){
		"type": (*compiler).typeForm, "enum": (*compiler).enumForm, "const": (*compiler).constForm,
		"$ref": (*compiler).refForm, "allOf": (*compiler).allOfForm, "anyOf": (*compiler).anyOfForm,
		"oneOf": (*compiler).oneOfForm, "not": (*compiler).notForm, "if": (*compiler).ifForm,
		"properties": (*compiler).propertiesForm, "patternProperties": (*compiler).propertiesForm,
		"additionalProperties": (*compiler).propertiesForm, "required": (*compiler).requiredForm,
		"minProperties": (*compiler).countForm, "maxProperties": (*compiler).countForm,
		"propertyNames": (*compiler).namesForm, "dependentRequired": (*compiler).dependenciesForm,
		"dependentSchemas": (*compiler).dependenciesForm, "dependencies": (*compiler).dependenciesForm,
		"items": (*compiler).itemsForm, "prefixItems": (*compiler).itemsForm, "additionalItems": (*compiler).itemsForm,
		"minItems": (*compiler).countForm, "maxItems": (*compiler).countForm, "uniqueItems": (*compiler).uniqueForm,
		"contains":  (*compiler).containsForm,
		"minLength": (*compiler).lengthForm, "maxLength": (*compiler).lengthForm,
		"pattern": (*compiler).patternForm, "format": (*compiler).formatForm,
		"minimum": (*compiler).boundForm, "maximum": (*compiler).boundForm,
		"exclusiveMinimum": (*compiler).boundForm, "exclusiveMaximum": (*compiler).boundForm,
		"multipleOf":            (*compiler).multipleForm,
		"unevaluatedItems":      (*compiler).unevaluatedForm,
		"unevaluatedProperties": (*compiler).unevaluatedForm,
		"$dynamicRef":           (*compiler).refForm, "$recursiveRef": (*compiler).unsupported,
	}
}

// groups are keywords that are read together, by the first of them.
var groups = map[string]string{
	"properties": "properties", "patternProperties": "properties", "additionalProperties": "properties",
	"items": "items", "prefixItems": "items", "additionalItems": "items",
	"minLength": "length", "maxLength": "length",
}

// schemaForm is what a schema allows: what all its keywords do, in their order.
func (c *compiler) schemaForm(n *schemaNode) (*form, error) {
	if n.v.kind != objectValue {
		return nil, &refusal{"#" + n.path, fmt.Errorf("a schema is neither an object nor true or false")}
	}
	f := c.everything()
	read := map[string]bool{}
	for i, name := range n.v.names {
		make := keywords[name]
		if make == nil || c.doc.old && name != "$ref" && n.v.has("$ref") {
			continue // it says nothing of what is valid, or does not count
		}
		if group := groups[name]; group != "" {
			if read[group] {
				continue
			}
			read[group] = true
		}
		g, err := make(c, n, name, n.v.list[i])
		if err == nil && g != nil {
			f, err = c.and(f, g)
		}
		if r, ok := err.(*refusal); ok {
			return nil, r
		} else if err != nil {
			return nil, n.refuse(name, err)
		}
	}
	return f, nil
}

// sub is the goal of a schema within another.
func (c *compiler) sub(n *schemaNode, v *value, path ...string) goal {
	p := n.path
	for _, part := range path {
		p += "/" + escapePointer(part)
	}
	return c.schema(v, p, n.base, n.scope)
}

// list reads schemas in a list.
func (c *compiler) list(n *schemaNode, keyword string, v *value) ([]goal, error) {
	if v.kind != arrayValue {
		return nil, fmt.Errorf("it is not a list of schemas")
	}
	var goals []goal
	for i, sub := range v.list {
		goals = append(goals, c.sub(n, sub, keyword, strconv.Itoa(i)))
	}
	return goals, nil
}

func (c *compiler) unsupported(_ *schemaNode, _ string, _ *value) (*form, error) {
	return nil, fmt.Errorf("it is not supported")
}

func (c *compiler) typeForm(_ *schemaNode, _ string, v *value) (*form, error) {
	list := []*value{v}
	if v.kind == arrayValue {
		list = v.list
	}
	f := &form{}
	for _, t := range list {
		switch t.text {
		case "null":
			f.null = true
		case "boolean":
			f.yes, f.no = true, true
		case "integer":
			f.number = c.orRegular(f.number, c.integers, c.parts.Number)
		case "number":
			f.number = c.parts.Number
		case "string":
			f.text = c.parts.Free
		case "array":
			f.arrays = []*array{anyArray()}
		case "object":
			f.objects = []*object{c.anyObject()}
		case "any":
			if c.doc.old {
				return nil, nil
			}
			fallthrough
		default:
			return nil, fmt.Errorf("there is no type %q", t.text)
		}
	}
	return f, nil
}

func (c *compiler) constForm(_ *schemaNode, _ string, v *value) (*form, error) {
	return c.valuesForm([]*value{v})
}

func (c *compiler) enumForm(_ *schemaNode, _ string, v *value) (*form, error) {
	if v.kind != arrayValue {
		return nil, fmt.Errorf("it is not a list")
	}
	return c.valuesForm(v.list)
}

// valuesForm allows some values.
func (c *compiler) valuesForm(list []*value) (*form, error) {
	f := &form{}
	var texts, numbers []string
	for _, v := range list {
		switch v.kind {
		case nullValue:
			f.null = true
		case boolValue:
			f.yes, f.no = f.yes || v.yes, f.no || !v.yes
		case stringValue:
			texts = append(texts, c.parts.Spelled(v.text))
		case numberValue:
			d, err := parseDecimal(v.text)
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, d.String())
		case arrayValue:
			a := &array{rest: never, min: len(v.list), max: len(v.list)}
			for _, item := range v.list {
				a.first = append(a.first, c.constant(item))
			}
			f.arrays = append(f.arrays, a)
		case objectValue:
			o := &object{max: automaton.Unlimited, required: v.names,
				regions: []region{{names: c.parts.Free, goal: never}}}
			for i, name := range v.names {
				o.props = append(o.props, property{name, c.constant(v.list[i])})
			}
			f.objects = append(f.objects, o)
		}
	}
	f.text, f.number = c.b.Choice(texts...), c.b.Choice(numbers...)
	if len(numbers) > 0 {
		c.spelled[f.number] = true
	}
	return f, nil
}

// constant is the goal of one value.
func (c *compiler) constant(v *value) goal {
	return c.schema(&value{kind: objectValue, names: []string{"const"}, list: []*value{v}}, "", "", nil)
}

func (c *compiler) refForm(n *schemaNode, name string, v *value) (*form, error) {
	g, err := c.referred(n, name, v)
	if err != nil {
		return nil, err
	}
	return c.formOf(g)
}

// referred is the schema that a reference names. A $dynamicRef that names a $dynamicAnchor means the outermost schema
// with this anchor, of the documents that led to it.
func (c *compiler) referred(n *schemaNode, keyword string, v *value) (goal, error) {
	if v.kind != stringValue {
		return never, fmt.Errorf("it is not a text")
	}
	r, err := c.doc.find(v.text, n.base)
	if err != nil {
		return never, err
	}
	if _, anchor, _ := strings.Cut(v.text, "#"); keyword == "$dynamicRef" && r.dynamic {
		r = n.scope.outermost(anchor, r)
	}
	return c.schema(r.v, r.path, r.base, n.scope), nil
}
