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
	some     []goal // each of an item somewhere
	distinct bool   // no two items are equal
}

func anyArray() *array { return &array{rest: always, max: automaton.Unlimited} }

func (a *array) isAny() bool {
	return a.rest == always && a.min == 0 && a.max == automaton.Unlimited && len(a.some) == 0 && !a.distinct &&
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
		some: unique(append(slices.Clone(x.some), y.some...)), distinct: x.distinct || y.distinct}
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
	switch {
	case a.rest == never:
		at(len(a.first), never)
	case a.rest != always && len(a.first) == 0:
		add(func(n *array) { n.some = []goal{c.not(a.rest)} })
	case a.rest != always:
		return nil, fmt.Errorf("the complement of items behind prefixItems is not supported")
	}
	for _, g := range a.some {
		add(func(n *array) { n.rest = c.not(g) })
	}
	return not, nil
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
	return false, nil
}

// arrayExpr compiles a set of arrays.
func (c *compiler) arrayExpr(a *array) (automaton.Expr, error) {
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
	if a.distinct && (a.max == automaton.Unlimited || a.max > 1) {
		return 0, fmt.Errorf("uniqueItems is not supported where there may be two items")
	}
	if len(a.some) == 0 {
		return c.parts.Array(first, rest, a.min, a.max), nil
	}
	if len(a.some) > 1 || len(first) > 0 || a.min > 1 || a.max != automaton.Unlimited {
		return 0, fmt.Errorf("contains is supported with items alone")
	}
	item, err := c.expr(c.all(a.rest, a.some[0]))
	if err != nil {
		return 0, err
	}
	b := c.b
	before := b.Repeat(b.Seq(rest, c.parts.Comma), 0, automaton.Unlimited)
	behind := b.Repeat(b.Seq(c.parts.Comma, rest), 0, automaton.Unlimited)
	return b.Seq(b.Text("["), c.parts.Space, before, item, behind, c.parts.Space, b.Text("]")), nil
}
