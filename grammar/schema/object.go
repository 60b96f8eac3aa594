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
	some     []region // each of a member that must be there: of some such name, with such a value
	min, max int
	lists    bool // a keyword lists names that may come: where objects are closed, there are no others
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
	open  bool // a keyword speaks of these names: they may come where objects are closed, too
}

const maxRegions = 200

func (c *compiler) anyObject() *object {
	return &object{regions: []region{{names: c.parts.Free, goal: always}}, max: automaton.Unlimited}
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
		if c.hasName(r, name) {
			return r.goal
		}
	}
	return never
}

// isAny says that a set has all objects.
func (c *compiler) isAny(o *object) bool {
	return !o.lists && len(o.required) == 0 && o.min == 0 && o.max == automaton.Unlimited && len(o.some) == 0 &&
		c.allowsAny(o) &&
		!slices.ContainsFunc(o.props, func(p property) bool { return p.goal != always })
}

// allowsAny says that members that are not listed may be anything.
func (c *compiler) allowsAny(o *object) bool {
	return len(o.regions) == 1 && o.regions[0] == region{names: c.parts.Free, goal: always}
}

// andObject is what both have, nil where that is nothing.
func (c *compiler) andObject(x, y *object) (*object, error) {
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
				o.regions = append(o.regions, region{names, c.all(r.goal, s.goal), r.open || s.open})
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
	for _, r := range c.unlisted(o) {
		if r.goal != always {
			add(func(n *object) { n.some = []region{{names: r.names, goal: c.not(r.goal)}} })
		}
	}
	for _, s := range o.some {
		add(func(n *object) {
			n.regions = []region{{names: s.names, goal: c.not(s.goal)}}
			if others := c.notRegular(s.names, c.parts.Free, c.parts.Plain); others != automaton.Fail {
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

// unlisted is the regions of an object without the names that are listed.
func (c *compiler) unlisted(o *object) []region {
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

// hasName says that a name is one of those of a region.
func (c *compiler) hasName(r region, name string) bool {
	return r.names == c.parts.Free || c.b.Matches(r.names, c.parts.Spelled(name))
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
	for _, s := range o.some {
		if can, err := c.canHave(o, s); !can || err != nil {
			return !can, err
		}
	}
	return false, nil
}

// fewCases is how many combinations of alternatives are made without looking whether one is part of another.
const fewCases = 16

// apportion returns the sets of a list that are not part of one of others, and those that are. Where both lists are
// short it does not look.
func (c *compiler) apportion(list, others []*object) (apart, within []*object) {
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

// within says that a set is part of another, which lists no names that it does not list, as far as that shows.
func (c *compiler) within(x, y *object) bool {
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
			if !c.implies(r.goal, s.goal) && c.andRegular(r.names, s.names, c.parts.Free) != automaton.Fail {
				return false
			}
		}
	}
	return true
}

// implies says that what a goal allows another one does too, as far as that shows.
func (c *compiler) implies(g, h goal) bool {
	if g == h || g == never || h == always {
		return true
	}
	before := c.implying
	c.implying = true
	is, err := c.empty(c.all(g, c.not(h)))
	c.implying = before
	return is && err == nil
}

// canHave says that an object may have a member that must be there.
func (c *compiler) canHave(o *object, some region) (bool, error) {
	for _, p := range o.props {
		if !c.hasName(some, p.name) {
			continue
		}
		if is, err := c.empty(c.all(p.goal, some.goal)); !is || err != nil {
			return true, err
		}
	}
	for _, r := range c.unlisted(o) {
		if c.andRegular(r.names, some.names, c.parts.Free) == automaton.Fail {
			continue
		}
		if is, err := c.empty(c.all(r.goal, some.goal)); !is || err != nil {
			return true, err
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
