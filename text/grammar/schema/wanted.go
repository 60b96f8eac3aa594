package schema

import (
	"fmt"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
)

// maxWanted bounds how many of the wanted members one member may be.
const maxWanted = 4

// wanted are goals that a number of members or items must have, with a counter for each.
type wanted struct {
	b     *automaton.Builder
	goals *goals
	expr  func(goal) (automaton.Expr, error) // the expression of a goal

	list     []goal
	counters []automaton.Counter
	closing  map[int]int // by goal: the counter of members after which no other variant may come
}

func (w *wanted) add(g goal, lo, hi int) {
	w.list = append(w.list, g)
	w.counters = append(w.counters, automaton.Counter{Min: lo, Max: hi})
}

// variants returns the variants of a member of a goal g: one for each combination of the wanted goals that it can have.
func (w *wanted) variants(g goal, before automaton.Expr, may func(i int) bool) ([]automaton.Variant, error) {
	type variant struct {
		goal   goal
		counts uint32
	}
	list := []variant{{goal: g}}
	for i, want := range w.list {
		if !may(i) {
			continue
		}
		both := w.goals.all(g, want)
		if both == g { // it always has the wanted goal
			for j := range list {
				list[j].counts |= 1 << i
			}
			continue
		}
		if both == never {
			continue
		}
		if len(list) >= 1<<maxWanted {
			return nil, fmt.Errorf("one member or item may match more than %d of the required schemas", maxWanted)
		}
		for _, v := range slices.Clone(list) {
			list = append(list, variant{w.goals.all(v.goal, want), v.counts | 1<<i})
		}
		if w.counters[i].Max != automaton.Unlimited { // a variant that is not counted must not have the goal
			for j, v := range list {
				if v.counts>>i&1 == 0 {
					list[j].goal = w.goals.all(v.goal, w.goals.not(want))
				}
			}
		}
	}
	var variants []automaton.Variant
	for _, v := range list {
		e, err := w.expr(v.goal)
		if err != nil {
			return nil, err
		}
		variants = append(variants, automaton.Variant{Text: w.b.Seq(before, e), Counts: v.counts})
	}
	return variants, nil
}

// last forbids that a variant without a wanted goal follows one with it: their names may be the same.
func (w *wanted) last(variants []automaton.Variant) {
	all, any := ^uint32(0), uint32(0)
	for _, v := range variants {
		all, any = all&v.Counts, any|v.Counts
	}
	for i := range w.list {
		bit := uint32(1) << i
		if any&^all&bit == 0 {
			continue
		}
		counter, ok := w.closing[i]
		if !ok {
			counter = len(w.counters)
			w.counters = append(w.counters, automaton.Counter{Max: automaton.Unlimited})
			w.closing[i] = counter
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
