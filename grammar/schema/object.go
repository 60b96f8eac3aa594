package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/grammar/automaton"
)

// object is a set of objects: what values the members of each name may have, and which must be there.
type object struct {
	props    []property // those of names that are listed, in their order
	index    map[string]int
	required []string
	regions  []region // the other names
	min, max int
}

type property struct {
	name string
	goal goal
}

// region is a set of names, by their contents as strings, and what their values must be. The regions of an object have
// every name once. Of those that are listed as properties they are not asked.
type region struct {
	names automaton.Expr // Parts.Free where all are
	goal  goal
}

const maxRegions = 200

func (c *compiler) anyObject() *object {
	return &object{regions: []region{{c.parts.Free, always}}, max: automaton.Unlimited}
}

func (o *object) find(name string) int {
	if len(o.props) < 8 {
		return slices.IndexFunc(o.props, func(p property) bool { return p.name == name })
	}
	if o.index == nil {
		o.index = make(map[string]int, len(o.props))
		for i, p := range o.props {
			o.index[p.name] = i
		}
	}
	if i, ok := o.index[name]; ok {
		return i
	}
	return -1
}

// goalFor is what the value of a member must be.
func (c *compiler) goalFor(o *object, name string) goal {
	if i := o.find(name); i >= 0 {
		return o.props[i].goal
	}
	for _, r := range o.regions {
		if r.names == c.parts.Free || c.b.Matches(r.names, c.parts.Spelled(name)) {
			return r.goal
		}
	}
	return never
}

// isAny says that a set has all objects.
func (c *compiler) isAny(o *object) bool {
	return len(o.required) == 0 && o.min == 0 && o.max == automaton.Unlimited && c.allowsAny(o) &&
		!slices.ContainsFunc(o.props, func(p property) bool { return p.goal != always })
}

// allowsAny says that members that are not listed may be anything.
func (c *compiler) allowsAny(o *object) bool {
	return len(o.regions) == 1 && o.regions[0] == region{c.parts.Free, always}
}

// andObject is what both have, nil where that is nothing.
func (c *compiler) andObject(x, y *object) (*object, error) {
	if c.isAny(x) && len(x.props) == 0 {
		return y, nil
	}
	if c.isAny(y) && len(y.props) == 0 {
		return x, nil
	}
	o := &object{min: max(x.min, y.min), max: lower(x.max, y.max)}
	for _, p := range x.props {
		o.props = append(o.props, property{p.name, c.all(p.goal, c.goalFor(y, p.name))})
	}
	for _, p := range y.props {
		if x.find(p.name) < 0 {
			o.props = append(o.props, property{p.name, c.all(c.goalFor(x, p.name), p.goal)})
		}
	}
	o.required = slices.Clone(x.required)
	for _, name := range y.required {
		if !slices.Contains(x.required, name) {
			o.required = append(o.required, name)
		}
	}
	for _, r := range x.regions {
		for _, s := range y.regions {
			if names := c.andRegular(r.names, s.names, c.parts.Free); names != automaton.Fail {
				o.regions = append(o.regions, region{names, c.all(r.goal, s.goal)})
			}
		}
	}
	if len(o.regions) > maxRegions {
		return nil, fmt.Errorf("patterns of property names overlap in more than %d ways", maxRegions)
	}
	if o.max != automaton.Unlimited && (o.max < o.min || o.max < len(o.required)) {
		return nil, nil
	}
	for _, name := range o.required {
		if c.goalFor(o, name) == never {
			return nil, nil
		}
	}
	return o, nil
}

// lower is the smaller of two bounds, of which any may be Unlimited.
func lower(x, y int) int {
	if x == automaton.Unlimited || y != automaton.Unlimited && y < x {
		return y
	}
	return x
}

func (c *compiler) joinObjects(x, y []*object) []*object {
	all := slices.Clone(x)
	for _, o := range y {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	for _, o := range all {
		if c.isAny(o) && len(o.props) == 0 {
			return []*object{o}
		}
	}
	return all
}

// notObject is the objects that are not of a set.
func (c *compiler) notObject(o *object) ([]*object, error) {
	var not []*object
	add := func(change func(*object)) {
		n := c.anyObject()
		change(n)
		not = append(not, n)
	}
	for _, name := range o.required {
		add(func(n *object) { n.props = []property{{name, never}} })
	}
	for _, p := range o.props {
		if p.goal != always {
			add(func(n *object) {
				n.props, n.required = []property{{p.name, c.not(p.goal)}}, []string{p.name}
			})
		}
	}
	for _, r := range o.regions {
		if r.goal != always {
			return nil, fmt.Errorf("the complement of additionalProperties, patternProperties and propertyNames " +
				"is not supported")
		}
	}
	if o.min > 0 {
		add(func(n *object) { n.max = o.min - 1 })
	}
	if o.max != automaton.Unlimited {
		add(func(n *object) { n.min = o.max + 1 })
	}
	return not, nil
}

// emptyObject says that there is no such object, as far as that shows.
func (c *compiler) emptyObject(o *object) (bool, error) {
	if o.max != automaton.Unlimited && (o.max < o.min || o.max < len(o.required)) {
		return true, nil
	}
	for _, name := range o.required {
		if is, err := c.empty(c.goalFor(o, name)); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// apartObjects says that no object is in both sets, as far as that shows.
func (c *compiler) apartObjects(x, y *object) (bool, error) {
	least := max(x.min, y.min, len(x.required), len(y.required))
	if hi := lower(x.max, y.max); hi != automaton.Unlimited && hi < least {
		return true, nil
	}
	for _, name := range append(slices.Clone(x.required), y.required...) {
		if is, err := c.empty(c.all(c.goalFor(x, name), c.goalFor(y, name))); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// objectExpr compiles a set of objects.
func (c *compiler) objectExpr(o *object) (automaton.Expr, error) {
	if c.isAny(o) && len(o.props) == 0 {
		return c.parts.AnyObject(), nil
	}
	m := automaton.Members{Min: o.min, Max: o.max, AnyOrder: c.anyOrder}
	props := slices.Clone(o.props)
	for _, name := range o.required {
		if o.find(name) < 0 {
			props = append(props, property{name, c.goalFor(o, name)})
		}
	}
	var names []string
	for _, p := range props {
		spelled := c.parts.Spelled(p.name)
		names = append(names, spelled)
		required := slices.Contains(o.required, p.name)
		if p.goal == never && !required {
			continue
		}
		e, err := c.expr(p.goal)
		if err != nil {
			return 0, err
		}
		text := c.b.Seq(c.b.Text(`"`+spelled+`"`), c.parts.Colon, e)
		m.List = append(m.List, automaton.Member{Text: text, Required: required})
	}
	var more []automaton.Expr
	for _, r := range o.regions {
		if r.goal == never {
			continue
		}
		of := r.names
		if len(names) > 0 {
			if of == c.parts.Free {
				of = c.parts.Plain
			}
			of = c.b.And(of, c.b.Not(c.b.Choice(names...)))
		}
		if c.b.EmptyRegular(of) {
			continue
		}
		e, err := c.expr(r.goal)
		if err != nil {
			return 0, err
		}
		more = append(more, c.b.Seq(c.parts.Quoted(of), c.parts.Colon, e))
	}
	m.More = c.b.Alt(more...)
	if m.More != automaton.Fail && o.min > len(o.required)+1 {
		return 0, fmt.Errorf("minProperties is not supported where it asks for two properties that have no " +
			"schema of their own: they might have one name")
	}
	return c.parts.Object(m), nil
}
