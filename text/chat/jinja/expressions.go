package jinja

import (
	"math"
	"slices"
	"strconv"

	"github.com/quire/quire/text/chat/jinja/value"
)

// expressionParser parses expressions, and records the names in them.
type expressionParser struct {
	tokenStream
	depth int
	// unknown are the errors of filters and tests that do not exist. As in Jinja they are errors of the template,
	// except in a condition or its branches, where they are errors of rendering.
	unknown []error
	// used are the names whose values are taken, values the names that are not only called, and bound the names that
	// are assigned to.
	used, values, bound map[string]bool
}

func newExpressionParser(tokens []token) *expressionParser {
	return &expressionParser{tokenStream: tokenStream{tokens: tokens},
		used: map[string]bool{}, values: map[string]bool{}, bound: map[string]bool{}}
}

// known returns the first error in unknown after from.
func (p *expressionParser) known(from int) error {
	if len(p.unknown) > from {
		return p.unknown[from]
	}
	return nil
}

func (p *expressionParser) ident() (string, error) {
	t := p.peek()
	if t.kind != tokName {
		return "", p.fail("expected a name, got %s", t)
	}
	p.index++
	p.bound[t.text] = true // or it is an attribute
	return t.text, nil
}

func (p *expressionParser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.fail("nested too deeply")
	}
	return nil
}

func (p *expressionParser) leave() { p.depth-- }

// expression parses one expression, conditional or not.
func (p *expressionParser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	from := len(p.unknown)
	x, err := p.or()
	for err == nil && p.skip(tokName, "if") {
		var test, no expr
		if test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skip(tokName, "else") {
			if no, err = p.expression(); err != nil {
				return nil, err
			}
		}
		x = &condExpr{test, x, no}
		p.unknown = p.unknown[:from]
	}
	return x, err
}

// tuple parses one expression, or several with commas between them. Without cond it parses no conditional expression,
// since the "if" belongs to the statement. ends are names that end the tuple.
func (p *expressionParser) tuple(cond bool, ends []string) (expr, error) {
	one := p.expression
	if !cond {
		one = p.or
	}
	var items []expr
	comma := false
	for {
		t := p.peek()
		if t.kind == tokVarEnd || t.kind == tokBlockEnd || t.kind == tokOp && t.text == ")" || t.kind == tokName &&
			slices.Contains(ends, t.text) {
			break
		}
		x, err := one()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
		if comma = p.skip(tokOp, ","); !comma && len(items) == 1 {
			return x, nil
		} else if !comma {
			break
		}
	}
	if len(items) == 0 && !p.op(")") {
		return nil, p.fail("expected an expression, got %s", p.peek())
	}
	return &tupleExpr{items}, nil
}

func (p *expressionParser) or() (expr, error) {
	l, err := p.and()
	for err == nil && p.skip(tokName, "or") {
		var r expr
		r, err = p.and()
		l = &logicExpr{false, l, r}
	}
	return l, err
}

func (p *expressionParser) and() (expr, error) {
	l, err := p.not()
	for err == nil && p.skip(tokName, "and") {
		var r expr
		r, err = p.not()
		l = &logicExpr{true, l, r}
	}
	return l, err
}

func (p *expressionParser) not() (expr, error) {
	if !p.skip(tokName, "not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	x, err := p.not()
	return &unaryExpr{"not", x}, err
}

func (p *expressionParser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for {
		t := p.peek()
		op := ""
		switch {
		case t.kind == tokOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text),
			t.kind == tokName && t.text == "in":
			op = t.text
			p.index++
		case t.kind == tokName && t.text == "not" && p.tokens[p.index+1].kind == tokName &&
			p.tokens[p.index+1].text == "in":
			op = "not in"
			p.index += 2
		}
		if op == "" {
			break
		}
		x, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, x)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

// leftAssoc parses operators of one precedence.
func (p *expressionParser) leftAssoc(sub func() (expr, error), ops ...string) (expr, error) {
	l, err := sub()
	for err == nil && p.peek().kind == tokOp && slices.Contains(ops, p.peek().text) {
		op := p.next().text
		var r expr
		r, err = sub()
		l = &binaryExpr{op, l, r}
	}
	return l, err
}

func (p *expressionParser) sum() (expr, error) { return p.leftAssoc(p.concat, "+", "-") }

func (p *expressionParser) concat() (expr, error) {
	x, err := p.product()
	if err != nil || !p.op("~") {
		return x, err
	}
	items := []expr{x}
	for p.skip(tokOp, "~") {
		if x, err = p.product(); err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return &concatExpr{items}, nil
}

func (p *expressionParser) product() (expr, error) { return p.leftAssoc(p.power, "*", "/", "//", "%") }

func (p *expressionParser) power() (expr, error) {
	return p.leftAssoc(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *expressionParser) unary(filters bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var x expr
	var err error
	switch {
	case p.op("-") || p.op("+"):
		op := p.next().text
		if x, err = p.unary(false); err != nil {
			return nil, err
		}
		x = &unaryExpr{op, x}
	default:
		if x, err = p.primary(); err != nil {
			return nil, err
		}
	}
	if x, err = p.postfix(x); err != nil || !filters {
		return x, err
	}
	for {
		switch {
		case p.op("|"):
			p.index++
			x, err = p.oneFilter(x)
		case p.name("is"):
			p.index++
			x, err = p.test(x)
		case p.op("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *expressionParser) primary() (expr, error) {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constExpr{true}, nil
		case "false", "False":
			return &constExpr{false}, nil
		case "none", "None":
			return &constExpr{nil}, nil
		}
		p.used[t.text] = true
		if !p.op("(") {
			p.values[t.text] = true
		}
		return &nameExpr{t.text}, nil
	case tokString:
		text := t.text
		for p.peek().kind == tokString {
			text += p.next().text
		}
		return &constExpr{text}, nil
	case tokInt:
		n, ok := value.ParseInt(t.text, 0)
		if !ok {
			return nil, p.fail("the number %.40s cannot be read", t.text)
		}
		return &constExpr{n}, nil
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, p.fail("the number %s cannot be read", t.text)
		}
		return &constExpr{f}, nil
	case tokOp:
		switch t.text {
		case "(":
			x, err := p.tuple(true, nil)
			if err != nil {
				return nil, err
			}
			return x, p.expect(tokOp, ")")
		case "[":
			items, err := p.list("]")
			return &listExpr{items}, err
		case "{":
			return p.dict()
		}
	}
	p.index = max(0, p.index-1)
	return nil, p.fail("expected an expression, got %s", t)
}

func (p *expressionParser) list(end string) ([]expr, error) {
	items := []expr{}
	for !p.skip(tokOp, end) {
		if len(items) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return nil, err
			}
			if p.skip(tokOp, end) {
				break
			}
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return items, nil
}

func (p *expressionParser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.skip(tokOp, "}") {
		if len(d.keys) > 0 {
			if err := p.expect(tokOp, ","); err != nil {
				return nil, err
			}
			if p.skip(tokOp, "}") {
				break
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokOp, ":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, k), append(d.values, v)
	}
	return d, nil
}

func (p *expressionParser) postfix(x expr) (expr, error) {
	for {
		var err error
		switch {
		case p.skip(tokOp, "."):
			t := p.next()
			switch t.kind {
			case tokName:
				x = &attrExpr{x, t.text}
			case tokInt:
				n, _ := strconv.Atoi(t.text)
				x = &itemExpr{x, &constExpr{n}}
			default:
				return nil, p.fail("expected a name or number after the dot, got %s", t)
			}
		case p.skip(tokOp, "["):
			x, err = p.subscript(x)
		case p.op("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *expressionParser) subscript(x expr) (expr, error) {
	var parts [3]expr
	colons := 0
	for !p.op("]") {
		if p.skip(tokOp, ":") {
			if colons++; colons > 2 {
				return nil, p.fail("a slice has at most three parts")
			}
			continue
		}
		part, err := p.expression()
		if err != nil {
			return nil, err
		}
		if parts[colons] != nil {
			return nil, p.fail("expected ']', got %s", p.peek())
		}
		parts[colons] = part
		if !p.op(":") && !p.op("]") {
			return nil, p.fail("expected ']', got %s", p.peek())
		}
	}
	p.index++
	switch {
	case colons > 0:
		return &sliceExpr{x, parts[0], parts[1], parts[2]}, nil
	case parts[0] == nil:
		return nil, p.fail("an index is missing")
	}
	return &itemExpr{x, parts[0]}, nil
}
