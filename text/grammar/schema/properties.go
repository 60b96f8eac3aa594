package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
	"github.com/quire/quire/text/grammar/regex"
)

// objectReader reads the keywords of objects.
type objectReader struct {
	b      *automaton.Builder
	parts  *jsontext.Parts
	goals  *goals
	forms  *forms
	sets   *regularSets
	closed bool
}

// properties reads properties, patternProperties and additionalProperties of one schema.
func (c *objectReader) properties(u use) (*form, error) {
	o := anyObject(c.parts)
	if patterns := u.node.v.get("patternProperties"); patterns != nil {
		if patterns.kind != objectValue {
			return nil, u.node.refuse("patternProperties", fmt.Errorf("it is not an object"))
		}
		for i, pattern := range patterns.names {
			names, err := regex.Search(c.b, pattern, c.parts.Characters, c.parts.Plain)
			if err != nil {
				return nil, u.node.refuse("patternProperties", err)
			}
			c.split(o, names, c.goals.sub(u.node, patterns.list[i], "patternProperties", pattern))
			if len(o.regions) > maxRegions {
				err = fmt.Errorf("patterns overlap in more than %d ways", maxRegions)
				return nil, u.node.refuse("patternProperties", err)
			}
		}
	}
	matched := slices.Clone(o.regions) // the first has the names that no pattern matches
	if a := u.node.v.get("additionalProperties"); a != nil {
		o.regions[0].goal, o.regions[0].open = c.goals.sub(u.node, a, "additionalProperties"), c.closed
	}
	o.lists = c.closed && (u.node.v.has("properties") || u.node.v.has("patternProperties"))
	if props := u.node.v.get("properties"); props != nil {
		if props.kind != objectValue {
			return nil, u.node.refuse("properties", fmt.Errorf("it is not an object"))
		}
		for i, name := range props.names {
			g := c.goals.sub(u.node, props.list[i], "properties", name)
			for _, r := range matched[1:] {
				if c.b.Matches(r.names, c.parts.Spelled(name)) {
					g = c.goals.all(g, r.goal)
				}
			}
			o.props = append(o.props, property{name, g})
		}
	}
	if !slices.ContainsFunc(o.regions[:1], func(r region) bool { return r.names != automaton.Fail }) {
		o.regions = o.regions[1:]
	}
	return onlyObjects(c.parts, o), nil
}

// split adds a goal to the names of a set. The first region remains the names without any added goal.
func (c *objectReader) split(o *object, names automaton.Expr, g goal) {
	var regions []region
	for i, r := range o.regions {
		in := c.sets.intersect(r.names, names, c.parts.Free)
		out := automaton.Fail
		if r.names != automaton.Fail {
			out = c.sets.intersect(r.names, c.sets.complement(names, c.parts.Free, c.parts.Plain), c.parts.Free)
		}
		if i == 0 || out != automaton.Fail {
			regions = append(regions, region{out, r.goal, r.open})
		}
		if in != automaton.Fail {
			regions = append(regions, region{in, c.goals.all(r.goal, g), c.closed})
		}
	}
	o.regions = regions
}

func (c *objectReader) required(u use) (*form, error) {
	if u.value.kind == boolValue {
		return nil, fmt.Errorf("it is true or false, as in draft 3: name the property in its object's list")
	}
	if u.value.kind != arrayValue {
		return nil, fmt.Errorf("it is not a list")
	}
	o := anyObject(c.parts)
	for _, name := range u.value.list {
		if name.kind != stringValue {
			return nil, fmt.Errorf("it is not a list of names")
		}
		if !slices.Contains(o.required, name.text) {
			o.required = append(o.required, name.text)
		}
	}
	return onlyObjects(c.parts, o), nil
}

func (c *objectReader) propertyNames(u use) (*form, error) {
	f, err := c.forms.formOf(c.goals.sub(u.node, u.value, u.keyword))
	if err != nil {
		return nil, err
	}
	o := anyObject(c.parts)
	if f.text != c.parts.Free {
		o.regions = []region{{names: f.text, goal: always},
			{names: c.sets.complement(f.text, c.parts.Free, c.parts.Plain), goal: never}}
		o.regions = slices.DeleteFunc(o.regions, func(r region) bool { return r.names == automaton.Fail })
	}
	return onlyObjects(c.parts, o), nil
}

// dependencies reads dependentRequired, dependentSchemas, and dependencies, which is either: if a member is present,
// others are required or a schema applies.
func (c *objectReader) dependencies(u use) (*form, error) {
	if u.value.kind != objectValue {
		return nil, fmt.Errorf("it is not an object")
	}
	f := everything(c.parts)
	for i, name := range u.value.names {
		absent := anyObject(c.parts)
		absent.props = []property{{name, never}}
		there := anyObject(c.parts)
		there.required = []string{name}
		to := u.value.list[i]
		var held *form
		switch {
		case to.kind == arrayValue && u.keyword != "dependentSchemas", to.kind == stringValue && c.goals.doc.old:
			if to.kind == stringValue {
				to = &value{kind: arrayValue, list: []*value{to}}
			}
			for _, other := range to.list {
				if !slices.Contains(there.required, other.text) {
					there.required = append(there.required, other.text)
				}
			}
			held = onlyObjects(c.parts, there)
		default:
			sub, err := c.forms.formOf(c.goals.sub(u.node, to, u.keyword, name))
			if err != nil {
				return nil, err
			}
			// The schema does not apply to other types.
			if held, err = c.forms.and(onlyObjects(c.parts, there), onlyObjects(c.parts, sub.objects...)); err != nil {
				return nil, err
			}
		}
		g := onlyObjects(c.parts, append([]*object{absent}, held.objects...)...)
		var err error
		if f, err = c.forms.and(f, g); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// bounds reads minProperties or maxProperties.
func (c *objectReader) bounds(u use) (*form, error) {
	n, err := count(u.value)
	if err != nil {
		return nil, err
	}
	o := anyObject(c.parts)
	if u.keyword == "minProperties" {
		o.min = n
	} else {
		o.max = n
	}
	return onlyObjects(c.parts, o), nil
}
