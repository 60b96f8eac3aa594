package automaton

import "slices"

// Unlimited is the upper bound of a repetition that has none.
const Unlimited = -1

// algebra composes expressions. It simplifies if that is cheap, which keeps the number of derivatives finite and small:
// the order of alternatives and intersections does not matter, and each occurs once.
type algebra struct {
	*store
	sets    *byteSets
	absorbs []Expr
}

// Seq is the expressions one after the other.
func (b *algebra) Seq(list ...Expr) Expr {
	e := Empty
	for i := len(list) - 1; i >= 0; i-- {
		e = b.seq(list[i], e)
	}
	return e
}

func (b *algebra) seq(x, y Expr) Expr {
	switch {
	case x == Fail || y == Fail:
		return Fail
	case x == Empty:
		return y
	case y == Empty:
		return x
	}
	if n := b.nodes[x]; n.kind == kindSeq {
		return b.seq(Expr(n.a), b.seq(Expr(n.b), y))
	}
	nx, ny := b.nodes[x], b.nodes[y]
	e := b.intern(key{kind: kindSeq, a: int32(x), b: int32(y)}, nx.nullable && ny.nullable,
		nx.regular && ny.regular, nx.plain && ny.plain)
	b.nodes[e].apart, b.nodes[e].loose = nx.apart || ny.apart, nx.loose || ny.loose
	return e
}

// Absorb declares that an alternative e contains the others it is ever combined with, so that their union is e.
func (b *algebra) Absorb(e Expr) { b.absorbs = append(b.absorbs, e) }

// Alt is any one of the expressions.
func (b *algebra) Alt(list ...Expr) Expr {
	var flat []Expr
	for _, e := range list {
		switch n := &b.nodes[e]; n.kind {
		case kindFail:
		case kindAlt:
			flat = append(flat, b.lists[n.a]...)
		default:
			flat = append(flat, e)
		}
	}
	flat = distinct(flat)
	if len(flat) == 0 {
		return Fail
	}
	if len(flat) == 1 {
		return flat[0]
	}
	if flat[0] == All || len(flat) > 1 && flat[1] == All {
		return All
	}
	for _, e := range b.absorbs {
		if slices.Contains(flat, e) {
			return e
		}
	}
	flat = b.mergeSets(flat)
	if len(flat) == 1 {
		return flat[0]
	}
	all := node{regular: true, plain: true}
	for _, e := range flat {
		n := &b.nodes[e]
		all.nullable, all.regular = all.nullable || n.nullable, all.regular && n.regular
		all.plain = all.plain && n.plain
		all.apart, all.loose = all.apart || n.apart, all.loose || n.loose
	}
	e := b.intern(key{kind: kindAlt, a: b.internList(flat)}, all.nullable, all.regular, all.plain)
	b.nodes[e].apart, b.nodes[e].loose = all.apart, all.loose
	return e
}

// distinct sorts expressions and drops duplicates.
func distinct(list []Expr) []Expr {
	slices.Sort(list)
	return slices.Compact(list)
}

// mergeSets replaces the alternatives that are sets of bytes by their union.
func (b *algebra) mergeSets(list []Expr) []Expr {
	var union byteSet
	sets := 0
	for _, e := range list {
		if n := &b.nodes[e]; n.kind == kindSet {
			sets++
			for i, w := range b.sets.sets[n.a] {
				union[i] |= w
			}
		}
	}
	if sets < 2 {
		return list
	}
	list = slices.DeleteFunc(list, func(e Expr) bool { return b.nodes[e].kind == kindSet })
	list = append(list, b.sets.expr(union))
	return distinct(list)
}

// And is the strings that all the expressions have. The expressions are regular: they contain no rules and members.
func (b *algebra) And(list ...Expr) Expr {
	var flat []Expr
	for _, e := range list {
		switch n := &b.nodes[e]; n.kind {
		case kindFail:
			return Fail
		case kindAll:
		case kindAnd:
			flat = append(flat, b.lists[n.a]...)
		case kindLexeme:
			flat = append(flat, Expr(n.a))
		default:
			flat = append(flat, e)
		}
	}
	flat = distinct(flat)
	if len(flat) == 0 {
		return All
	}
	if len(flat) == 1 {
		return flat[0]
	}
	nullable := !slices.ContainsFunc(flat, func(e Expr) bool { return !b.nodes[e].nullable })
	if slices.Contains(flat, Empty) {
		if nullable {
			return Empty
		}
		return Fail
	}
	return b.intern(key{kind: kindAnd, a: b.internList(flat)}, nullable, true, false)
}

// Not is the strings that a regular expression does not have.
func (b *algebra) Not(e Expr) Expr {
	n := b.nodes[e]
	switch n.kind {
	case kindFail:
		return All
	case kindAll:
		return Fail
	case kindNot, kindLexeme:
		if n.kind == kindNot {
			return Expr(n.a)
		}
		return b.Not(Expr(n.a))
	}
	return b.intern(key{kind: kindNot, a: int32(e)}, !n.nullable, true, false)
}

// Repeat is an expression lo to hi times. If hi is Unlimited there is no upper bound.
func (b *algebra) Repeat(e Expr, lo, hi int) Expr {
	n := &b.nodes[e]
	if n.regular && n.nullable {
		lo = 0
	}
	switch {
	case hi != Unlimited && hi < lo:
		return Fail
	case hi == 0 || e == Empty:
		return Empty
	case e == Fail && lo == 0:
		return Empty
	case e == Fail || lo == 1 && hi == 1:
		return e
	}
	if n.kind == kindRepeat && n.b == 0 && n.c == Unlimited && lo <= 1 && hi == Unlimited {
		return e
	}
	return b.intern(key{kind: kindRepeat, a: int32(e), b: int32(lo), c: int32(hi)}, lo == 0, n.regular, n.plain)
}

// Optional is an expression or nothing.
func (b *algebra) Optional(e Expr) Expr { return b.Alt(Empty, e) }

// Lexeme is a regular expression that the automaton steps through as one: its states are derivatives instead of sets of
// positions.
func (b *algebra) Lexeme(e Expr) Expr {
	switch n := &b.nodes[e]; n.kind {
	case kindFail, kindEmpty, kindLexeme:
		return e
	default:
		return b.intern(key{kind: kindLexeme, a: int32(e)}, n.nullable, false, false)
	}
}
