package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/grammar/automaton"
)

// maxWanted bounds how many of the members that must be there one member may be.
const maxWanted = 4

// objectExpr compiles a set of objects.
func (c *compiler) objectExpr(o *object) (automaton.Expr, error) {
	if c.isAny(o) && len(o.props) == 0 {
		return c.parts.AnyObject(), nil
	}
	o, err := c.close(o)
	if err != nil {
		return 0, err
	}
	w := &wanted{c: c, behind: map[int]int{}}
	for _, s := range o.some {
		w.add(s.goal, 1, automaton.Unlimited)
	}
	m := automaton.Members{Min: o.min, Max: o.max}
	if c.AnyOrder {
		m.Order = automaton.AnyOrder
	}
	full := *o
	full.index = nil
	for _, name := range o.required {
		if o.find(name) < 0 {
			full.props = append(slices.Clip(full.props), property{name, c.goalFor(o, name)})
		}
	}
	for _, p := range full.props {
		required := slices.Contains(o.required, p.name)
		if p.goal == never && !required {
			continue
		}
		name := c.b.Seq(c.b.Text(`"`+c.parts.Spelled(p.name)+`"`), c.parts.Colon)
		list, err := w.variants(p.goal, name, func(i int) bool { return c.hasName(o.some[i], p.name) })
		if err != nil {
			return 0, err
		}
		m.List = append(m.List, automaton.Member{Variants: list, Required: required})
	}
	for _, r := range c.unlisted(&full) {
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
		if err := c.apartNames(&m, o, c.unlisted(&full)); err != nil {
			return 0, err
		}
	}
	if len(m.Counters) == 0 && len(m.More) > 1 { // one text for all: fewer to go through
		var texts []automaton.Expr
		for _, v := range m.More {
			texts = append(texts, v.Text)
		}
		m.More = automaton.One(c.b.Alt(texts...))
	}
	return c.parts.Object(m), nil
}

// mostApart bounds how many properties that are not listed must be there.
const mostApart = 4

// initials are the characters that names of one kind begin with: pairs of letters, and digits. Names that begin
// otherwise are a kind, too.
var initials = func() (kinds [][]rune) {
	for lo := 'a'; lo < 'z'; lo += 2 {
		kinds = append(kinds, []rune{lo, lo + 1, lo + 'A' - 'a', lo + 'A' - 'a' + 1})
	}
	return append(kinds, []rune{'0', '9'})
}()

// apartNames has minProperties count members that are not listed by the kinds of their names. Names of two kinds are
// not the same, and names of one kind might be.
func (c *compiler) apartNames(m *automaton.Members, o *object, regions []region) error {
	refuse := func(why string) error {
		return fmt.Errorf("minProperties is not supported where it asks for properties that are not listed and %s", why)
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
			names := c.andRegular(r.names, kind, c.parts.Free)
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

// wantedOf is the variants of members of a region, names apart by which of the members that must be there they may be.
// A name may come twice, and the last counts: where a member's value makes it what must be there, none behind it has
// such a name and another value.
func (c *compiler) wantedOf(w *wanted, r region, some []region) ([]automaton.Variant, error) {
	type part struct {
		names automaton.Expr
		is    []bool
	}
	parts := []part{{r.names, make([]bool, len(some))}}
	for i, s := range some {
		var next []part
		for _, p := range parts {
			if in := c.andRegular(p.names, s.names, c.parts.Free); in != automaton.Fail {
				is := slices.Clone(p.is)
				is[i] = true
				next = append(next, part{in, is})
			}
			out := c.notRegular(s.names, c.parts.Free, c.parts.Plain)
			if out = c.andRegular(p.names, out, c.parts.Free); out != automaton.Fail {
				next = append(next, part{out, p.is})
			}
		}
		if parts = next; len(parts) > maxRegions {
			return nil, fmt.Errorf("patterns of property names overlap in more than %d ways", maxRegions)
		}
	}
	var list []automaton.Variant
	for _, p := range parts {
		name := c.b.Seq(c.parts.Quoted(p.names), c.parts.Colon)
		some, err := w.variants(r.goal, name, func(i int) bool { return p.is[i] })
		if err != nil {
			return nil, err
		}
		w.last(some)
		list = append(list, some...)
	}
	return list, nil
}

// wanted is what some members or items must be, so many of them, with the counters of those that are.
type wanted struct {
	c        *compiler
	goals    []goal
	counters []automaton.Counter
	behind   map[int]int // by goal: the counter of members behind which no others may be
}

func (w *wanted) add(g goal, lo, hi int) {
	w.goals = append(w.goals, g)
	w.counters = append(w.counters, automaton.Counter{Min: lo, Max: hi})
}

// variants are those of a member of a goal: by which of the goals that may be its it has.
func (w *wanted) variants(g goal, before automaton.Expr, may func(i int) bool) ([]automaton.Variant, error) {
	type variant struct {
		goal   goal
		counts uint32
	}
	list := []variant{{goal: g}}
	for i, want := range w.goals {
		if !may(i) {
			continue
		}
		both := w.c.all(g, want)
		if both == g { // it always is
			for j := range list {
				list[j].counts |= 1 << i
			}
			continue
		}
		if both == never {
			continue
		}
		if len(list) >= 1<<maxWanted {
			return nil, fmt.Errorf("one member or item may be more than %d of those that must be there", maxWanted)
		}
		for _, v := range slices.Clone(list) {
			list = append(list, variant{w.c.all(v.goal, want), v.counts | 1<<i})
		}
		if w.counters[i].Max != automaton.Unlimited { // those that are not counted are none
			for j, v := range list {
				if v.counts>>i&1 == 0 {
					list[j].goal = w.c.all(v.goal, w.c.not(want))
				}
			}
		}
	}
	var variants []automaton.Variant
	for _, v := range list {
		e, err := w.c.expr(v.goal)
		if err != nil {
			return nil, err
		}
		variants = append(variants, automaton.Variant{Text: w.c.b.Seq(before, e), Counts: v.counts})
	}
	return variants, nil
}

// last lets variants that are not what another one is not stand behind that: their names may be the same.
func (w *wanted) last(variants []automaton.Variant) {
	all, any := ^uint32(0), uint32(0)
	for _, v := range variants {
		all, any = all&v.Counts, any|v.Counts
	}
	for i := range w.goals {
		bit := uint32(1) << i
		if any&^all&bit == 0 {
			continue
		}
		counter, ok := w.behind[i]
		if !ok {
			counter = len(w.counters)
			w.counters = append(w.counters, automaton.Counter{Max: automaton.Unlimited})
			w.behind[i] = counter
		}
		for j := range variants {
			if v := &variants[j]; v.Counts&bit != 0 {
				v.Counts |= 1 << counter
			} else {
				v.Unless |= 1 << counter
			}
		}
	}
}

// close leaves out of a set the members that its schema says nothing of, if it lists others and objects are closed. It
// leaves them in where something must come that is not listed.
func (c *compiler) close(o *object) (*object, error) {
	if !o.lists || len(o.some) > 0 {
		return o, nil
	}
	closed := *o
	closed.regions = slices.Clone(o.regions)
	more := false // names that are not listed, as many as are wanted
	for i, r := range o.regions {
		if !r.open {
			closed.regions[i].goal = never
		}
		more = more || closed.regions[i].goal != never
	}
	listed := 0
	for _, p := range o.props {
		is, err := c.empty(p.goal)
		if err != nil {
			return nil, err
		}
		if !is {
			listed++
		}
	}
	for _, name := range o.required {
		if o.find(name) < 0 {
			listed++
			closed.props = append(slices.Clip(closed.props), property{name, c.goalFor(o, name)})
		}
	}
	if closed.index = nil; !more && listed < o.min {
		return o, nil
	}
	return &closed, nil
}
