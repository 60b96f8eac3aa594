package schema

import "github.com/quire/quire/text/grammar/automaton"

// decimals are the expressions of numbers with constraints: without an exponent, and 0 without a sign.
type decimals struct {
	digit, fraction, unsigned, all, integers automaton.Expr
	shortest                                 automaton.Expr // without a zero at the end of a fraction: one per value
}

func newDecimals(b *automaton.Builder) *decimals {
	var c decimals
	c.digit = b.Bytes('0', '9')
	digits := b.Repeat(c.digit, 1, automaton.Unlimited)
	c.fraction = b.Optional(b.Seq(b.Text("."), digits))
	high := b.Bytes('1', '9')
	positive := b.Seq(high, b.Repeat(c.digit, 0, automaton.Unlimited))
	c.unsigned = b.Seq(b.Alt(b.Text("0"), positive), c.fraction)
	nonzero := b.Alt(b.Seq(positive, c.fraction), b.Seq(b.Text("0."),
		b.Repeat(b.Text("0"), 0, automaton.Unlimited), high, b.Repeat(c.digit, 0, automaton.Unlimited)))
	c.all = b.Alt(c.unsigned, b.Seq(b.Text("-"), nonzero))
	c.integers = b.Alt(b.Text("0"), b.Seq(b.Optional(b.Text("-")), positive))
	fraction := b.Seq(b.Text("."), b.Repeat(c.digit, 0, automaton.Unlimited), high)
	c.shortest = b.Alt(b.Seq(c.integers, b.Optional(fraction)), b.Seq(b.Text("-0"), fraction))
	return &c
}

// regularSets combines the regular expressions of a form: the spellings of numbers, and the contents of strings.
type regularSets struct {
	b         *automaton.Builder
	decimals  *decimals
	plainChar automaton.Expr
	spelled   map[automaton.Expr]bool   // numbers that may lack spellings of a value, but not the shortest one
	lengths   map[automaton.Expr][2]int // the bounds of expressions that ofLength made
}

func newRegularSets(b *automaton.Builder, d *decimals, plainChar automaton.Expr) *regularSets {
	return &regularSets{b: b, decimals: d, plainChar: plainChar, lengths: map[automaton.Expr][2]int{},
		spelled: map[automaton.Expr]bool{d.integers: true, d.shortest: true}}
}

// intersect is the strings that both expressions have. whole is the expression of all of them.
func (c *regularSets) intersect(x, y, whole automaton.Expr) automaton.Expr {
	switch {
	case x == whole:
		return y
	case y == whole:
		return x
	}
	lx, isLength := c.lengths[x]
	if ly, both := c.lengths[y]; isLength && both {
		lo, hi := max(lx[0], ly[0]), lower(lx[1], ly[1])
		if hi != automaton.Unlimited && hi < lo {
			return automaton.Fail
		}
		return c.ofLength(lo, hi)
	}
	e := c.b.And(x, y)
	if c.b.EmptyRegular(e) {
		return automaton.Fail
	}
	c.spelled[e] = c.spelled[x] || c.spelled[y]
	return e
}

// unite is the strings that one of two expressions has.
func (c *regularSets) unite(x, y, whole automaton.Expr) automaton.Expr {
	if x == whole || y == whole {
		return whole
	}
	e := c.b.Alt(x, y)
	c.spelled[e] = c.spelled[x] || c.spelled[y]
	return e
}

// complement is the strings of domain that an expression does not have.
func (c *regularSets) complement(x, whole, domain automaton.Expr) automaton.Expr {
	switch x {
	case whole:
		return automaton.Fail
	case automaton.Fail:
		return whole
	}
	if l, ok := c.lengths[x]; ok { // derivatives of the complement of a long bound would be many
		shorter, longer := automaton.Fail, automaton.Fail
		if l[0] > 0 {
			shorter = c.ofLength(0, l[0]-1)
		}
		if l[1] != automaton.Unlimited {
			longer = c.ofLength(l[1]+1, automaton.Unlimited)
		}
		return c.b.Alt(shorter, longer)
	}
	not := c.b.Not(x)
	if c.spelled[x] { // x lacks spellings of its values
		domain, c.spelled[not] = c.decimals.shortest, true
	}
	return c.intersect(domain, not, whole)
}

// ofLength is the texts of lo to hi characters.
func (c *regularSets) ofLength(lo, hi int) automaton.Expr {
	e := c.b.Repeat(c.plainChar, lo, hi)
	c.lengths[e] = [2]int{lo, hi}
	return e
}

// exactlyOne is the strings that exactly one of some expressions has.
func (c *regularSets) exactlyOne(list []automaton.Expr, whole, domain automaton.Expr) automaton.Expr {
	once, twice := automaton.Fail, automaton.Fail
	for _, e := range list {
		twice = c.unite(twice, c.intersect(once, e, whole), whole)
		once = c.unite(once, e, whole)
	}
	if twice == automaton.Fail {
		return once
	}
	return c.intersect(once, c.complement(twice, whole, domain), whole)
}
