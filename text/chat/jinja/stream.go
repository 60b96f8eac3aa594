package jinja

import (
	"fmt"
	"strconv"
)

// tokenStream is the tokens of a template, read one after the other.
type tokenStream struct {
	tokens []token
	index  int
}

func (p *tokenStream) peek() token { return p.tokens[p.index] }

func (p *tokenStream) next() token {
	t := p.tokens[p.index]
	if t.kind != tokEOF {
		p.index++
	}
	return t
}

func (p *tokenStream) matches(k kind, text string) bool {
	t := p.peek()
	return t.kind == k && t.text == text
}
func (p *tokenStream) op(text string) bool   { return p.matches(tokOp, text) }
func (p *tokenStream) name(text string) bool { return p.matches(tokName, text) }

func (p *tokenStream) skip(k kind, text string) bool {
	if p.matches(k, text) {
		p.index++
		return true
	}
	return false
}

func (p *tokenStream) fail(format string, args ...any) error {
	return &SyntaxError{p.peek().line, fmt.Sprintf(format, args...)}
}

func (p *tokenStream) expect(k kind, text string) error {
	if p.skip(k, text) {
		return nil
	}
	want := strconv.Quote(text)
	if text == "" {
		want = token{kind: k}.String()
	}
	return p.fail("expected %s, got %s", want, p.peek())
}
