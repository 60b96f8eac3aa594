package regex

import (
	"fmt"
	"regexp/syntax"
	"slices"

	"github.com/quire/quire/text/grammar/automaton"
)

// Operators of look-aheads, which package syntax lacks.
const (
	opAhead syntax.Op = 200 + iota
	opNotAhead
)

// looks reports whether a pattern contains a look-ahead.
func looks(re *syntax.Regexp) bool {
	return re.Op == opAhead || re.Op == opNotAhead || slices.ContainsFunc(re.Sub, looks)
}

// follow is what may follow a part of a pattern, up to the text's end. first reports whether this is the whole text.
type follow func(first bool) (automaton.Expr, error)

// from returns the texts, or the rest of them from a place on, that start with a match of a pattern and continue with
// rest. A look-ahead is an intersection with all of the rest, so patterns are compiled from their end.
func (c *compiler) from(re *syntax.Regexp, first bool, rest follow) (automaton.Expr, error) {
	if !looks(re) {
		return c.before(re, first, rest)
	}
	switch re.Op {
	case opAhead, opNotAhead:
		seen, err := c.from(re.Sub[0], first, func(bool) (automaton.Expr, error) { return c.any, nil })
		if err != nil {
			return 0, err
		}
		if re.Op == opNotAhead {
			seen = c.b.Not(seen)
		}
		e, err := rest(first)
		return c.b.And(e, seen), err
	case syntax.OpConcat:
		n := max(1, slices.IndexFunc(re.Sub, looks))
		return c.from(concat(re.Sub[:n]), first, func(first bool) (automaton.Expr, error) {
			return c.from(concat(re.Sub[n:]), first, rest)
		})
	case syntax.OpAlternate:
		all := automaton.Fail
		for _, sub := range re.Sub {
			e, err := c.from(sub, first, rest)
			if err != nil {
				return 0, err
			}
			all = c.b.Alt(all, e)
		}
		return all, nil
	case syntax.OpRepeat:
		return c.times(re, re.Min, re.Max, first, rest)
	}
	return 0, fmt.Errorf("look-ahead within %v is not supported", re.Op)
}

func concat(list []*syntax.Regexp) *syntax.Regexp {
	if len(list) == 1 {
		return list[0]
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: list}
}

// times is what a pattern with look-aheads matches so many times in sequence.
func (c *compiler) times(re *syntax.Regexp, lo, hi int, first bool, rest follow) (automaton.Expr, error) {
	if hi > maxCopies || hi < 0 {
		return 0, fmt.Errorf("look-ahead in what is repeated more than %d times is not supported", maxCopies)
	}
	if hi == 0 {
		return rest(first)
	}
	e, err := c.from(re.Sub[0], first, func(first bool) (automaton.Expr, error) {
		return c.times(re, max(lo-1, 0), hi-1, first, rest)
	})
	if err != nil || lo > 0 {
		return e, err
	}
	none, err := rest(first)
	return c.b.Alt(none, e), err
}

// before is what a pattern without look-aheads matches, before the rest.
func (c *compiler) before(re *syntax.Regexp, first bool, rest follow) (automaton.Expr, error) {
	l, err := c.compile(re)
	if err != nil {
		return 0, err
	}
	behind, err := rest(false)
	if err != nil {
		return 0, err
	}
	all := automaton.Fail
	add := func(e automaton.Expr, anchors int, behind automaton.Expr) {
		if anchors&atEnd != 0 {
			behind = c.onlyEmpty(behind)
		}
		all = c.b.Alt(all, c.b.Seq(e, behind))
	}
	if !first {
		add(l[0], 0, behind)
		add(l[atEnd], atEnd, behind)
		return all, nil
	}
	whole, err := rest(true) // if nothing is matched before
	for anchors, e := range l {
		if whole == behind {
			add(e, anchors, behind)
			continue
		}
		add(c.b.And(e, c.b.Not(automaton.Empty)), anchors, behind)
		add(c.onlyEmpty(e), anchors, whole)
	}
	return all, err
}

// ahead is the texts in which a pattern with look-aheads matches somewhere.
func (c *compiler) ahead(re *syntax.Regexp) (automaton.Expr, error) {
	end := func(bool) (automaton.Expr, error) { return c.any, nil }
	whole, err := c.from(re, true, end)
	if err != nil {
		return 0, err
	}
	behind, err := c.from(re, false, end)
	return c.b.Alt(whole, c.b.Seq(c.b.And(c.any, c.b.Not(automaton.Empty)), behind)), err
}
