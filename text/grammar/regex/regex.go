// Package regex compiles regular expressions to expressions of package automaton: RE2's syntax, matched as whole texts,
// and ECMAScript's, searched for in a text, as JSON Schema's patterns are.
package regex

import (
	"fmt"
	"regexp/syntax"
	"unicode"

	"github.com/quire/quire/text/grammar/automaton"
)

// Encoder makes the bytes of any one character of some ranges, which are pairs of a first and a last one.
type Encoder func(ranges ...rune) automaton.Expr

const (
	maxPattern = 1 << 16 // bytes of a pattern
	maxCopies  = 16      // of a repeated part that contains anchors
	maxParts   = 1 << 16
)

// Whole returns the texts that a pattern matches as a whole, as UTF-8. Its syntax is RE2's, with the additions of
// parse. "." is any character but a line feed.
func Whole(b *automaton.Builder, pattern string) (automaton.Expr, error) {
	if len(pattern) > maxPattern {
		return 0, fmt.Errorf("the regular expression has %d bytes; the limit is %d", len(pattern), maxPattern)
	}
	re, repeats, err := parse(pattern)
	if err != nil {
		return 0, fmt.Errorf("regular expression %.100q: %w", pattern, err)
	}
	c := &compiler{b: b, encode: b.Runes, repeats: repeats}
	l, err := c.compile(re)
	if err != nil {
		return 0, fmt.Errorf("regular expression %.100q: %w", pattern, err)
	}
	return b.Alt(l[:]...), nil
}

// Search is the texts in which a pattern of ECMAScript's syntax (with its flag u) matches somewhere. The encoder makes
// the bytes of characters, and any is all texts of such characters.
func Search(b *automaton.Builder, pattern string, encode Encoder, any automaton.Expr) (automaton.Expr, error) {
	if len(pattern) > maxPattern {
		return 0, fmt.Errorf("the pattern has %d bytes; the limit is %d", len(pattern), maxPattern)
	}
	re, err := parseECMA(pattern)
	if err != nil {
		return 0, fmt.Errorf("pattern %.100q: %w", pattern, err)
	}
	c := &compiler{b: b, encode: encode, any: any}
	if looks(re) {
		e, err := c.ahead(re)
		if err != nil {
			err = fmt.Errorf("pattern %.100q: %w", pattern, err)
		}
		return e, err
	}
	l, err := c.compile(re)
	if err != nil {
		return 0, fmt.Errorf("pattern %.100q: %w", pattern, err)
	}
	return b.Alt(b.Seq(any, l[0], any), b.Seq(l[atStart], any), b.Seq(any, l[atEnd]), l[atStart|atEnd]), nil
}

// language is what a part of a pattern matches, by the anchors of the match: none, the text's start, its end, or both.
type language [4]automaton.Expr

const (
	atStart = 1
	atEnd   = 2
)

type compiler struct {
	b      *automaton.Builder
	encode Encoder
	any    automaton.Expr // texts of any characters
	parts  int

	repeats map[string][2]int // of groups, by their names
}

func (c *compiler) compile(re *syntax.Regexp) (language, error) {
	if c.parts++; c.parts > maxParts {
		return language{}, fmt.Errorf("it has more than %d parts", maxParts)
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return language{}, nil
	case syntax.OpEmptyMatch:
		return language{automaton.Empty}, nil
	case syntax.OpBeginText:
		return language{atStart: automaton.Empty}, nil
	case syntax.OpEndText:
		return language{atEnd: automaton.Empty}, nil
	case syntax.OpLiteral:
		e := automaton.Empty
		for _, r := range re.Rune {
			e = c.b.Seq(e, c.literal(r, re.Flags&syntax.FoldCase != 0))
		}
		return language{e}, nil
	case syntax.OpCharClass:
		return language{c.encode(re.Rune...)}, nil
	case syntax.OpAnyCharNotNL:
		return language{c.encode(0, '\n'-1, '\n'+1, unicode.MaxRune)}, nil
	case syntax.OpAnyChar:
		return language{c.encode(0, unicode.MaxRune)}, nil
	case syntax.OpCapture:
		if n, ok := c.repeats[re.Name]; ok && re.Name != "" {
			return c.repeat(re.Sub[0], n[0], n[1])
		}
		return c.compile(re.Sub[0])
	case syntax.OpConcat:
		return c.concat(re.Sub)
	case syntax.OpAlternate:
		var l language
		for _, sub := range re.Sub {
			s, err := c.compile(sub)
			if err != nil {
				return l, err
			}
			l = c.or(l, s)
		}
		return l, nil
	case syntax.OpStar:
		return c.repeat(re.Sub[0], 0, automaton.Unlimited)
	case syntax.OpPlus:
		return c.repeat(re.Sub[0], 1, automaton.Unlimited)
	case syntax.OpQuest:
		return c.repeat(re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		return c.repeat(re.Sub[0], re.Min, re.Max)
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return language{}, fmt.Errorf("word boundaries are not supported")
	case syntax.OpBeginLine, syntax.OpEndLine:
		return language{}, fmt.Errorf("anchors of lines, (?m), are not supported")
	}
	return language{}, fmt.Errorf("%v is not supported", re.Op)
}

// literal is a character, or with fold all that fold to the same.
func (c *compiler) literal(r rune, fold bool) automaton.Expr {
	ranges := []rune{r, r}
	if fold {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			ranges = append(ranges, f, f)
		}
	}
	return c.encode(ranges...)
}

func (c *compiler) or(x, y language) language {
	for i := range x {
		x[i] = c.b.Alt(x[i], y[i])
	}
	return x
}

func (c *compiler) concat(list []*syntax.Regexp) (language, error) {
	l := language{automaton.Empty}
	for _, sub := range list {
		s, err := c.compile(sub)
		if err != nil {
			return l, err
		}
		l = c.sequence(l, s)
	}
	return l, nil
}

// sequence is x followed by y. If y must begin at the text's start, x is empty and at the start; if x must end at the
// text's end, y is empty.
func (c *compiler) sequence(x, y language) language {
	var l language
	for i, ex := range x {
		for j, ey := range y {
			anchors := i&atStart | j&atEnd
			if j&atStart != 0 {
				ex, anchors = c.onlyEmpty(ex), anchors|atStart
			}
			if i&atEnd != 0 {
				ey, anchors = c.onlyEmpty(ey), anchors|atEnd
			}
			l[anchors] = c.b.Alt(l[anchors], c.b.Seq(ex, ey))
			ex = x[i]
		}
	}
	return l
}

func (c *compiler) onlyEmpty(e automaton.Expr) automaton.Expr {
	if e == automaton.Fail {
		return e
	}
	return c.b.And(e, automaton.Empty)
}

func (c *compiler) repeat(re *syntax.Regexp, lo, hi int) (language, error) {
	x, err := c.compile(re)
	if err != nil {
		return x, err
	}
	if x[1] == automaton.Fail && x[2] == automaton.Fail && x[3] == automaton.Fail {
		return language{c.b.Repeat(x[0], lo, hi)}, nil
	}
	if lo > maxCopies || hi > maxCopies {
		return x, fmt.Errorf("what has anchors in it is repeated more than %d times", maxCopies)
	}
	l := language{automaton.Empty}
	for range lo {
		l = c.sequence(l, x)
	}
	if hi == automaton.Unlimited {
		// Of the times, the first may be at the start and the last at the end.
		many := language{c.b.Repeat(x[0], 0, automaton.Unlimited)}
		first := c.or(language{automaton.Empty}, language{atStart: x[atStart]})
		last := c.or(language{automaton.Empty}, language{atEnd: x[atEnd]})
		all := c.sequence(c.sequence(first, many), last)
		return c.sequence(l, c.or(all, language{atStart | atEnd: x[atStart|atEnd]})), nil
	}
	for range hi - lo {
		l = c.sequence(l, c.or(language{automaton.Empty}, x))
	}
	return l, nil
}
