package jinja

import (
	"fmt"
	"slices"
)

// parser parses templates: statements, and the text and expressions between them.
type parser struct {
	*expressionParser
	loops int // loops around the current statement
}

func parse(src string) (*Template, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{expressionParser: newExpressionParser(tokens)}
	body, _, err := p.statements()
	if err == nil {
		err = p.known(0)
	}
	return &Template{body, p.used, p.bound, p.values}, err
}

// statements parses up to and including one of the given tags, and returns its name.
func (p *parser) statements(ends ...string) ([]stmt, string, error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	start := p.peek().line
	var body []stmt
	for {
		t := p.next()
		switch t.kind {
		case tokEOF:
			if len(ends) > 0 {
				return nil, "", &SyntaxError{start, fmt.Sprintf("the template ends, looking for %v", ends)}
			}
			return body, "", nil
		case tokData:
			body = append(body, &textStmt{t.text})
		case tokVarBegin:
			x, err := p.tuple(true, nil)
			if err != nil {
				return nil, "", err
			}
			if err := p.expect(tokVarEnd, ""); err != nil {
				return nil, "", err
			}
			body = append(body, &outputStmt{x, t.line})
		case tokBlockBegin:
			tag, err := p.ident()
			if err != nil {
				return nil, "", err
			}
			if slices.Contains(ends, tag) {
				return body, tag, nil
			}
			s, err := p.statement(tag, t.line)
			if err != nil {
				return nil, "", err
			}
			body = append(body, s)
		}
	}
}

// block parses the rest of a tag, its body and its end tag.
func (p *parser) block(end string) ([]stmt, error) {
	if err := p.expect(tokBlockEnd, ""); err != nil {
		return nil, err
	}
	from := len(p.unknown)
	body, _, err := p.statements(end)
	if err == nil {
		err = p.known(from)
	}
	if err != nil {
		return nil, err
	}
	return body, p.expect(tokBlockEnd, "")
}

func (p *parser) statement(tag string, line int) (stmt, error) {
	switch tag {
	case "if":
		return p.parseIf(line)
	case "for":
		return p.parseFor(line)
	case "set":
		return p.parseSet(line)
	case "with":
		return p.parseWith()
	case "macro":
		name, err := p.ident()
		if err != nil {
			return nil, err
		}
		return p.parseMacro(name, "endmacro")
	case "call":
		return p.parseCall(line)
	case "filter":
		f, err := p.filters(nil)
		if err != nil {
			return nil, err
		}
		body, err := p.block("endfilter")
		return &filterStmt{f, body}, err
	case "generation": // transformers marks the assistant's text with it
		body, err := p.block("endgeneration")
		return &scopedStmt{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("%s outside of a loop", tag)
		}
		signal := errBreak
		if tag == "continue" {
			signal = errContinue
		}
		return &jumpStmt{signal}, p.expect(tokBlockEnd, "")
	}
	return nil, p.fail("unknown or unsupported tag %q", tag)
}

func (p *parser) parseIf(line int) (stmt, error) {
	s := &ifStmt{line: line}
	from := len(p.unknown)
	defer func() { p.unknown = p.unknown[:from] }()
	for {
		test, err := p.tuple(false, nil)
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokBlockEnd, ""); err != nil {
			return nil, err
		}
		body, end, err := p.statements("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		if end == "elif" {
			continue
		}
		if end == "else" {
			if err := p.expect(tokBlockEnd, ""); err != nil {
				return nil, err
			}
			if s.other, _, err = p.statements("endif"); err != nil {
				return nil, err
			}
		}
		return s, p.expect(tokBlockEnd, "")
	}
}

func (p *parser) parseFor(line int) (stmt, error) {
	s := &forStmt{line: line}
	var err error
	if s.target, err = p.target(false); err != nil {
		return nil, err
	}
	if err := p.expect(tokName, "in"); err != nil {
		return nil, err
	}
	if s.items, err = p.tuple(false, []string{"recursive"}); err != nil {
		return nil, err
	}
	if p.skip(tokName, "if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skip(tokName, "recursive")
	if err := p.expect(tokBlockEnd, ""); err != nil {
		return nil, err
	}
	from := len(p.unknown)
	p.loops++
	body, end, err := p.statements("endfor", "else")
	p.loops--
	if err == nil {
		err = p.known(from)
	}
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		s.other, err = p.block("endfor")
		return s, err
	}
	return s, p.expect(tokBlockEnd, "")
}

// target parses the left side of an assignment.
func (p *parser) target(namespace bool) (target, error) {
	var many []target
	for {
		var one target
		if p.skip(tokOp, "(") {
			inner, err := p.target(false)
			if err != nil {
				return one, err
			}
			if err := p.expect(tokOp, ")"); err != nil {
				return one, err
			}
			one = inner
		} else {
			name, err := p.ident()
			if err != nil {
				return one, err
			}
			if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, name) {
				return one, p.fail("cannot assign to %q", name)
			}
			one.name = name
			if namespace && len(many) == 0 && p.skip(tokOp, ".") {
				one.attr, err = p.ident()
				return one, err
			}
		}
		many = append(many, one)
		if !p.skip(tokOp, ",") {
			break
		}
		if p.name("in") || p.op("=") {
			return target{many: many}, nil
		}
	}
	if len(many) == 1 {
		return many[0], nil
	}
	return target{many: many}, nil
}

func (p *parser) parseSet(line int) (stmt, error) {
	s := &setStmt{line: line}
	var err error
	if s.target, err = p.target(true); err != nil {
		return nil, err
	}
	if p.skip(tokOp, "=") {
		if s.value, err = p.tuple(true, nil); err != nil {
			return nil, err
		}
		return s, p.expect(tokBlockEnd, "")
	}
	if p.op("|") {
		p.index++
		if s.filter, err = p.filters(nil); err != nil {
			return nil, err
		}
	}
	if s.body, err = p.block("endset"); s.body == nil {
		s.body = []stmt{}
	}
	return s, err
}

func (p *parser) parseWith() (stmt, error) {
	s := &withStmt{}
	for p.peek().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return nil, err
			}
		}
		name, err := p.ident()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokOp, "="); err != nil {
			return nil, err
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, target{name: name}), append(s.values, x)
	}
	var err error
	s.body, err = p.block("endwith")
	return s, err
}

func (p *parser) parseMacro(name, end string) (*macroStmt, error) {
	m := &macroStmt{name: name}
	if err := p.params(m); err != nil {
		return nil, err
	}
	// A macro cannot break out of the loop around it.
	loops, from := p.loops, p.index
	p.loops = 0
	body, err := p.block(end)
	p.loops = loops
	m.body = body
	for _, t := range p.tokens[from:p.index] {
		m.varargs = m.varargs || t.kind == tokName && t.text == "varargs"
		m.kwargs = m.kwargs || t.kind == tokName && t.text == "kwargs"
	}
	return m, err
}

// params parses "(a, b=1)" into m.
func (p *parser) params(m *macroStmt) error {
	if err := p.expect(tokOp, "("); err != nil {
		return err
	}
	for !p.op(")") {
		if len(m.params) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return err
			}
		}
		param, err := p.ident()
		if err != nil {
			return err
		}
		m.params = append(m.params, param)
		if p.skip(tokOp, "=") {
			x, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, x)
		} else if len(m.defaults) > 0 {
			return p.fail("the parameter %q without a default follows one with a default", param)
		}
	}
	p.index++
	return nil
}

func (p *parser) parseCall(line int) (stmt, error) {
	s := &callStmt{line: line, macro: macroStmt{name: "caller"}}
	if p.op("(") {
		if err := p.params(&s.macro); err != nil {
			return nil, err
		}
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := x.(*callExpr)
	if !ok {
		return nil, p.fail("expected a call")
	}
	s.call = call
	loops := p.loops
	p.loops = 0
	s.macro.body, err = p.block("endcall")
	p.loops = loops
	return s, err
}
