package automaton

import "slices"

// leaves are the expressions of a kind that is no operation on others.
type leaves interface {
	// arcs returns the derivatives of one.
	arcs(key) []arc
}

// emptier is leaves that find out by themselves whether one has a string.
type emptier interface {
	empty(key) bool
}

// derivatives are what is left of regular expressions after a byte, made when they are first asked for.
type derivatives struct {
	*algebra
	leaves [kinds]leaves
}

// arcsOf returns the derivatives of a regular expression: arcs in order, without overlap. A target may be an expression
// that empty reports as empty.
func (b *derivatives) arcsOf(e Expr) []arc {
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

func (b *derivatives) derive(k key) []arc {
	switch k.kind {
	case kindSeq:
		y := Expr(k.b)
		arcs := mapArcs(b.arcsOf(Expr(k.a)), func(e Expr) Expr { return b.seq(e, y) })
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
		return mapArcs(b.arcsOf(Expr(k.a)), func(e Expr) Expr { return b.seq(e, rest) })
	case kindLexeme:
		return b.arcsOf(Expr(k.a))
	}
	if leaf := b.leaves[k.kind]; leaf != nil {
		return leaf.arcs(k)
	}
	return nil
}

func mapArcs(arcs []arc, f func(Expr) Expr) []arc {
	var to []arc
	for _, a := range arcs {
		if e := f(a.to); e != Fail {
			to = appendArc(to, arc{a.lo, a.hi, e})
		}
	}
	return to
}

// appendArc appends an arc, or extends the last one if both are adjacent and lead to the same expression.
func appendArc(arcs []arc, a arc) []arc {
	if n := len(arcs); n > 0 && arcs[n-1].to == a.to && arcs[n-1].hi+1 == a.lo && a.lo > 0 {
		arcs[n-1].hi = a.hi
		return arcs
	}
	return append(arcs, a)
}

// cuts returns the bytes at which an arc begins or the previous byte ended one. All bytes from one cut up to the next
// are on the same arcs.
func cuts(lists [][]arc) []int {
	var isCut [257]bool
	isCut[0], isCut[256] = true, true
	for _, arcs := range lists {
		for _, a := range arcs {
			isCut[a.lo], isCut[int(a.hi)+1] = true, true
		}
	}
	var all []int
	for c, cut := range isCut {
		if cut {
			all = append(all, c)
		}
	}
	return all
}

// merge is the union of arcs.
func (b *derivatives) merge(lists [][]arc) []arc {
	lists = slices.DeleteFunc(lists, func(l []arc) bool { return len(l) == 0 })
	if len(lists) == 0 {
		return nil
	}
	if len(lists) == 1 {
		return lists[0]
	}
	ends := cuts(lists)
	var to []arc
	positions := make([]int, len(lists))
	var targets []Expr
	for i := 0; i+1 < len(ends); i++ {
		lo, hi := ends[i], ends[i+1]-1
		targets = targets[:0]
		for j, arcs := range lists {
			for positions[j] < len(arcs) && int(arcs[positions[j]].hi) < lo {
				positions[j]++
			}
			if positions[j] < len(arcs) && int(arcs[positions[j]].lo) <= lo {
				targets = append(targets, arcs[positions[j]].to)
			}
		}
		if len(targets) > 0 {
			to = appendArc(to, arc{byte(lo), byte(hi), b.Alt(targets...)})
		}
	}
	return to
}

// intersect returns the arcs of an intersection: the bytes for which each expression has an arc.
func (b *derivatives) intersect(list []Expr) []arc {
	lists := make([][]arc, len(list))
	for i, e := range list {
		lists[i] = b.arcsOf(e)
	}
	ends := cuts(lists)
	var to []arc
	positions := make([]int, len(lists))
	targets := make([]Expr, len(lists))
	for i := 0; i+1 < len(ends); i++ {
		lo, hi := ends[i], ends[i+1]-1
		all := true
		for j, arcs := range lists {
			for positions[j] < len(arcs) && int(arcs[positions[j]].hi) < lo {
				positions[j]++
			}
			if positions[j] == len(arcs) || int(arcs[positions[j]].lo) > lo {
				all = false
				break
			}
			targets[j] = arcs[positions[j]].to
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

// complement is the arcs of a complement: to the complement of each target, and to All if there is no arc.
func (b *derivatives) complement(arcs []arc) []arc {
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

// EmptyRegular reports whether a regular expression has no string.
func (b *derivatives) EmptyRegular(e Expr) bool { return b.empty(e) }

// empty reports whether a regular expression has no string. Without And and Not only Fail has none.
func (b *derivatives) empty(e Expr) bool {
	n := &b.nodes[e]
	switch {
	case e == Fail || n.emptiness == isEmpty:
		return true
	case n.plain || n.nullable || n.emptiness == nonEmpty:
		return false
	}
	var isEmpty bool
	switch k := n.key; k.kind {
	case kindSeq:
		isEmpty = b.empty(Expr(k.a)) || b.empty(Expr(k.b))
	case kindAlt:
		isEmpty = !slices.ContainsFunc(b.lists[k.a], func(e Expr) bool { return !b.empty(e) })
	case kindRepeat, kindLexeme:
		isEmpty = b.empty(Expr(k.a))
	case kindAnd, kindNot, kindNumber:
		return !b.reach(e)
	default:
		if leaf, ok := b.leaves[k.kind].(emptier); ok {
			isEmpty = leaf.empty(k)
		}
	}
	b.note(e, isEmpty)
	return isEmpty
}

// reach searches for a derivative of an expression that has a string, and notes what it learns on the way.
func (b *derivatives) reach(from Expr) bool {
	by := map[Expr]Expr{from: from}
	todo := []Expr{from}
	for len(todo) > 0 { // breadth-first: a counter has many derivatives that are far away
		e := todo[0]
		todo = todo[1:]
		for _, a := range b.arcsOf(e) {
			if _, ok := by[a.to]; ok {
				continue
			}
			by[a.to] = e
			n := &b.nodes[a.to]
			searched := n.kind == kindAnd || n.kind == kindNot || n.kind == kindNumber
			if searched && n.emptiness == emptinessUnknown && !n.nullable {
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

// Matches reports whether a regular expression matches a text.
func (b *derivatives) Matches(e Expr, text string) bool {
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

// longestText bounds the length of what Texts returns.
const longestText = 1 << 12

// Texts returns the strings of a regular expression if there are at most most of them.
func (b *derivatives) Texts(e Expr, most int) (texts []string, ok bool) {
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
