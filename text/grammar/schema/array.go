package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
)

// arrays is the algebra of sets of arrays.
type arrays struct {
	goals *goals
	empty func(goal) (bool, error) // whether a goal is known to allow no value
}

// and is the arrays that are in both sets. It is nil if there are none.
func (c *arrays) and(x, y *array) *array {
	if x.isAny() {
		return y
	}
	if y.isAny() {
		return x
	}
	a := &array{rest: c.goals.all(x.rest, y.rest), min: max(x.min, y.min), max: lower(x.max, y.max),
		some: unique(slices.Concat(x.some, y.some)), distinct: x.distinct || y.distinct,
		lists: x.lists || y.lists, open: x.open || y.open}
	for i := range max(len(x.first), len(y.first)) {
		a.first = append(a.first, c.goals.all(x.item(i), y.item(i)))
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

// joinArrays is the union of two unions.
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

// not is the arrays that are not in a set.
func (c *arrays) not(a *array) ([]*array, error) {
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
	addItem := func(i int, g goal) { // item i exists and is not of the goal
		add(func(n *array) {
			for range i {
				n.first = append(n.first, always)
			}
			n.first, n.min = append(n.first, c.goals.not(g)), i+1
		})
	}
	for i, g := range a.first {
		if g != always {
			addItem(i, g)
		}
	}
	switch a.rest {
	case never:
		addItem(len(a.first), never)
	case always:
	default:
		add(func(n *array) {
			n.some = []someItems{{goal: c.goals.not(a.rest), from: len(a.first), min: 1, max: automaton.Unlimited}}
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

// fewer lets arrays have fewer of some items than their minimum.
func (c *arrays) fewer(a *array, s someItems) {
	if s.min > 1 {
		a.some = []someItems{{s.goal, s.from, 0, s.min - 1}}
		return
	}
	for range s.from {
		a.first = append(a.first, always)
	}
	a.rest = c.goals.not(s.goal)
}

// isEmpty reports whether a set is known to have no array.
func (c *arrays) isEmpty(a *array) (bool, error) {
	if a.max != automaton.Unlimited && a.max < a.min {
		return true, nil
	}
	for i := range min(a.min, len(a.first)+1) {
		if isEmpty, err := c.empty(a.item(i)); isEmpty || err != nil {
			return isEmpty, err
		}
	}
	for _, s := range a.some {
		if can, err := c.canContain(a, s); !can || err != nil {
			return !can, err
		}
	}
	return false, nil
}

// canContain reports whether arrays can have one of some items, or need none.
func (c *arrays) canContain(a *array, s someItems) (bool, error) {
	if s.min == 0 {
		return true, nil
	}
	for i := s.from; i <= max(s.from, len(a.first)); i++ {
		if a.max != automaton.Unlimited && i >= a.max {
			break
		}
		if isEmpty, err := c.empty(c.goals.all(a.item(i), s.goal)); !isEmpty || err != nil {
			return true, err
		}
	}
	return false, nil
}
