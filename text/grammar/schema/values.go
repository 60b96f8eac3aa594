package schema

import (
	"fmt"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// valueReader reads the keywords that name types and values.
type valueReader struct {
	b     *automaton.Builder
	parts *jsontext.Parts
	goals *goals
	sets  *regularSets
}

func (c *valueReader) types(u use) (*form, error) {
	list := []*value{u.value}
	if u.value.kind == arrayValue {
		list = u.value.list
	}
	f := &form{}
	for _, t := range list {
		switch t.text {
		case "null":
			f.null = true
		case "boolean":
			f.yes, f.no = true, true
		case "integer":
			f.number = c.sets.unite(f.number, c.sets.decimals.integers, c.parts.Number)
		case "number":
			f.number = c.parts.Number
		case "string":
			f.text = c.parts.Free
		case "array":
			f.arrays = []*array{anyArray()}
		case "object":
			f.objects = []*object{anyObject(c.parts)}
		case "any":
			if c.goals.doc.old {
				return nil, nil
			}
			fallthrough
		default:
			return nil, fmt.Errorf("there is no type %q", t.text)
		}
	}
	return f, nil
}

func (c *valueReader) constant(u use) (*form, error) {
	return c.allow([]*value{u.value})
}

func (c *valueReader) enum(u use) (*form, error) {
	if u.value.kind != arrayValue {
		return nil, fmt.Errorf("it is not a list")
	}
	return c.allow(u.value.list)
}

// allow allows some values.
func (c *valueReader) allow(list []*value) (*form, error) {
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
				a.first = append(a.first, c.goals.constant(item))
			}
			f.arrays = append(f.arrays, a)
		case objectValue:
			o := &object{max: automaton.Unlimited, required: v.names,
				regions: []region{{names: c.parts.Free, goal: never}}}
			for i, name := range v.names {
				o.props = append(o.props, property{name, c.goals.constant(v.list[i])})
			}
			f.objects = append(f.objects, o)
		}
	}
	f.text, f.number = c.b.Choice(texts...), c.b.Choice(numbers...)
	if len(numbers) > 0 {
		c.sets.spelled[f.number] = true
	}
	return f, nil
}
