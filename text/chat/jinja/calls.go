package jinja

import "slices"

func (p *expressionParser) call(fn expr) (expr, error) {
	args, err := p.arguments()
	return &callExpr{fn, args}, err
}

func (p *expressionParser) arguments() (a arguments, err error) {
	if err := p.expect(tokOp, "("); err != nil {
		return a, err
	}
	for first := true; !p.skip(tokOp, ")"); first = false {
		if !first {
			if err := p.expect(tokOp, ","); err != nil {
				return a, err
			}
			if p.skip(tokOp, ")") {
				break
			}
		}
		switch {
		case p.skip(tokOp, "*"):
			a.star, err = p.expression()
		case p.skip(tokOp, "**"):
			a.twoStar, err = p.expression()
		case p.peek().kind == tokName && p.tokens[p.index+1].kind == tokOp && p.tokens[p.index+1].text == "=":
			a.names = append(a.names, p.next().text)
			p.index++
			var x expr
			x, err = p.expression()
			a.values = append(a.values, x)
		default:
			if len(a.names) > 0 || a.twoStar != nil {
				return a, p.fail("a positional argument follows a keyword argument")
			}
			var x expr
			x, err = p.expression()
			a.args = append(a.args, x)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// filters parses "name(args) | name ..." applied to x.
func (p *expressionParser) filters(x expr) (*filterExpr, error) {
	for {
		f, err := p.oneFilter(x)
		if err != nil {
			return nil, err
		}
		if !p.skip(tokOp, "|") {
			return f.(*filterExpr), nil
		}
		x = f
	}
}

func (p *expressionParser) oneFilter(x expr) (expr, error) {
	name, err := p.ident()
	if err != nil {
		return nil, err
	}
	if filters[name] == nil {
		p.unknown = append(p.unknown, p.fail("%s", noFilter(name)))
	}
	f := &filterExpr{x: x, name: name}
	if p.op("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

func (p *expressionParser) test(x expr) (expr, error) {
	negated := p.skip(tokName, "not")
	name, err := p.ident()
	if err != nil {
		return nil, err
	}
	if tests[name] == nil {
		p.unknown = append(p.unknown, p.fail("there is no test %q", name))
	}
	t := &testExpr{x: x, name: name}
	next := p.peek()
	switch {
	case p.op("("):
		t.args, err = p.arguments()
	case next.kind == tokString || next.kind == tokInt || next.kind == tokFloat || p.op("[") || p.op("{"),
		next.kind == tokName && !slices.Contains([]string{"else", "or", "and", "is", "if", "in", "not"}, next.text):
		var arg expr
		if arg, err = p.primary(); err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.args = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &unaryExpr{"not", t}, nil
	}
	return t, nil
}
