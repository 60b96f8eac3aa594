package schema

import (
	"fmt"
	"math/big"

	"github.com/quire/quire/text/grammar/automaton"
	"github.com/quire/quire/text/grammar/jsontext"
)

// numbers makes the expressions of numbers within bounds and of multiples.
type numbers struct {
	b             *automaton.Builder
	decimals      *decimals
	sets          *regularSets
	whole         automaton.Expr // all numbers, in any spelling
	before, after int            // the most digits before and after the point that a number of the schema has
}

// below is the unsigned numbers that are less than d, or equal to d if equal is set.
func (c *numbers) below(d decimal, equal bool) automaton.Expr {
	b := c.b
	less := automaton.Fail // with as many digits before the point, or fewer
	if n := len(d.whole); n > 1 {
		less = b.Alt(b.Text("0"), b.Seq(b.Bytes('1', '9'), b.Repeat(c.decimals.digit, 0, n-2)))
	}
	for i := range d.whole {
		lo := byte('0')
		if i == 0 && len(d.whole) > 1 {
			lo = '1'
		}
		if d.whole[i] > lo {
			rest := len(d.whole) - i - 1
			digits := b.Repeat(c.decimals.digit, rest, rest)
			less = b.Alt(less, b.Seq(b.Text(d.whole[:i]), b.Bytes(lo, d.whole[i]-1), digits))
		}
	}
	less = b.Seq(less, c.decimals.fraction)
	zeros := b.Repeat(b.Text("0"), 0, automaton.Unlimited)
	// With the same digits before the point: a smaller fraction, or none.
	small := automaton.Fail
	if d.fraction != "" {
		small = automaton.Empty
	}
	for i := range d.fraction {
		if d.fraction[i] > '0' {
			small = b.Alt(small, b.Seq(b.Text("."+d.fraction[:i]), b.Bytes('0', d.fraction[i]-1),
				b.Repeat(c.decimals.digit, 0, automaton.Unlimited)))
		}
		if i > 0 { // the fraction may end here
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

// bound is the decimals below a number, or above it; and the number itself if equal is set.
func (c *numbers) bound(d decimal, above, equal bool) automaton.Expr {
	b := c.b
	var e automaton.Expr
	minus := func(e automaton.Expr) automaton.Expr { return b.Seq(b.Text("-"), e) }
	switch {
	case !above && !d.negative:
		e = b.Alt(minus(c.decimals.unsigned), c.below(d, equal))
	case !above:
		e = minus(b.And(c.decimals.unsigned, b.Not(c.below(d, !equal))))
	case d.negative:
		e = b.Alt(minus(c.below(d, equal)), c.decimals.unsigned)
	default:
		e = b.And(c.decimals.unsigned, b.Not(c.below(d, !equal)))
	}
	return b.And(c.decimals.all, e)
}

// multiple is the numbers that are multiples of another, each in its shortest form.
func (c *numbers) multiple(d decimal) (automaton.Expr, error) {
	n, ok := new(big.Int).SetString(d.whole+d.fraction, 10)
	if d.negative || !ok || n.Sign() <= 0 {
		return 0, fmt.Errorf("it must be above 0")
	}
	if !n.IsInt64() || n.Int64() >= 1<<31 || len(d.fraction) > 15 {
		return 0, fmt.Errorf("%s has too many digits", d)
	}
	e := c.b.Multiple(n.Int64(), len(d.fraction), d.fraction != "")
	e = c.b.And(c.decimals.all, c.b.Alt(e, c.b.Seq(c.b.Text("-"), e)))
	c.sets.spelled[e] = true
	return e, nil
}

// lexeme is the expression of the numbers that a form allows, limited so that a model can't continue a number without
// end: a set of one number has only its shortest form, and a number has at most jsontext.Digits digits before and after
// the point, or one more than the numbers of the schema.
func (c *numbers) lexeme(numbers automaton.Expr) automaton.Expr {
	return c.b.Lexeme(c.bounded(numbers))
}

// bounded is lexeme as a regular expression.
func (c *numbers) bounded(numbers automaton.Expr) automaton.Expr {
	if numbers == c.whole || numbers == automaton.Fail {
		return numbers
	}
	if !c.sets.spelled[numbers] {
		if one, few := c.b.Texts(c.b.And(numbers, c.decimals.shortest), 1); few && len(one) == 1 {
			return c.b.Text(one[0])
		}
	}
	digits := func(n int) automaton.Expr { return c.b.Repeat(c.decimals.digit, 1, n) }
	short := c.b.Seq(c.b.Optional(c.b.Text("-")), digits(max(jsontext.Digits, c.before+1)),
		c.b.Optional(c.b.Seq(c.b.Text("."), digits(max(jsontext.Digits, c.after+1)))))
	return c.b.And(numbers, short)
}

// numberReader reads the keywords of numbers.
type numberReader struct {
	parts   *jsontext.Parts
	numbers *numbers
}

func (c *numberReader) bound(u use) (*form, error) {
	above := u.keyword == "minimum" || u.keyword == "exclusiveMinimum"
	exclusive := u.keyword == "exclusiveMinimum" || u.keyword == "exclusiveMaximum"
	if u.value.kind == boolValue && exclusive { // draft 4: it modifies minimum or maximum
		return nil, nil
	}
	if u.value.kind != numberValue {
		return nil, fmt.Errorf("it is not a number")
	}
	if flag := u.node.v.get("exclusive" + string(u.keyword[0]-'a'+'A') + u.keyword[1:]); !exclusive && flag != nil {
		exclusive = flag.kind == boolValue && flag.yes
	}
	d, err := parseDecimal(u.value.text)
	if err != nil {
		return nil, err
	}
	return onlyNumbers(c.parts, c.numbers.bound(d, above, !exclusive)), nil
}

func (c *numberReader) multiple(u use) (*form, error) {
	d, err := parseDecimal(u.value.text)
	if u.value.kind != numberValue || err != nil {
		return nil, fmt.Errorf("it is not a number that is supported")
	}
	e, err := c.numbers.multiple(d)
	if err != nil {
		return nil, err
	}
	return onlyNumbers(c.parts, e), nil
}
