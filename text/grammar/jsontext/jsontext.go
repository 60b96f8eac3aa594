// Package jsontext has the parts of JSON texts as expressions of package automaton: strings, numbers, whitespace,
// arrays, objects, and values of any kind.
package jsontext

import (
	"fmt"
	"unicode"

	"github.com/quire/quire/text/grammar/automaton"
)

// Whitespace is the whitespace between the parts of a text.
type Whitespace int

// The forms.
const (
	AnySpace Whitespace = iota // [Parts.anySpace] between any two parts, but none before and after the whole
	NoSpace                    // none: {"a":1,"b":2}
	OneSpace                   // one space after each comma and colon: {"a": 1, "b": 2}
)

// ParseWhitespace reads the name of a form: any, compact or spaced.
func ParseWhitespace(name string) (Whitespace, error) {
	switch name {
	case "any", "":
		return AnySpace, nil
	case "compact":
		return NoSpace, nil
	case "spaced":
		return OneSpace, nil
	}
	return 0, fmt.Errorf("whitespace %q is not known; it is any, compact or spaced", name)
}

// Digits is how many digits a number has before the point at most, and how many after it: enough for every integer of
// 64 bits, and for every double between 0.0001 and 1 as Python writes it. Without a bound a model that repeats itself
// never ends the number.
const Digits = 20

// Parts makes the parts of texts.
type Parts struct {
	B *automaton.Builder
	// Free is the contents of a string, between its quotes, in any spelling. Plain is the contents with one spelling
	// per character: as itself, or by a fixed escape if it must be escaped.
	Free, Plain automaton.Expr
	// FreeChar and PlainChar are one character of them.
	FreeChar, PlainChar automaton.Expr
	Quote, Space        automaton.Expr
	Comma, Colon        automaton.Expr // with the whitespace around them
	Number              automaton.Expr
	String              automaton.Expr
	Null, True, False   string
	value               automaton.Expr
}

// New makes the parts.
func New(b *automaton.Builder, form Whitespace) *Parts {
	p := &Parts{B: b, Null: "null", True: "true", False: "false"}
	p.FreeChar = b.Common("JSON, any spelling", freeChar)
	p.Free = b.Repeat(p.FreeChar, 0, automaton.Unlimited)
	p.PlainChar = b.Common("JSON, one spelling", func(b *automaton.Builder) automaton.Expr {
		return (&Parts{B: b}).Characters(0, unicode.MaxRune)
	})
	p.Plain = b.Repeat(p.PlainChar, 0, automaton.Unlimited)
	b.Absorb(p.Free)
	b.Absorb(p.Plain)
	p.Quote = b.Text(`"`)
	switch form {
	case AnySpace:
		p.Space = p.anySpace()
		p.Comma = b.Seq(p.Space, b.Text(","), p.Space)
		p.Colon = b.Seq(p.Space, b.Text(":"), p.Space)
	case OneSpace:
		p.Space, p.Comma, p.Colon = automaton.Empty, b.Text(", "), b.Text(": ")
	default:
		p.Space, p.Comma, p.Colon = automaton.Empty, b.Text(","), b.Text(":")
	}
	digit := b.Bytes('0', '9')
	whole := b.Alt(b.Text("0"), b.Seq(b.Bytes('1', '9'), b.Repeat(digit, 0, Digits-1)))
	p.Number = b.Seq(b.Optional(b.Text("-")), whole, b.Optional(b.Seq(b.Text("."), b.Repeat(digit, 1, Digits))),
		b.Optional(b.Seq(b.Bytes('e', 'e', 'E', 'E'), b.Optional(b.Bytes('+', '+', '-', '-')), b.Repeat(digit, 1, 3))))
	p.String = p.Quoted(p.Free)
	return p
}

// The limits of an indented line between two parts: one or two line ends, then spaces and tabs.
const mostLines, mostIndent = 2, 20

// anySpace is nothing, a space, or an indented line: JSON as one writes it in one line or in several, as in llama.cpp.
// Without a bound a model that repeats itself writes whitespace up to its last token.
func (p *Parts) anySpace() automaton.Expr {
	b := p.B
	line := b.Seq(b.Repeat(b.Text("\n"), 1, mostLines), b.Repeat(b.Bytes(' ', ' ', '\t', '\t'), 0, mostIndent))
	return b.Optional(b.Alt(b.Text(" "), line))
}

// Python makes the parts of values as Python writes them: strings in double quotes, in the one spelling that means the
// same there and in JSON, and no numbers that would be infinite.
func Python(b *automaton.Builder, form Whitespace) *Parts {
	p := New(b, form)
	p.Null, p.True, p.False = "None", "True", "False"
	p.FreeChar, p.Free = p.PlainChar, p.Plain
	digits := b.Repeat(b.Bytes('0', '9'), 1, 200)
	exponent := b.Seq(b.Bytes('e', 'e', 'E', 'E'), b.Optional(b.Bytes('+', '+', '-', '-')),
		b.Repeat(b.Bytes('0', '9'), 1, 2))
	short := b.Seq(b.Optional(b.Text("-")), digits, b.Optional(b.Seq(b.Text("."), digits)), b.Optional(exponent))
	p.Number = b.And(p.Number, short)
	p.String = p.Quoted(p.Free)
	return p
}

// Quoted is a string with such contents, a regular expression.
func (p *Parts) Quoted(contents automaton.Expr) automaton.Expr {
	return p.B.Seq(p.Quote, p.B.Lexeme(contents), p.Quote)
}

// freeChar is a character of a string as JSON has it. Halves of characters, surrogates alone, are none.
func freeChar(b *automaton.Builder) automaton.Expr {
	raw := b.Runes(' ', '!', '#', '[', ']', unicode.MaxRune)
	short := b.Bytes('"', '"', '\\', '\\', '/', '/', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't')
	h, d := b.Bytes('0', '9', 'a', 'f', 'A', 'F'), b.Bytes('d', 'd', 'D', 'D')
	low := b.Seq(d, b.Bytes('c', 'f', 'C', 'F'), h, h)
	four := b.Alt(
		b.Seq(b.Bytes('0', '9', 'a', 'c', 'e', 'f', 'A', 'C', 'E', 'F'), h, h, h),
		b.Seq(d, b.Bytes('0', '7'), h, h),
		b.Seq(d, b.Bytes('8', '9', 'a', 'b', 'A', 'B'), h, h, b.Text(`\u`), low))
	return b.Alt(raw, b.Seq(b.Text(`\`), b.Alt(short, b.Seq(b.Text("u"), four))))
}

// Characters is any one character of the ranges, which are pairs of a first and a last one, as Plain writes it.
func (p *Parts) Characters(ranges ...rune) automaton.Expr {
	b := p.B
	var raw []rune
	var short []byte
	var codes []automaton.Expr
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		for _, part := range [][2]rune{{' ', '!'}, {'#', '['}, {']', unicode.MaxRune}} {
			if from, to := max(lo, part[0]), min(hi, part[1]); from <= to {
				raw = append(raw, from, to)
			}
		}
		for r := lo; r <= min(hi, '\\'); r++ {
			if c, ok := escapes[r]; ok {
				short = append(short, c, c)
			} else if r < ' ' {
				codes = append(codes, b.Seq(b.Text("u00"), b.Bytes(byte('0'+r>>4), byte('0'+r>>4)), p.hexDigit(r&15)))
			}
		}
	}
	escaped := b.Alt(append(codes, b.Bytes(short...))...)
	return b.Alt(b.Runes(raw...), b.Seq(b.Text(`\`), escaped))
}

var escapes = map[rune]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

func (p *Parts) hexDigit(d rune) automaton.Expr {
	if d < 10 {
		return p.B.Bytes(byte('0'+d), byte('0'+d))
	}
	return p.B.Bytes(byte('a'+d-10), byte('a'+d-10), byte('A'+d-10), byte('A'+d-10))
}

// Spelled is a text as Plain writes it.
func (p *Parts) Spelled(text string) string {
	to := make([]byte, 0, len(text))
	for _, r := range text {
		if c, ok := escapes[r]; ok {
			to = append(to, '\\', c)
		} else if r < ' ' {
			to = fmt.Appendf(to, `\u%04x`, r)
		} else {
			to = append(to, string(r)...)
		}
	}
	return string(to)
}

// Array is a list of items: the first ones each of their own expression, then of rest; from lo to hi of them.
func (p *Parts) Array(first []automaton.Expr, rest automaton.Expr, lo, hi int) automaton.Expr {
	b := p.B
	if hi != automaton.Unlimited && hi <= len(first) {
		first, rest = first[:hi], automaton.Fail
	}
	// items is what may follow the first n items.
	left := automaton.Unlimited
	if hi != automaton.Unlimited {
		left = hi - len(first)
	}
	items := b.Repeat(b.Seq(p.Comma, rest), max(lo-len(first), 0), left)
	if len(first) == 0 {
		most := left
		if most != automaton.Unlimited {
			most--
		}
		items = automaton.Fail
		if left != 0 {
			items = b.Seq(rest, b.Repeat(b.Seq(p.Comma, rest), max(lo-1, 0), most))
		}
		if lo == 0 {
			items = b.Optional(items)
		}
	}
	for n := len(first) - 1; n >= 0; n-- {
		items = b.Seq(first[n], items)
		if n > 0 {
			items = b.Seq(p.Comma, items)
		}
		if n >= lo {
			items = b.Optional(items)
		}
	}
	return b.Seq(b.Text("["), p.Space, items, p.Space, b.Text("]"))
}

// Object is an object of such members. Their separator is set here.
func (p *Parts) Object(m automaton.Members) automaton.Expr {
	m.Separator = p.Comma
	return p.B.Seq(p.B.Text("{"), p.Space, p.B.Members(m), p.Space, p.B.Text("}"))
}

// Items is an array of such members. Their separator is set here.
func (p *Parts) Items(m automaton.Members) automaton.Expr {
	m.Separator = p.Comma
	return p.B.Seq(p.B.Text("["), p.Space, p.B.Members(m), p.Space, p.B.Text("]"))
}

// Value is a value of any kind.
func (p *Parts) Value() automaton.Expr {
	if p.value != automaton.Fail {
		return p.value
	}
	b := p.B
	p.value = b.Rule("any JSON")
	b.Define(p.value, b.Alt(b.Choice(p.True, p.False, p.Null), b.Lexeme(p.Number), p.String,
		p.AnyArray(), p.AnyObject()))
	return p.value
}

// AnyArray is an array of values of any kind.
func (p *Parts) AnyArray() automaton.Expr { return p.Array(nil, p.Value(), 0, automaton.Unlimited) }

// AnyObject is an object of members of any name and kind.
func (p *Parts) AnyObject() automaton.Expr {
	member := p.B.Seq(p.String, p.Colon, p.Value())
	return p.Object(automaton.Members{More: automaton.One(member), Max: automaton.Unlimited})
}
