package schema

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/quire/quire/grammar/automaton"
	"github.com/quire/quire/grammar/regex"
)

func (c *compiler) onlyNumbers(e automaton.Expr) *form {
	f := c.everything()
	f.number = e
	return f
}

func (c *compiler) onlyTexts(e automaton.Expr) *form {
	f := c.everything()
	f.text = e
	return f
}

// propertiesForm is properties, patternProperties and additionalProperties of one schema.
func (c *compiler) propertiesForm(n *schemaNode, _ string, _ *value) (*form, error) {
	o := c.anyObject()
	if patterns := n.v.get("patternProperties"); patterns != nil {
		if patterns.kind != objectValue {
			return nil, n.refuse("patternProperties", fmt.Errorf("it is not an object"))
		}
		for i, pattern := range patterns.names {
			names, err := regex.Search(c.b, pattern, c.parts.Characters, c.parts.Plain)
			if err != nil {
				return nil, n.refuse("patternProperties", err)
			}
			c.split(o, names, c.sub(n, patterns.list[i], "patternProperties", pattern))
			if len(o.regions) > maxRegions {
				err = fmt.Errorf("patterns overlap in more than %d ways", maxRegions)
				return nil, n.refuse("patternProperties", err)
			}
		}
	}
	matched := slices.Clone(o.regions) // the first is what no pattern matches
	if a := n.v.get("additionalProperties"); a != nil {
		o.regions[0].goal, o.regions[0].open = c.sub(n, a, "additionalProperties"), c.Closed
	}
	o.lists = c.Closed && (n.v.has("properties") || n.v.has("patternProperties"))
	if props := n.v.get("properties"); props != nil {
		if props.kind != objectValue {
			return nil, n.refuse("properties", fmt.Errorf("it is not an object"))
		}
		for i, name := range props.names {
			g := c.sub(n, props.list[i], "properties", name)
			for _, r := range matched[1:] {
				if c.b.Matches(r.names, c.parts.Spelled(name)) {
					g = c.all(g, r.goal)
				}
			}
			o.props = append(o.props, property{name, g})
		}
	}
	if !slices.ContainsFunc(o.regions[:1], func(r region) bool { return r.names != automaton.Fail }) {
		o.regions = o.regions[1:]
	}
	return c.otherThanObjects(o), nil
}

// split gives names of a set a goal, which others do not have. The first region stays that of names without any.
func (c *compiler) split(o *object, names automaton.Expr, g goal) {
	var regions []region
	for i, r := range o.regions {
		in := c.andRegular(r.names, names, c.parts.Free)
		out := automaton.Fail
		if r.names != automaton.Fail {
			out = c.andRegular(r.names, c.notRegular(names, c.parts.Free, c.parts.Plain), c.parts.Free)
		}
		if i == 0 || out != automaton.Fail {
			regions = append(regions, region{out, r.goal, r.open})
		}
		if in != automaton.Fail {
			regions = append(regions, region{in, c.all(r.goal, g), c.Closed})
		}
	}
	o.regions = regions
}

func (c *compiler) requiredForm(_ *schemaNode, _ string, v *value) (*form, error) {
	if v.kind == boolValue {
		return nil, fmt.Errorf("it is true or false, as in draft 3: name the property in its object's list")
	}
	if v.kind != arrayValue {
		return nil, fmt.Errorf("it is not a list")
	}
	o := c.anyObject()
	for _, name := range v.list {
		if name.kind != stringValue {
			return nil, fmt.Errorf("it is not a list of names")
		}
		if !slices.Contains(o.required, name.text) {
			o.required = append(o.required, name.text)
		}
	}
	return c.otherThanObjects(o), nil
}

// count reads a number of items, characters or properties.
func count(v *value) (int, error) {
	d, err := parseDecimal(v.text)
	if v.kind != numberValue || err != nil || d.negative || d.fraction != "" {
		return 0, fmt.Errorf("it is not a number of 0 or more")
	}
	n, err := strconv.Atoi(d.whole)
	if err != nil || n > 1<<30 {
		return 1 << 30, nil
	}
	return n, nil
}

func (c *compiler) countForm(_ *schemaNode, name string, v *value) (*form, error) {
	n, err := count(v)
	if err != nil {
		return nil, err
	}
	a, o := anyArray(), c.anyObject()
	switch name {
	case "minItems":
		a.min = n
	case "maxItems":
		a.max = n
	case "minProperties":
		o.min = n
	case "maxProperties":
		o.max = n
	}
	f := c.otherThanArrays(a)
	f.objects = []*object{o}
	return f, nil
}

func (c *compiler) namesForm(n *schemaNode, name string, v *value) (*form, error) {
	f, err := c.formOf(c.sub(n, v, name))
	if err != nil {
		return nil, err
	}
	o := c.anyObject()
	if f.text != c.parts.Free {
		o.regions = []region{{names: f.text, goal: always},
			{names: c.notRegular(f.text, c.parts.Free, c.parts.Plain), goal: never}}
		o.regions = slices.DeleteFunc(o.regions, func(r region) bool { return r.names == automaton.Fail })
	}
	return c.otherThanObjects(o), nil
}

// itemsForm is items, prefixItems and additionalItems of one schema. Where items is a list it is what prefixItems is
// now, and additionalItems what items is.
func (c *compiler) itemsForm(n *schemaNode, _ string, _ *value) (*form, error) {
	a := anyArray()
	items, rest := n.v.get("prefixItems"), n.v.get("items")
	first, behind := "prefixItems", "items"
	if c.doc.old {
		items = nil
	}
	if rest != nil && rest.kind == arrayValue {
		items, rest = rest, n.v.get("additionalItems")
		first, behind = "items", "additionalItems"
	}
	if items != nil {
		list, err := c.list(n, first, items)
		if err != nil {
			return nil, n.refuse(first, err)
		}
		a.first = list
	}
	if rest != nil {
		a.rest, a.open = c.sub(n, rest, behind), c.Closed
	}
	a.lists = c.Closed && items != nil
	return c.otherThanArrays(a), nil
}

func (c *compiler) uniqueForm(_ *schemaNode, _ string, v *value) (*form, error) {
	if v.kind != boolValue {
		return nil, fmt.Errorf("it is neither true nor false")
	}
	a := anyArray()
	a.distinct = v.yes
	return c.otherThanArrays(a), nil
}

// containsForm is contains, minContains and maxContains of one schema.
func (c *compiler) containsForm(of *schemaNode, name string, v *value) (*form, error) {
	s := someItems{goal: c.sub(of, v, name), min: 1, max: automaton.Unlimited}
	for i, to := range []*int{&s.min, &s.max} {
		keyword := []string{"minContains", "maxContains"}[i]
		if v := of.v.get(keyword); v != nil && !c.doc.old {
			n, err := count(v)
			if err != nil {
				return nil, of.refuse(keyword, err)
			}
			*to = n
		}
	}
	if s.min == 0 && s.max == automaton.Unlimited {
		return nil, nil
	}
	a := anyArray()
	a.some = []someItems{s}
	return c.otherThanArrays(a), nil
}

func (c *compiler) lengthForm(n *schemaNode, _ string, _ *value) (*form, error) {
	lo, hi := 0, automaton.Unlimited
	var err error
	if v := n.v.get("minLength"); v != nil {
		if lo, err = count(v); err != nil {
			return nil, n.refuse("minLength", err)
		}
	}
	if v := n.v.get("maxLength"); v != nil {
		if hi, err = count(v); err != nil {
			return nil, n.refuse("maxLength", err)
		}
	}
	if lo == 0 && hi == automaton.Unlimited {
		return nil, nil
	}
	return c.onlyTexts(c.ofLength(lo, hi)), nil
}

// ofLength is the texts of so many characters.
func (c *compiler) ofLength(lo, hi int) automaton.Expr {
	e := c.b.Repeat(c.parts.PlainChar, lo, hi)
	c.lengths[e] = [2]int{lo, hi}
	return e
}

func (c *compiler) patternForm(_ *schemaNode, _ string, v *value) (*form, error) {
	if v.kind != stringValue {
		return nil, fmt.Errorf("it is not a text")
	}
	e, err := regex.Search(c.b, v.text, c.parts.Characters, c.parts.Plain)
	if err != nil {
		return nil, err
	}
	return c.onlyTexts(e), nil
}

func (c *compiler) boundForm(n *schemaNode, name string, v *value) (*form, error) {
	above := name == "minimum" || name == "exclusiveMinimum"
	exclusive := name == "exclusiveMinimum" || name == "exclusiveMaximum"
	if v.kind == boolValue && exclusive { // of draft 4: it changes minimum or maximum
		return nil, nil
	}
	if v.kind != numberValue {
		return nil, fmt.Errorf("it is not a number")
	}
	if flag := n.v.get("exclusive" + string(name[0]-'a'+'A') + name[1:]); !exclusive && flag != nil {
		exclusive = flag.kind == boolValue && flag.yes
	}
	d, err := parseDecimal(v.text)
	if err != nil {
		return nil, err
	}
	return c.onlyNumbers(c.bound(d, above, !exclusive)), nil
}

func (c *compiler) multipleForm(_ *schemaNode, _ string, v *value) (*form, error) {
	d, err := parseDecimal(v.text)
	if v.kind != numberValue || err != nil {
		return nil, fmt.Errorf("it is not a number that is supported")
	}
	e, err := c.multiple(d)
	if err != nil {
		return nil, err
	}
	return c.onlyNumbers(e), nil
}
