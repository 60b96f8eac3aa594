package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// arrayCompiler makes the expressions of sets of arrays.
type arrayCompiler struct {
	b       *automaton.Builder
	parts   *jsontext.Parts
	goals   *goals
	forms   *forms
	sets    *regularSets
	numbers *numbers
	expr    func(goal) (automaton.Expr, error) // the expression of a goal
}

// compile returns the expression of a set of arrays.
func (c *arrayCompiler) compile(a *array) (automaton.Expr, error) {
	if a.lists && !a.open && len(a.some) == 0 && a.min <= len(a.first) {
		closed := *a
		closed.rest = never
		a = &closed
	}
	if a.distinct && (a.max == automaton.Unlimited || a.max > 1) {
		return c.unequal(a)
	}
	if len(a.some) > 0 {
		return c.counted(a)
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

// mostCounted bounds the combinations of the counts of contains and of minItems.
const mostCounted = 1000

// counted compiles arrays whose items are counted by contains.
func (c *arrayCompiler) counted(a *array) (automaton.Expr, error) {
	m := automaton.Members{Min: a.min, Max: a.max, Order: automaton.AtPlaces}
	w := &wanted{b: c.b, goals: c.goals, expr: c.expr}
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
		list, err := w.variants(a.item(i), automaton.Empty, func(index int) bool { return i >= a.some[index].from })
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

// mostDistinct bounds the number of values of distinct items.
const mostDistinct = 1000

// unequal compiles arrays without equal items if that needs no unbounded memory of the items so far: items at
// different places are never equal, there are few values, or the items are scalars.
func (c *arrayCompiler) unequal(a *array) (automaton.Expr, error) {
	if apart, err := c.placesApart(a); apart || err != nil {
		b := *a
		if b.distinct = false; err != nil {
			return 0, err
		}
		return c.compile(&b)
	}
	if e, ok, err := c.distinctTuples(a); ok || err != nil {
		return e, err
	}
	if len(a.first) > 0 || len(a.some) > 0 {
		return 0, fmt.Errorf("uniqueItems is not supported with contains, and with prefixItems only if the items " +
			"have different types, or if all of them are listed and have few values")
	}
	f, err := c.forms.formOf(a.rest)
	if err != nil {
		return 0, err
	}
	values, ok := c.values(f)
	if !ok {
		return c.scalarsApart(a, f)
	}
	m := automaton.Members{Min: a.min, Max: a.max, Order: automaton.AnyOrder}
	for _, e := range values {
		m.List = append(m.List, automaton.Member{Variants: automaton.One(e)})
	}
	return c.parts.Items(m), nil
}

// scalarsApart compiles arrays of strings, numbers and words with different texts. Each value has only one text.
func (c *arrayCompiler) scalarsApart(a *array, f *form) (automaton.Expr, error) {
	if len(f.arrays) > 0 || len(f.objects) > 0 {
		return 0, fmt.Errorf("uniqueItems is not supported if items may be arrays or objects")
	}
	if a.min > mostDistinct {
		return 0, fmt.Errorf("uniqueItems is not supported with more than %d items", mostDistinct)
	}
	text := f.text
	if text == c.parts.Free {
		text = c.parts.Plain
	}
	numbers := c.sets.intersect(f.number, c.sets.decimals.shortest, c.parts.Number)
	items := []automaton.Expr{c.b.Choice(f.words(c.parts)...), c.numbers.bounded(numbers)}
	if text != automaton.Fail {
		items = append(items, c.b.Seq(c.parts.Quote, text, c.parts.Quote))
	}
	list := c.b.Apart(c.b.Alt(items...), c.parts.Comma, a.min, lower(a.max, mostDistinct))
	return c.b.Seq(c.b.Text("["), c.parts.Space, list, c.parts.Space, c.b.Text("]")), nil
}

// placesApart reports whether items at different places are never equal.
func (c *arrayCompiler) placesApart(a *array) (bool, error) {
	if a.rest != never && (a.max == automaton.Unlimited || a.max > len(a.first)) || len(a.first) > mostDistinct/20 {
		return false, nil
	}
	for i, g := range a.first {
		for _, h := range a.first[:i] {
			if isEmpty, err := c.forms.empty(c.goals.all(g, h)); !isEmpty || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// distinctTuples compiles arrays of distinct items if each place has few values.
func (c *arrayCompiler) distinctTuples(a *array) (e automaton.Expr, ok bool, err error) {
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
		f, err := c.forms.formOf(a.first[i])
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

// values returns the values that a form allows if they are few: each in one spelling, numbers in their shortest.
func (c *arrayCompiler) values(f *form) ([]automaton.Expr, bool) {
	if len(f.arrays) > 0 || len(f.objects) > 0 || f.number == c.parts.Number || f.text == c.parts.Free {
		return nil, false
	}
	var list []automaton.Expr
	for _, w := range f.words(c.parts) {
		list = append(list, c.b.Text(w))
	}
	texts, ok := c.b.Texts(f.text, mostDistinct)
	if !ok {
		return nil, false
	}
	for _, t := range texts {
		list = append(list, c.b.Text(`"`+t+`"`))
	}
	texts, ok = c.b.Texts(c.sets.intersect(f.number, c.sets.decimals.shortest, c.parts.Number), mostDistinct)
	for _, t := range texts {
		list = append(list, c.b.Text(t))
	}
	return list, ok && len(list) <= mostDistinct
}
