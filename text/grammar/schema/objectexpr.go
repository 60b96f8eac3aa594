package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// objectCompiler makes the expressions of sets of objects.
type objectCompiler struct {
	b        *automaton.Builder
	parts    *jsontext.Parts
	goals    *goals
	objects  *objects
	sets     *regularSets
	anyOrder bool
	empty    func(goal) (bool, error)           // whether a goal is known to allow no value
	expr     func(goal) (automaton.Expr, error) // the expression of a goal
}

// compile returns the expression of a set of objects.
func (c *objectCompiler) compile(o *object) (automaton.Expr, error) {
	if c.objects.isAny(o) && len(o.props) == 0 {
		return c.parts.AnyObject(), nil
	}
	o, err := c.close(o)
	if err != nil {
		return 0, err
	}
	w := &wanted{b: c.b, goals: c.goals, expr: c.expr, closing: map[int]int{}}
	for _, s := range o.some {
		w.add(s.goal, 1, automaton.Unlimited)
	}
	m := automaton.Members{Min: o.min, Max: o.max}
	if c.anyOrder {
		m.Order = automaton.AnyOrder
	}
	full := *o
	full.index = nil
	for _, name := range o.required {
		if o.find(name) < 0 {
			full.props = append(slices.Clip(full.props), property{name, c.objects.goalFor(o, name)})
		}
	}
	for _, p := range full.props {
		required := slices.Contains(o.required, p.name)
		if p.goal == never && !required {
			continue
		}
		name := c.b.Seq(c.b.Text(`"`+c.parts.Spelled(p.name)+`"`), c.parts.Colon)
		list, err := w.variants(p.goal, name, func(i int) bool { return c.objects.hasName(o.some[i], p.name) })
		if err != nil {
			return 0, err
		}
		m.List = append(m.List, automaton.Member{Variants: list, Required: required})
	}
	for _, r := range c.objects.unlisted(&full) {
		if r.goal == never {
			continue
		}
		if len(o.some) == 0 {
			e, err := c.expr(r.goal)
			if err != nil {
				return 0, err
			}
			m.More = append(m.More, automaton.Variant{Text: c.b.Seq(c.parts.Quoted(r.names), c.parts.Colon, e)})
			continue
		}
		list, err := c.wantedOf(w, r, o.some)
		if err != nil {
			return 0, err
		}
		m.More = append(m.More, list...)
	}
	m.Counters = w.counters
	if len(m.More) > 0 && o.min > len(o.required)+1 {
		if err := c.apartNames(&m, o, c.objects.unlisted(&full)); err != nil {
			return 0, err
		}
	}
	if len(m.Counters) == 0 && len(m.More) > 1 { // one text for all needs fewer states
		var texts []automaton.Expr
		for _, v := range m.More {
			texts = append(texts, v.Text)
		}
		m.More = automaton.One(c.b.Alt(texts...))
	}
	return c.parts.Object(m), nil
}

// mostApart bounds how many unlisted properties minProperties may require.
const mostApart = 4

// initials are the first characters of each kind of names: two letters in both cases, or the digits. All other names
// are one more kind.
var initials = func() (kinds [][]rune) {
	for lo := 'a'; lo < 'z'; lo += 2 {
		kinds = append(kinds, []rune{lo, lo + 1, lo + 'A' - 'a', lo + 'A' - 'a' + 1})
	}
	return append(kinds, []rune{'0', '9'})
}()

// apartNames makes minProperties count the unlisted members by the kinds of their names: names of different kinds are
// different, and names of the same kind may be equal.
func (c *objectCompiler) apartNames(m *automaton.Members, o *object, regions []region) error {
	refuse := func(why string) error {
		return fmt.Errorf("minProperties is not supported if it requires unlisted properties and %s", why)
	}
	switch {
	case o.max != automaton.Unlimited:
		return refuse("maxProperties bounds them")
	case len(o.some) > 0:
		return refuse("some of them must have certain values")
	case o.min-len(o.required) > mostApart:
		return refuse(fmt.Sprintf("for more than %d of them", mostApart))
	}
	var kinds []automaton.Expr
	others := c.parts.Plain
	for _, runes := range initials {
		kind := c.b.Seq(c.parts.Characters(runes...), c.parts.Plain)
		kinds, others = append(kinds, kind), c.b.And(others, c.b.Not(kind))
	}
	m.More, m.Fresh = nil, true
	possible := 0
	for i, kind := range append(kinds, others) {
		m.Counters = append(m.Counters, automaton.Counter{Max: automaton.Unlimited})
		before := len(m.More)
		for _, r := range regions {
			names := c.sets.intersect(r.names, kind, c.parts.Free)
			if r.goal == never || names == automaton.Fail {
				continue
			}
			e, err := c.expr(r.goal)
			if err != nil {
				return err
			}
			text := c.b.Seq(c.parts.Quoted(names), c.parts.Colon, e)
			m.More = append(m.More, automaton.Variant{Text: text, Counts: 1 << i})
		}
		if len(m.More) > before {
			possible++
		}
	}
	if possible+len(m.List) < o.min {
		return refuse("all their names begin alike")
	}
	return nil
}

// wantedOf returns the variants of members of a region. It separates names by which of the wanted members they can be.
// A name may come twice, and the last member counts: after a member that is wanted there is none that has such a name
// and a different value.
func (c *objectCompiler) wantedOf(w *wanted, r region, some []region) ([]automaton.Variant, error) {
	type part struct {
		names    automaton.Expr
		inRegion []bool
	}
	parts := []part{{r.names, make([]bool, len(some))}}
	for i, s := range some {
		var next []part
		for _, p := range parts {
			if in := c.sets.intersect(p.names, s.names, c.parts.Free); in != automaton.Fail {
				inRegion := slices.Clone(p.inRegion)
				inRegion[i] = true
				next = append(next, part{in, inRegion})
			}
			out := c.sets.complement(s.names, c.parts.Free, c.parts.Plain)
			if out = c.sets.intersect(p.names, out, c.parts.Free); out != automaton.Fail {
				next = append(next, part{out, p.inRegion})
			}
		}
		if parts = next; len(parts) > maxRegions {
			return nil, fmt.Errorf("patterns of property names overlap in more than %d ways", maxRegions)
		}
	}
	var list []automaton.Variant
	for _, p := range parts {
		name := c.b.Seq(c.parts.Quoted(p.names), c.parts.Colon)
		some, err := w.variants(r.goal, name, func(i int) bool { return p.inRegion[i] })
		if err != nil {
			return nil, err
		}
		w.last(some)
		list = append(list, some...)
	}
	return list, nil
}

// close removes the members that the schema does not mention, if the schema lists members and objects are closed. It
// keeps them if an unlisted member is required.
func (c *objectCompiler) close(o *object) (*object, error) {
	if !o.lists || len(o.some) > 0 {
		return o, nil
	}
	closed := *o
	closed.regions = slices.Clone(o.regions)
	more := false // any number of unlisted names is allowed
	for i, r := range o.regions {
		if !r.open {
			closed.regions[i].goal = never
		}
		more = more || closed.regions[i].goal != never
	}
	listed := 0
	for _, p := range o.props {
		isEmpty, err := c.empty(p.goal)
		if err != nil {
			return nil, err
		}
		if !isEmpty {
			listed++
		}
	}
	for _, name := range o.required {
		if o.find(name) < 0 {
			listed++
			closed.props = append(slices.Clip(closed.props), property{name, c.objects.goalFor(o, name)})
		}
	}
	if closed.index = nil; !more && listed < o.min {
		return o, nil
	}
	return &closed, nil
}
