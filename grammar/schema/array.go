package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/grammar/automaton"
)

// array is a set of arrays.
type array struct {
	first    []goal // of the first items
	rest     goal   // of those behind them
	min, max int
	some     []someItems
	distinct bool // no two items are equal
	lists    bool // a keyword lists the first items: where arrays are closed, there are no others
	open     bool // a keyword speaks of the others: they may come there, too
}

// someItems are of a goal: so many of the items from a place on.
type someItems struct {
	goal     goal
	from     int
	min, max int
}

func anyArray() *array { return &array{rest: always, max: automaton.Unlimited} }

func (a *array) isAny() bool {
	return a.rest == always && a.min == 0 && a.max == automaton.Unlimited && len(a.some) == 0 && !a.distinct &&
		!a.lists && !a.open &&
		!slices.ContainsFunc(a.first, func(g goal) bool { return g != always })
}

func (a *array) item(i int) goal {
	if i < len(a.first) {
		return a.first[i]
	}
	return a.rest
}

// andArray is what both have, nil where that is nothing.
func (c *compiler) andArray(x, y *array) *array {
	if x.isAny() {
		return y
	}
	if y.isAny() {
		return x
	}
	a := &array{rest: c.all(x.rest, y.rest), min: max(x.min, y.min), max: lower(x.max, y.max),
		some: unique(slices.Concat(x.some, y.some)), distinct: x.distinct || y.distinct,
		lists: x.lists || y.lists, open: x.open || y.open}
	for i := range max(len(x.first), len(y.first)) {
		a.first = append(a.first, c.all(x.item(i), y.item(i)))
	}
	if a.max != automaton.Unlimited && a.max < a.min {
		return nil
	}
	for i := range min(a.min, len(a.first)+1) {
		if a.item(i) == never {
			return nil
		}
	}
	return a
}

func joinArrays(x, y []*array) []*array {
	all := slices.Clone(x)
	for _, a := range y {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	if i := slices.IndexFunc(all, (*array).isAny); i >= 0 {
		return all[i : i+1]
	}
	return all
}

// notArray is the arrays that are not of a set.
func (c *compiler) notArray(a *array) ([]*array, error) {
	var not []*array
	add := func(change func(*array)) {
		n := anyArray()
		change(n)
		not = append(not, n)
	}
	if a.distinct {
		return nil, fmt.Errorf("the complement of uniqueItems is not supported")
	}
	if a.min > 0 {
		add(func(n *array) { n.max = a.min - 1 })
	}
	if a.max != automaton.Unlimited {
		add(func(n *array) { n.min = a.max + 1 })
	}
	at := func(i int, g goal) { // item i is there and not of a goal
		add(func(n *array) {
			for range i {
				n.first = append(n.first, always)
			}
			n.first, n.min = append(n.first, c.not(g)), i+1
		})
	}
	for i, g := range a.first {
		if g != always {
			at(i, g)
		}
	}
	switch a.rest {
	case never:
		at(len(a.first), never)
	case always:
	default:
		add(func(n *array) {
			n.some = []someItems{{goal: c.not(a.rest), from: len(a.first), min: 1, max: automaton.Unlimited}}
		})
	}
	for _, s := range a.some {
		if s.min > 0 {
			add(func(n *array) { c.fewer(n, s) })
		}
		if s.max != automaton.Unlimited {
			add(func(n *array) { n.some = []someItems{{s.goal, s.from, s.max + 1, automaton.Unlimited}} })
		}
	}
	return not, nil
}

// fewer lets an array have fewer of some items than they are at least.
func (c *compiler) fewer(a *array, s someItems) {
	if s.min > 1 {
		a.some = []someItems{{s.goal, s.from, 0, s.min - 1}}
		return
	}
	for range s.from {
		a.first = append(a.first, always)
	}
	a.rest = c.not(s.goal)
}

// emptyArray says that there is no such array, as far as that shows.
func (c *compiler) emptyArray(a *array) (bool, error) {
	if a.max != automaton.Unlimited && a.max < a.min {
		return true, nil
	}
	for i := range min(a.min, len(a.first)+1) {
		if is, err := c.empty(a.item(i)); is || err != nil {
			return is, err
		}
	}
	for _, s := range a.some {
		if can, err := c.canContain(a, s); !can || err != nil {
			return !can, err
		}
	}
	return false, nil
}

// canContain says that an array may have one of some items, if it must.
func (c *compiler) canContain(a *array, s someItems) (bool, error) {
	if s.min == 0 {
		return true, nil
	}
	for i := s.from; i <= max(s.from, len(a.first)); i++ {
		if a.max != automaton.Unlimited && i >= a.max {
			break
		}
		if is, err := c.empty(c.all(a.item(i), s.goal)); !is || err != nil {
			return true, err
		}
	}
	return false, nil
}

// arrayExpr compiles a set of arrays.
func (c *compiler) arrayExpr(a *array) (automaton.Expr, error) {
	if a.lists && !a.open && len(a.some) == 0 && a.min <= len(a.first) {
		closed := *a
		closed.rest = never
		a = &closed
	}
	if a.distinct && (a.max == automaton.Unlimited || a.max > 1) {
		return c.distinctExpr(a)
	}
	if len(a.some) > 0 {
		return c.someExpr(a)
	}
	var first []automaton.Expr
	for _, g := range a.first {
		e, err := c.expr(g)
		if err != nil {
			return 0, err
		}
		first = append(first, e)
	}
	rest := automaton.Fail
	if a.max == automaton.Unlimited || a.max > len(first) {
		e, err := c.expr(a.rest)
		if err != nil {
			return 0, err
		}
		rest = e
	}
	return c.parts.Array(first, rest, a.min, a.max), nil
}

// mostCounted bounds what contains may count to, in all its combinations, and the items beside it.
const mostCounted = 1000

// someExpr compiles arrays some of whose items are counted.
func (c *compiler) someExpr(a *array) (automaton.Expr, error) {
	m := automaton.Members{Min: a.min, Max: a.max, Order: automaton.AtPlaces}
	w := &wanted{c: c}
	places, counts := len(a.first), a.min+1
	for _, s := range a.some {
		w.add(s.goal, s.min, s.max)
		places = max(places, s.from)
		if counts *= max(s.min, s.max, 1) + 1; counts > mostCounted {
			return 0, fmt.Errorf("contains is not supported with counts that have more than %d combinations, minItems "+
				"among them", mostCounted)
		}
	}
	if len(a.some) > maxWanted {
		return 0, fmt.Errorf("more than %d schemas of contains for one array are not supported", maxWanted)
	}
	for i := range places + 1 {
		list, err := w.variants(a.item(i), automaton.Empty, func(of int) bool { return i >= a.some[of].from })
		if err != nil {
			return 0, err
		}
		if m.More = list; i < places {
			m.List = append(m.List, automaton.Member{Variants: list})
		}
	}
	m.Counters = w.counters
	return c.parts.Items(m), nil
}

// mostDistinct bounds the values of items that must be distinct.
const mostDistinct = 1000

// distinctExpr compiles arrays of which no two items are equal, where that needs no memory of what they were: there are
// few values, or items at different places are never equal.
func (c *compiler) distinctExpr(a *array) (automaton.Expr, error) {
	if apart, err := c.apartItems(a); apart || err != nil {
		b := *a
		if b.distinct = false; err != nil {
			return 0, err
		}
		return c.arrayExpr(&b)
	}
	if e, ok, err := c.distinctTuples(a); ok || err != nil {
		return e, err
	}
	if len(a.first) > 0 || len(a.some) > 0 {
		return 0, fmt.Errorf("uniqueItems is not supported beside contains, nor beside prefixItems, unless the items " +
			"that it allows are of different types, or all that there are and of few values")
	}
	f, err := c.formOf(a.rest)
	if err != nil {
		return 0, err
	}
	values, ok := c.values(f)
	if !ok {
		return c.apartExpr(a, f)
	}
	m := automaton.Members{Min: a.min, Max: a.max, Order: automaton.AnyOrder}
	for _, e := range values {
		m.List = append(m.List, automaton.Member{Variants: automaton.One(e)})
	}
	return c.parts.Items(m), nil
}

// apartExpr compiles arrays of strings, numbers and words no two of which are the same text: each value has one.
func (c *compiler) apartExpr(a *array, f *form) (automaton.Expr, error) {
	if len(f.arrays) > 0 || len(f.objects) > 0 {
		return 0, fmt.Errorf("uniqueItems is not supported where items may be arrays or objects")
	}
	if a.min > mostDistinct {
		return 0, fmt.Errorf("uniqueItems is not supported with more than %d items", mostDistinct)
	}
	text := f.text
	if text == c.parts.Free {
		text = c.parts.Plain
	}
	items := []automaton.Expr{c.b.Choice(c.words(f)...), c.ending(c.andRegular(f.number, c.shortest, c.parts.Number))}
	if text != automaton.Fail {
		items = append(items, c.b.Seq(c.parts.Quote, text, c.parts.Quote))
	}
	of := c.b.Apart(c.b.Alt(items...), c.parts.Comma, a.min, lower(a.max, mostDistinct))
	return c.b.Seq(c.b.Text("["), c.parts.Space, of, c.parts.Space, c.b.Text("]")), nil
}

// apartItems says that no two items can be equal, as their places tell.
func (c *compiler) apartItems(a *array) (bool, error) {
	if a.rest != never && (a.max == automaton.Unlimited || a.max > len(a.first)) || len(a.first) > mostDistinct/20 {
		return false, nil
	}
	for i, g := range a.first {
		for _, h := range a.first[:i] {
			if is, err := c.empty(c.all(g, h)); !is || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// distinctTuples compiles arrays of distinct items that have a place of few values each.
func (c *compiler) distinctTuples(a *array) (e automaton.Expr, ok bool, err error) {
	hi := lower(a.max, len(a.first))
	more := a.rest != never && lower(a.max, len(a.first)+1) > len(a.first)
	if len(a.first) == 0 || len(a.some) > 0 || more {
		return 0, false, nil
	}
	tuples, all := [][]automaton.Expr{nil}, []automaton.Expr(nil)
	for i := 0; ; i++ {
		if i >= a.min {
			for _, t := range tuples {
				all = append(all, c.parts.Array(t, automaton.Fail, i, i))
			}
		}
		if i == hi {
			return c.b.Alt(all...), true, nil
		}
		f, err := c.formOf(a.first[i])
		if err != nil {
			return 0, false, err
		}
		values, few := c.values(f)
		var longer [][]automaton.Expr
		for _, t := range tuples {
			for _, v := range values {
				same := func(w automaton.Expr) bool { return !c.b.EmptyRegular(c.b.And(v, w)) }
				if !slices.ContainsFunc(t, same) {
					longer = append(longer, append(slices.Clip(t), v))
				}
			}
			if len(longer)+len(all) > mostDistinct {
				few = false
				break
			}
		}
		if tuples = longer; !few {
			return 0, false, nil
		}
	}
}

// values is the values that a form allows, if they are few: each in its only spelling, a number in its shortest.
func (c *compiler) values(f *form) ([]automaton.Expr, bool) {
	if len(f.arrays) > 0 || len(f.objects) > 0 || f.number == c.parts.Number || f.text == c.parts.Free {
		return nil, false
	}
	var list []automaton.Expr
	for _, w := range c.words(f) {
		list = append(list, c.b.Text(w))
	}
	texts, ok := c.b.Texts(f.text, mostDistinct)
	if !ok {
		return nil, false
	}
	for _, t := range texts {
		list = append(list, c.b.Text(`"`+t+`"`))
	}
	texts, ok = c.b.Texts(c.andRegular(f.number, c.shortest, c.parts.Number), mostDistinct)
	for _, t := range texts {
		list = append(list, c.b.Text(t))
	}
	return list, ok && len(list) <= mostDistinct
}
