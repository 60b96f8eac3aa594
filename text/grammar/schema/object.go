package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// objects is the algebra of sets of objects.
type objects struct {
	b     *automaton.Builder
	parts *jsontext.Parts
	goals *goals
	sets  *regularSets
	empty func(goal) (bool, error) // whether a goal is known to allow no value

	steps int // the work of combining objects: see maxSteps
	// implying is set while implies asks whether a goal is empty: the answer is only an optimization, so that the
	// search must not start further ones.
	implying bool
}

const maxRegions = 200

// goalFor returns the goal of the value of a member.
func (c *objects) goalFor(o *object, name string) goal {
	if i := o.find(name); i >= 0 {
		return o.props[i].goal
	}
	for _, r := range o.regions {
		if c.hasName(r, name) {
			return r.goal
		}
	}
	return never
}

// isAny reports whether a set has all objects.
func (c *objects) isAny(o *object) bool {
	return !o.lists && len(o.required) == 0 && o.min == 0 && o.max == automaton.Unlimited && len(o.some) == 0 &&
		c.allowsAny(o) &&
		!slices.ContainsFunc(o.props, func(p property) bool { return p.goal != always })
}

// allowsAny reports whether unlisted members may have any value.
func (c *objects) allowsAny(o *object) bool {
	return len(o.regions) == 1 && o.regions[0] == region{names: c.parts.Free, goal: always}
}

// and is the objects that are in both sets. It is nil if there are none.
func (c *objects) and(x, y *object) (*object, error) {
	if c.isAny(x) && len(x.props) == 0 {
		return y, nil
	}
	if c.isAny(y) && len(y.props) == 0 {
		return x, nil
	}
	c.steps += (len(x.props) + len(y.props)) / 16
	o := &object{min: max(x.min, y.min), max: lower(x.max, y.max), some: unique(slices.Concat(x.some, y.some)),
		lists: x.lists || y.lists}
	for _, p := range x.props {
		o.props = append(o.props, property{p.name, c.goals.all(p.goal, c.goalFor(y, p.name))})
	}
	for _, p := range y.props {
		if x.find(p.name) < 0 {
			o.props = append(o.props, property{p.name, c.goals.all(c.goalFor(x, p.name), p.goal)})
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
			if names := c.sets.intersect(r.names, s.names, c.parts.Free); names != automaton.Fail {
				o.regions = append(o.regions, region{names, c.goals.all(r.goal, s.goal), r.open || s.open})
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

// join is the union of two unions.
func (c *objects) join(x, y []*object) []*object {
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

// not is the objects that are not in a set.
func (c *objects) not(o *object) ([]*object, error) {
	var not []*object
	add := func(change func(*object)) {
		n := anyObject(c.parts)
		change(n)
		not = append(not, n)
	}
	for _, name := range o.required {
		add(func(n *object) { n.props = []property{{name, never}} })
	}
	for _, p := range o.props {
		if p.goal != always {
			add(func(n *object) {
				n.props, n.required = []property{{p.name, c.goals.not(p.goal)}}, []string{p.name}
			})
		}
	}
	for _, r := range c.unlisted(o) {
		if r.goal != always {
			add(func(n *object) { n.some = []region{{names: r.names, goal: c.goals.not(r.goal)}} })
		}
	}
	for _, s := range o.some {
		add(func(n *object) {
			n.regions = []region{{names: s.names, goal: c.goals.not(s.goal)}}
			if others := c.sets.complement(s.names, c.parts.Free, c.parts.Plain); others != automaton.Fail {
				n.regions = append(n.regions, region{names: others, goal: always})
			}
		})
	}
	if o.min > 0 {
		add(func(n *object) { n.max = o.min - 1 })
	}
	if o.max != automaton.Unlimited {
		add(func(n *object) { n.min = o.max + 1 })
	}
	return not, nil
}

// unlisted returns the regions of an object without the listed names.
func (c *objects) unlisted(o *object) []region {
	if len(o.props) == 0 {
		return o.regions
	}
	var names []string
	for _, p := range o.props {
		names = append(names, c.parts.Spelled(p.name))
	}
	var regions []region
	for _, r := range o.regions {
		if r.names == c.parts.Free {
			r.names = c.parts.Plain
		}
		r.names = c.b.And(r.names, c.b.Not(c.b.Choice(names...)))
		if !c.b.EmptyRegular(r.names) {
			regions = append(regions, r)
		}
	}
	return regions
}

// hasName reports whether a region has a name.
func (c *objects) hasName(r region, name string) bool {
	return r.names == c.parts.Free || c.b.Matches(r.names, c.parts.Spelled(name))
}

// isEmpty reports whether a set is known to have no object.
func (c *objects) isEmpty(o *object) (bool, error) {
	if o.max != automaton.Unlimited && (o.max < o.min || o.max < len(o.required)) {
		return true, nil
	}
	for _, name := range o.required {
		if isEmpty, err := c.empty(c.goalFor(o, name)); isEmpty || err != nil {
			return isEmpty, err
		}
	}
	for _, s := range o.some {
		if can, err := c.canHave(o, s); !can || err != nil {
			return !can, err
		}
	}
	return false, nil
}

// fewCases is the number of combinations of alternatives up to which apportion does not look for alternatives that are
// part of another.
const fewCases = 16

// apportion separates the sets of a list that are part of one of others (within) from the rest (apart). If both lists
// are short it does not look, and all are apart.
func (c *objects) apportion(list, others []*object) (apart, within []*object) {
	if len(list)*len(others) <= fewCases || c.implying {
		return list, nil
	}
	for _, x := range list {
		if slices.ContainsFunc(others, func(y *object) bool { return c.within(x, y) }) {
			within = append(within, x)
		} else {
			apart = append(apart, x)
		}
	}
	return apart, within
}

// within reports whether a set is known to be part of another, which lists no names that the set does not list.
func (c *objects) within(x, y *object) bool {
	if x.min < y.min || lower(x.max, y.max) != x.max {
		return false
	}
	for _, name := range y.required {
		if !slices.Contains(x.required, name) {
			return false
		}
	}
	for _, s := range y.some {
		if !slices.Contains(x.some, s) {
			return false
		}
	}
	for _, p := range y.props {
		if x.find(p.name) < 0 || !c.implies(c.goalFor(x, p.name), p.goal) {
			return false
		}
	}
	if c.allowsAny(y) {
		return true
	}
	for _, p := range x.props {
		if y.find(p.name) < 0 && !c.implies(p.goal, c.goalFor(y, p.name)) {
			return false
		}
	}
	for _, r := range c.unlisted(x) {
		for _, s := range y.regions {
			if !c.implies(r.goal, s.goal) && c.sets.intersect(r.names, s.names, c.parts.Free) != automaton.Fail {
				return false
			}
		}
	}
	return true
}

// implies reports whether all that a goal allows is known to be allowed by another.
func (c *objects) implies(g, h goal) bool {
	if g == h || g == never || h == always {
		return true
	}
	before := c.implying
	c.implying = true
	isEmpty, err := c.empty(c.goals.all(g, c.goals.not(h)))
	c.implying = before
	return isEmpty && err == nil
}

// canHave reports whether objects can have a required member of some region.
func (c *objects) canHave(o *object, some region) (bool, error) {
	for _, p := range o.props {
		if !c.hasName(some, p.name) {
			continue
		}
		if isEmpty, err := c.empty(c.goals.all(p.goal, some.goal)); !isEmpty || err != nil {
			return true, err
		}
	}
	for _, r := range c.unlisted(o) {
		if c.sets.intersect(r.names, some.names, c.parts.Free) == automaton.Fail {
			continue
		}
		if isEmpty, err := c.empty(c.goals.all(r.goal, some.goal)); !isEmpty || err != nil {
			return true, err
		}
	}
	return false, nil
}

// disjoint reports whether two sets are known to have no common object.
func (c *objects) disjoint(x, y *object) (bool, error) {
	least := max(x.min, y.min, len(x.required), len(y.required))
	if hi := lower(x.max, y.max); hi != automaton.Unlimited && hi < least {
		return true, nil
	}
	for _, name := range append(slices.Clone(x.required), y.required...) {
		if isEmpty, err := c.empty(c.goals.all(c.goalFor(x, name), c.goalFor(y, name))); isEmpty || err != nil {
			return isEmpty, err
		}
	}
	return false, nil
}
