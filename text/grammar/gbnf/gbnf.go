// Package gbnf compiles grammars of llama.cpp's syntax, GBNF, to expressions of package automaton.
package gbnf

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quire/quire/text/grammar/automaton"
)

const (
	maxGrammar = 1 << 20 // bytes
	maxDepth   = 250     // of groups in each other
	maxRepeat  = 1 << 20
)

// Compile makes the expression of a grammar's texts, which are the texts of its rule root. Tokens, <[7]> and <name>,
// are not supported.
func Compile(b *automaton.Builder, grammar string) (automaton.Expr, error) {
	if len(grammar) > maxGrammar {
		return 0, fmt.Errorf("grammar: it has %d bytes; the limit is %d", len(grammar), maxGrammar)
	}
	if !utf8.ValidString(grammar) || strings.IndexByte(grammar, 0) >= 0 {
		return 0, fmt.Errorf("grammar: it is not a text in UTF-8")
	}
	p := &parser{b: b, all: grammar, rest: grammar, rules: map[string]*rule{}}
	if err := p.grammar(); err != nil {
		return 0, fmt.Errorf("grammar, line %d: %w", 1+strings.Count(grammar[:len(grammar)-len(p.rest)], "\n"), err)
	}
	for _, name := range p.names {
		if !p.rules[name].defined {
			return 0, fmt.Errorf("grammar: rule %q is not defined", name)
		}
	}
	root := p.rules["root"]
	if root == nil {
		return 0, fmt.Errorf(`grammar: there is no rule "root"`)
	}
	return root.expr, nil
}

type rule struct {
	expr    automaton.Expr
	defined bool
}

type parser struct {
	b         *automaton.Builder
	all, rest string
	rules     map[string]*rule
	names     []string // of rules, as they are met
}

func (p *parser) rule(name string) *rule {
	r := p.rules[name]
	if r == nil {
		r = &rule{expr: p.b.Rule(name)}
		p.rules[name] = r
		p.names = append(p.names, name)
	}
	return r
}

func (p *parser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	if ok {
		p.rest = rest
	}
	return ok
}

// space skips spaces, comments, and line ends that do not end a rule.
func (p *parser) space(lines bool) {
	for p.rest != "" {
		switch c := p.rest[0]; {
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			p.rest = p.rest[1:]
		case c == '#':
			end := strings.IndexAny(p.rest, "\r\n")
			if end < 0 {
				end = len(p.rest)
			}
			p.rest = p.rest[end:]
		default:
			return
		}
	}
}

func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_' || isDigit(c)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// run takes the bytes of a kind.
func (p *parser) run(accepts func(byte) bool) string {
	n := 0
	for n < len(p.rest) && accepts(p.rest[n]) {
		n++
	}
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

func (p *parser) expected(what string) error {
	if p.rest == "" {
		return fmt.Errorf("%s expected at the end", what)
	}
	return fmt.Errorf("%s expected at %.20q", what, p.rest)
}

func (p *parser) grammar() error {
	p.space(true)
	for p.rest != "" {
		name := p.run(isWord)
		if name == "" {
			return p.expected("the name of a rule")
		}
		p.space(false)
		r := p.rule(name)
		if !p.take("::=") {
			return p.expected("::=")
		}
		p.space(true)
		body, err := p.alternatives(false, 0)
		if err != nil {
			return err
		}
		if p.rest != "" && !p.take("\r\n") && !p.take("\r") && !p.take("\n") {
			return p.expected("the end of the line")
		}
		p.b.Define(r.expr, body)
		r.defined = true
		p.space(true)
	}
	return nil
}

func (p *parser) alternatives(nested bool, depth int) (automaton.Expr, error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("groups nest deeper than %d", maxDepth)
	}
	var list []automaton.Expr
	for {
		e, err := p.sequence(nested, depth)
		if err != nil {
			return 0, err
		}
		list = append(list, e)
		if !p.take("|") {
			return p.b.Alt(list...), nil
		}
		p.space(true)
	}
}

func (p *parser) sequence(nested bool, depth int) (automaton.Expr, error) {
	var list []automaton.Expr
	for p.rest != "" {
		e, found, err := p.item(nested, depth)
		if err != nil {
			return 0, err
		}
		if found {
			p.space(nested)
			list = append(list, e)
			continue
		}
		lo, hi, found, err := p.times(nested)
		if err != nil {
			return 0, err
		}
		if !found {
			break
		}
		n := len(list) - 1
		if n < 0 || list[n] == automaton.Empty {
			return 0, fmt.Errorf("a repetition of nothing")
		}
		list[n] = p.b.Repeat(list[n], lo, hi)
	}
	return p.b.Seq(list...), nil
}

// item reads a literal, characters, a rule's name, a group or a dot, if one comes next.
func (p *parser) item(nested bool, depth int) (e automaton.Expr, found bool, err error) {
	switch c := p.rest[0]; {
	case c == '"':
		p.rest = p.rest[1:]
		e, err = p.literal()
	case c == '[':
		p.rest = p.rest[1:]
		e, err = p.characters()
	case c == '<' || c == '!':
		err = fmt.Errorf("tokens (%.10q) are not supported", p.rest)
	case isWord(c):
		e = p.rule(p.run(isWord)).expr
	case c == '(':
		p.rest = p.rest[1:]
		p.space(true)
		if e, err = p.alternatives(true, depth+1); err == nil && !p.take(")") {
			err = p.expected(")")
		}
	case c == '.':
		p.rest = p.rest[1:]
		e = p.b.Lexeme(p.b.Runes(0, unicode.MaxRune))
	default:
		return 0, false, nil
	}
	return e, true, err
}

func (p *parser) literal() (automaton.Expr, error) {
	var text strings.Builder
	impossible := false
	for !p.take(`"`) {
		r, err := p.char()
		if err != nil {
			return 0, err
		}
		impossible = impossible || !utf8.ValidRune(r) // a text never has it
		text.WriteRune(r)
	}
	if impossible {
		return automaton.Fail, nil
	}
	return p.b.Text(text.String()), nil
}

// characters reads what follows [. An empty set is the empty text.
func (p *parser) characters() (automaton.Expr, error) {
	not := p.take("^")
	var ranges []rune
	for !p.take("]") {
		lo, err := p.char()
		if err != nil {
			return 0, err
		}
		hi := lo
		if strings.HasPrefix(p.rest, "-") && !strings.HasPrefix(p.rest, "-]") {
			p.rest = p.rest[1:]
			if hi, err = p.char(); err != nil {
				return 0, err
			}
		}
		ranges = append(ranges, lo, hi)
	}
	if len(ranges) == 0 {
		return automaton.Empty, nil
	}
	e := p.b.Runes(ranges...)
	if not {
		e = p.b.And(p.b.Runes(0, unicode.MaxRune), p.b.Not(e))
	}
	return p.b.Lexeme(e), nil
}

// char reads a character or an escape.
func (p *parser) char() (rune, error) {
	if p.rest == "" {
		return 0, p.expected("a character")
	}
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	if r != '\\' {
		return r, nil
	}
	if p.rest == "" {
		return 0, p.expected("an escape")
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch c {
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-':
		return rune(c), nil
	}
	return 0, fmt.Errorf(`the escape \%c is not known`, c)
}

func (p *parser) hex(n int) (rune, error) {
	if len(p.rest) >= n {
		if v, err := strconv.ParseUint(p.rest[:n], 16, 32); err == nil {
			p.rest = p.rest[n:]
			return rune(min(v, 1<<31-1)), nil
		}
	}
	return 0, p.expected(fmt.Sprintf("%d hexadecimal digits", n))
}

// times reads a repetition, if one comes next.
func (p *parser) times(nested bool) (lo, hi int, found bool, err error) {
	defer func() { p.space(nested) }()
	switch {
	case p.take("*"):
		return 0, automaton.Unlimited, true, nil
	case p.take("+"):
		return 1, automaton.Unlimited, true, nil
	case p.take("?"):
		return 0, 1, true, nil
	case !p.take("{"):
		return 0, 0, false, nil
	}
	p.space(nested)
	if lo, err = p.number(nested); err != nil {
		return 0, 0, false, err
	}
	hi = lo
	if p.take(",") {
		hi = automaton.Unlimited
		p.space(nested)
		if p.rest != "" && isDigit(p.rest[0]) {
			if hi, err = p.number(nested); err != nil {
				return 0, 0, false, err
			}
		}
	}
	if !p.take("}") {
		return 0, 0, false, p.expected("}")
	}
	if hi != automaton.Unlimited && hi < lo {
		return 0, 0, false, fmt.Errorf("the repetition {%d,%d} is in the wrong order", lo, hi)
	}
	return lo, hi, true, nil
}

func (p *parser) number(nested bool) (int, error) {
	digits := p.run(isDigit)
	if digits == "" {
		return 0, p.expected("a number")
	}
	p.space(nested)
	n, err := strconv.Atoi(digits)
	if err != nil || n > maxRepeat {
		return 0, fmt.Errorf("the count %s is above %d", digits, maxRepeat)
	}
	return n, nil
}
