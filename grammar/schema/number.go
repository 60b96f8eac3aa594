package schema

import (
	"fmt"
	"math/big"

	"github.com/quire/quire/grammar/automaton"
	"github.com/quire/quire/grammar/jsontext"
)

// numbers makes the expressions of numbers with constraints: without exponent, and 0 without a sign.
func (c *compiler) numbers() {
	b := c.b
	c.digit = b.Bytes('0', '9')
	digits := b.Repeat(c.digit, 1, automaton.Unlimited)
	c.fraction = b.Optional(b.Seq(b.Text("."), digits))
	high := b.Bytes('1', '9')
	positive := b.Seq(high, b.Repeat(c.digit, 0, automaton.Unlimited))
	c.unsigned = b.Seq(b.Alt(b.Text("0"), positive), c.fraction)
	nonzero := b.Alt(b.Seq(positive, c.fraction), b.Seq(b.Text("0."),
		b.Repeat(b.Text("0"), 0, automaton.Unlimited), high, b.Repeat(c.digit, 0, automaton.Unlimited)))
	c.decimals = b.Alt(c.unsigned, b.Seq(b.Text("-"), nonzero))
	c.integers = b.Alt(b.Text("0"), b.Seq(b.Optional(b.Text("-")), positive))
	c.spelled[c.integers] = true
	fraction := b.Seq(b.Text("."), b.Repeat(c.digit, 0, automaton.Unlimited), high)
	c.shortest = b.Alt(b.Seq(c.integers, b.Optional(fraction)), b.Seq(b.Text("-0"), fraction))
	c.spelled[c.shortest] = true
}

// below is the unsigned numbers that are less than one, or equal to it where equal says so.
func (c *compiler) below(d decimal, equal bool) automaton.Expr {
	b := c.b
	less := automaton.Fail // with as many digits before the point, or fewer
	if n := len(d.whole); n > 1 {
		less = b.Alt(b.Text("0"), b.Seq(b.Bytes('1', '9'), b.Repeat(c.digit, 0, n-2)))
	}
	for i := range d.whole {
		lo := byte('0')
		if i == 0 && len(d.whole) > 1 {
			lo = '1'
		}
		if d.whole[i] > lo {
			rest := len(d.whole) - i - 1
			less = b.Alt(less, b.Seq(b.Text(d.whole[:i]), b.Bytes(lo, d.whole[i]-1), b.Repeat(c.digit, rest, rest)))
		}
	}
	less = b.Seq(less, c.fraction)
	zeros := b.Repeat(b.Text("0"), 0, automaton.Unlimited)
	// With the same digits before the point: a fraction that is less, or none.
	small := automaton.Fail
	if d.fraction != "" {
		small = automaton.Empty
	}
	for i := range d.fraction {
		if d.fraction[i] > '0' {
			small = b.Alt(small, b.Seq(b.Text("."+d.fraction[:i]), b.Bytes('0', d.fraction[i]-1),
				b.Repeat(c.digit, 0, automaton.Unlimited)))
		}
		if i > 0 { // what ends before
			small = b.Alt(small, b.Text("."+d.fraction[:i]))
		}
	}
	if equal {
		same := b.Seq(b.Text("."+d.fraction), zeros)
		if d.fraction == "" {
			same = b.Optional(b.Seq(b.Text(".0"), zeros))
		}
		small = b.Alt(small, same)
	}
	return b.Alt(less, b.Seq(b.Text(d.whole), small))
}

// bound is the decimals below a number, or above it; or equal to it where equal says so.
func (c *compiler) bound(d decimal, above, equal bool) automaton.Expr {
	b := c.b
	var e automaton.Expr
	minus := func(e automaton.Expr) automaton.Expr { return b.Seq(b.Text("-"), e) }
	switch {
	case !above && !d.negative:
		e = b.Alt(minus(c.unsigned), c.below(d, equal))
	case !above:
		e = minus(b.And(c.unsigned, b.Not(c.below(d, !equal))))
	case d.negative:
		e = b.Alt(minus(c.below(d, equal)), c.unsigned)
	default:
		e = b.And(c.unsigned, b.Not(c.below(d, !equal)))
	}
	return b.And(c.decimals, e)
}

// multiple is the numbers that are multiples of another, each in its shortest form.
func (c *compiler) multiple(d decimal) (automaton.Expr, error) {
	n, ok := new(big.Int).SetString(d.whole+d.fraction, 10)
	if d.negative || !ok || n.Sign() <= 0 {
		return 0, fmt.Errorf("it must be above 0")
	}
	if !n.IsInt64() || n.Int64() >= 1<<31 || len(d.fraction) > 15 {
		return 0, fmt.Errorf("%s has too many digits", d)
	}
	e := c.b.Multiple(n.Int64(), len(d.fraction), d.fraction != "")
	e = c.b.And(c.decimals, c.b.Alt(e, c.b.Seq(c.b.Text("-"), e)))
	c.spelled[e] = true
	return e, nil
}

// lexeme is the expression of the numbers that a form allows, so that each comes to an end: a set of one number has its
// shortest form alone, and no number has more than jsontext.Digits digits before or behind the point, or one more than
// a number of the schema has.
func (c *compiler) lexeme(numbers automaton.Expr) automaton.Expr {
	return c.b.Lexeme(c.ending(numbers))
}

// ending is lexeme as a regular expression.
func (c *compiler) ending(numbers automaton.Expr) automaton.Expr {
	if numbers == c.parts.Number || numbers == automaton.Fail {
		return numbers
	}
	if !c.spelled[numbers] {
		if one, few := c.b.Texts(c.b.And(numbers, c.shortest), 1); few && len(one) == 1 {
			return c.b.Text(one[0])
		}
	}
	digits := func(n int) automaton.Expr { return c.b.Repeat(c.digit, 1, n) }
	short := c.b.Seq(c.b.Optional(c.b.Text("-")), digits(max(jsontext.Digits, c.doc.whole+1)),
		c.b.Optional(c.b.Seq(c.b.Text("."), digits(max(jsontext.Digits, c.doc.fraction+1)))))
	return c.b.And(numbers, short)
}
