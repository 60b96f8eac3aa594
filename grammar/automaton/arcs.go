package automaton

import (
	"errors"
	"slices"
)

// arc says what is left of an expression behind a byte from lo to hi.
type arc struct {
	lo, hi byte
	to     Expr
}

// errTooMany is what a grammar with too many expressions ends with.
var errTooMany = errors.New("the grammar needs more memory than one may take")

// arcsOf returns the derivatives of a regular expression: arcs in order, without
// overlap. Targets may be empty, which empty tells.
func (b *Builder) arcsOf(e Expr) []arc {
	if n := &b.nodes[e]; n.made {
		return n.arcs
	}
	if b.err != nil {
		return nil
	}
	arcs := b.derive(b.nodes[e].key)
	n := &b.nodes[e]
	n.arcs, n.made = arcs, true
	b.spend(12 * len(arcs))
	return arcs
}

func (b *Builder) derive(k key) []arc {
	switch k.kind {
	case kindSet:
		return b.setArcs(b.sets[k.a])
	case kindChoice:
		return b.choiceArcs(k)
	case kindNumber:
		return b.numberArcs(k)
	case kindSeq:
		y := Expr(k.b)
		arcs := b.mapArcs(b.arcsOf(Expr(k.a)), func(e Expr) Expr { return b.seq(e, y) })
		if b.nodes[k.a].nullable {
			arcs = b.merge([][]arc{arcs, b.arcsOf(y)})
		}
		return arcs
	case kindAlt:
		var lists [][]arc
		for _, e := range b.lists[k.a] {
			lists = append(lists, b.arcsOf(e))
		}
		return b.merge(lists)
	case kindAnd:
		return b.intersect(b.lists[k.a])
	case kindNot:
		return b.complement(b.arcsOf(Expr(k.a)))
	case kindRepeat:
		lo, hi := int(k.b), int(k.c)
		if hi != Unlimited {
			hi--
		}
		rest := b.Repeat(Expr(k.a), max(lo-1, 0), hi)
		return b.mapArcs(b.arcsOf(Expr(k.a)), func(e Expr) Expr { return b.seq(e, rest) })
	case kindLexeme:
		return b.arcsOf(Expr(k.a))
	case kindApart:
		return b.apartArcs(k)
	}
	return nil
}

func (b *Builder) setArcs(s byteSet) []arc {
	var arcs []arc
	for c := 0; c < 256; c++ {
		if !s.has(c) {
			continue
		}
		if n := len(arcs); n > 0 && int(arcs[n-1].hi) == c-1 {
			arcs[n-1].hi = byte(c)
		} else {
			arcs = append(arcs, arc{byte(c), byte(c), Empty})
		}
	}
	return arcs
}

func (b *Builder) choiceArcs(k key) []arc {
	texts, depth := b.tables[k.a], k.d
	lo, hi := k.b, k.c
	if int(depth) == len(texts[lo]) {
		lo++
	}
	var arcs []arc
	for lo < hi {
		c := texts[lo][depth]
		n, _ := slices.BinarySearchFunc(texts[lo:hi], c, func(s string, c byte) int {
			if s[depth] <= c {
				return -1
			}
			return 1
		})
		next := lo + int32(n)
		arcs = append(arcs, arc{c, c, b.choice(k.a, lo, next, depth+1)})
		lo = next
	}
	return arcs
}

func (b *Builder) mapArcs(arcs []arc, f func(Expr) Expr) []arc {
	var to []arc
	for _, a := range arcs {
		if e := f(a.to); e != Fail {
			to = appendArc(to, arc{a.lo, a.hi, e})
		}
	}
	return to
}

// appendArc appends an arc, as part of the last one where that goes on to the same.
func appendArc(arcs []arc, a arc) []arc {
	if n := len(arcs); n > 0 && arcs[n-1].to == a.to && arcs[n-1].hi+1 == a.lo && a.lo > 0 {
		arcs[n-1].hi = a.hi
		return arcs
	}
	return append(arcs, a)
}

// cuts returns where arcs begin or have ended: between two of these bytes all stays the same.
func cuts(lists [][]arc) []int {
	var at [257]bool
	at[0], at[256] = true, true
	for _, arcs := range lists {
		for _, a := range arcs {
			at[a.lo], at[int(a.hi)+1] = true, true
		}
	}
	var all []int
	for c, is := range at {
		if is {
			all = append(all, c)
		}
	}
	return all
}

// merge is the union of arcs.
func (b *Builder) merge(lists [][]arc) []arc {
	lists = slices.DeleteFunc(lists, func(l []arc) bool { return len(l) == 0 })
	if len(lists) == 0 {
		return nil
	}
	if len(lists) == 1 {
		return lists[0]
	}
	ends := cuts(lists)
	var to []arc
	at := make([]int, len(lists))
	var targets []Expr
	for i := 0; i+1 < len(ends); i++ {
		lo, hi := ends[i], ends[i+1]-1
		targets = targets[:0]
		for j, arcs := range lists {
			for at[j] < len(arcs) && int(arcs[at[j]].hi) < lo {
				at[j]++
			}
			if at[j] < len(arcs) && int(arcs[at[j]].lo) <= lo {
				targets = append(targets, arcs[at[j]].to)
			}
		}
		if len(targets) > 0 {
			to = appendArc(to, arc{byte(lo), byte(hi), b.Alt(targets...)})
		}
	}
	return to
}

// intersect has the arcs that all of some expressions have.
func (b *Builder) intersect(list []Expr) []arc {
	lists := make([][]arc, len(list))
	for i, e := range list {
		lists[i] = b.arcsOf(e)
	}
	ends := cuts(lists)
	var to []arc
	at := make([]int, len(lists))
	targets := make([]Expr, len(lists))
	for i := 0; i+1 < len(ends); i++ {
		lo, hi := ends[i], ends[i+1]-1
		all := true
		for j, arcs := range lists {
			for at[j] < len(arcs) && int(arcs[at[j]].hi) < lo {
				at[j]++
			}
			if at[j] == len(arcs) || int(arcs[at[j]].lo) > lo {
				all = false
				break
			}
			targets[j] = arcs[at[j]].to
		}
		if !all {
			continue
		}
		if e := b.And(targets...); e != Fail {
			to = appendArc(to, arc{byte(lo), byte(hi), e})
		}
	}
	return to
}

// complement goes on with what arcs do not lead to.
func (b *Builder) complement(arcs []arc) []arc {
	var to []arc
	next := 0
	for _, a := range arcs {
		if int(a.lo) > next {
			to = appendArc(to, arc{byte(next), a.lo - 1, All})
		}
		if e := b.Not(a.to); e != Fail {
			to = appendArc(to, arc{a.lo, a.hi, e})
		}
		next = int(a.hi) + 1
	}
	if next < 256 {
		to = appendArc(to, arc{byte(next), 255, All})
	}
	return to
}

// EmptyRegular says that a regular expression has no string at all.
func (b *Builder) EmptyRegular(e Expr) bool { return b.empty(e) }

// empty says that a regular expression has no string at all. Without And and Not only Fail is so.
func (b *Builder) empty(e Expr) bool {
	n := &b.nodes[e]
	switch {
	case e == Fail || n.state == 2:
		return true
	case n.plain || n.nullable || n.state == 1:
		return false
	}
	var is bool
	switch k := n.key; k.kind {
	case kindSeq:
		is = b.empty(Expr(k.a)) || b.empty(Expr(k.b))
	case kindAlt:
		is = !slices.ContainsFunc(b.lists[k.a], func(e Expr) bool { return !b.empty(e) })
	case kindRepeat, kindLexeme:
		is = b.empty(Expr(k.a))
	case kindApart:
		is = b.emptyApart(k)
	case kindAnd, kindNot, kindNumber:
		return !b.reach(e)
	}
	b.note(e, is)
	return is
}

func (b *Builder) note(e Expr, empty bool) {
	b.nodes[e].state = 1
	if empty {
		b.nodes[e].state = 2
	}
}

// reach looks from an expression for a derivative that has a string. It notes what it learns on the way.
func (b *Builder) reach(from Expr) bool {
	by := map[Expr]Expr{from: from}
	todo := []Expr{from}
	for len(todo) > 0 { // the nearest first: a counter has many that are far
		e := todo[0]
		todo = todo[1:]
		for _, a := range b.arcsOf(e) {
			if _, ok := by[a.to]; ok {
				continue
			}
			by[a.to] = e
			n := &b.nodes[a.to]
			search := (n.kind == kindAnd || n.kind == kindNot || n.kind == kindNumber) && n.state == 0 && !n.nullable
			if search {
				todo = append(todo, a.to)
			} else if !b.empty(a.to) {
				for e := a.to; ; e = by[e] {
					b.note(e, false)
					if e == from {
						return true
					}
				}
			}
		}
		if b.err != nil || len(by) > 1<<16 {
			b.err = errTooMany
			return true
		}
	}
	for e := range by {
		b.note(e, true)
	}
	return false
}

// Matches says that a regular expression has a text.
func (b *Builder) Matches(e Expr, text string) bool {
	for i := range len(text) {
		to := Fail
		for _, a := range b.arcsOf(e) {
			if a.lo <= text[i] && text[i] <= a.hi {
				to = a.to
			}
		}
		if e = to; e == Fail {
			return false
		}
	}
	return b.nodes[e].nullable
}

// longestText bounds the texts of Texts.
const longestText = 1 << 12

// Texts returns the texts of a regular expression, if there are no more than a number of them.
func (b *Builder) Texts(e Expr, most int) (texts []string, ok bool) {
	var text []byte
	var visit func(e Expr) bool
	visit = func(e Expr) bool {
		if b.nodes[e].nullable {
			if texts = append(texts, string(text)); len(texts) > most {
				return false
			}
		}
		for _, a := range b.arcsOf(e) {
			if b.empty(a.to) {
				continue
			}
			for c := int(a.lo); c <= int(a.hi); c++ {
				text = append(text, byte(c))
				if len(text) > longestText || b.err != nil || !visit(a.to) {
					return false
				}
				text = text[:len(text)-1]
			}
		}
		return true
	}
	ok = visit(e)
	return texts, ok
}
