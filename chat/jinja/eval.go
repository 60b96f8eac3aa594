package jinja

import (
	"errors"
	"fmt"
	"strings"
)

func (c *constExpr) eval(*run, *scope) (any, error) { return c.value, nil }

func (n *nameExpr) eval(r *run, s *scope) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	if v, ok := s.get(n.name); ok {
		return v, nil
	}
	if n.name == "lipsum" { // Jinja's, which makes random texts
		return undefined{why: "the function lipsum is not supported: a prompt must be the same in each run"}, nil
	}
	return undefined{why: fmt.Sprintf("'%s' is undefined", n.name)}, nil
}

func evalAll(r *run, s *scope, xs []expr) ([]any, error) {
	if err := r.make(len(xs) * itemBytes); err != nil {
		return nil, err
	}
	items := make([]any, len(xs))
	for i, x := range xs {
		v, err := x.eval(r, s)
		if err != nil {
			return nil, err
		}
		items[i] = v
	}
	return items, nil
}

func (l *listExpr) eval(r *run, s *scope) (any, error) {
	items, err := evalAll(r, s, l.items)
	return &List{items}, err
}

func (t *tupleExpr) eval(r *run, s *scope) (any, error) {
	items, err := evalAll(r, s, t.items)
	return Tuple(items), err
}

func (d *dictExpr) eval(r *run, s *scope) (any, error) {
	out := NewDict()
	for i, k := range d.keys {
		key, err := k.eval(r, s)
		if err != nil {
			return nil, err
		}
		if _, ok := hashKey(key); !ok {
			return nil, fmt.Errorf("unhashable type: '%s'", typeName(key))
		}
		v, err := d.values[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		out.set(key, v)
	}
	return out, r.make(len(d.keys) * 2 * itemBytes)
}

func (l *logicExpr) eval(r *run, s *scope) (any, error) {
	v, err := l.l.eval(r, s)
	if err != nil || truth(v) != l.and {
		return v, err
	}
	return l.r.eval(r, s)
}

func (c *condExpr) eval(r *run, s *scope) (any, error) {
	v, err := c.test.eval(r, s)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return c.yes.eval(r, s)
	case c.no == nil:
		return undefined{why: "the inline if-expression has no else part"}, nil
	}
	return c.no.eval(r, s)
}

func (c *concatExpr) eval(r *run, s *scope) (any, error) {
	items, err := evalAll(r, s, c.items)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, v := range items {
		if err := r.named(c.items[i], v); err != nil {
			return nil, err
		}
		text := r.str(v)
		if err := r.make(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func (c *compareExpr) eval(r *run, s *scope) (any, error) {
	left, err := c.first.eval(r, s)
	if err != nil {
		return nil, err
	}
	for i, op := range c.ops {
		right, err := c.rest[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		ok, err := r.compareBy(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (r *run) compareBy(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return r.equal(a, b), nil
	case "!=":
		return !r.equal(a, b), nil
	case "in":
		return r.contains(b, a)
	case "not in":
		ok, err := r.contains(b, a)
		return !ok, err
	}
	c, err := r.compare(a, b, op)
	if isNaN(a) || isNaN(b) {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

func (r *run) contains(in, v any) (bool, error) {
	switch x := in.(type) {
	case string:
		sub, ok := v.(string)
		if !ok {
			if u, ok := v.(undefined); ok {
				return false, u.err()
			}
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(x, sub), nil
	case *Dict:
		_, ok := x.get(v)
		return ok, nil
	}
	items, err := iterate(in)
	if err != nil {
		return false, fmt.Errorf("argument of type '%s' is not iterable", typeName(in))
	}
	for _, item := range items {
		if r.equal(item, v) {
			return true, nil
		}
	}
	return false, nil
}

func (a *arguments) eval(r *run, s *scope) (args []any, kwargs *Dict, err error) {
	if args, err = evalAll(r, s, a.args); err != nil {
		return nil, nil, err
	}
	kwargs = NewDict()
	if a.star != nil {
		v, err := a.star.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		more, err := iterate(v)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, more...)
	}
	for i, x := range a.values {
		v, err := x.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		kwargs.set(a.names[i], v)
	}
	if a.twoStar != nil {
		v, err := a.twoStar.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		more, ok := v.(*Dict)
		if !ok {
			return nil, nil, fmt.Errorf("argument after ** must be a mapping, not %s", typeName(v))
		}
		for i, k := range more.keys {
			kwargs.set(r.str(k), more.values[i])
		}
	}
	return args, kwargs, nil
}

func (c *callExpr) eval(r *run, s *scope) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	fn, err := c.fn.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, kwargs, err := c.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	return call(fn, args, kwargs)
}

func call(fn any, args []any, kwargs *Dict) (any, error) {
	switch f := fn.(type) {
	case *Func:
		return f.Call(args, kwargs)
	case *loop:
		if f.recurse == nil {
			return nil, errors.New("the loop must have the 'recursive' marker to be called recursively")
		}
		if len(args) != 1 {
			return nil, errors.New("loop() takes one argument")
		}
		return f.recurse(args[0], f.depth+1)
	case undefined:
		return nil, f.err()
	}
	return nil, fmt.Errorf("'%s' object is not callable", typeName(fn))
}

func (a *attrExpr) eval(r *run, s *scope) (any, error) {
	v, err := a.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.attr(v, a.name)
}

func (f *filterExpr) eval(r *run, s *scope) (any, error) {
	v, err := f.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	return f.apply(r, s, v)
}

func (f *filterExpr) apply(r *run, s *scope, v any) (any, error) {
	if err := r.step(); err != nil {
		return nil, err
	}
	args, kwargs, err := f.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	if filters[f.name] == nil {
		return nil, errors.New(noFilter(f.name))
	}
	out, err := filters[f.name](r, v, &params{args: args, kwargs: kwargs})
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", f.name, err)
	}
	return out, nil
}

// over applies a chain of filters whose innermost has no operand to v.
func (f *filterExpr) over(r *run, s *scope, v any) (any, error) {
	if inner, ok := f.x.(*filterExpr); ok {
		var err error
		if v, err = inner.over(r, s, v); err != nil {
			return nil, err
		}
	}
	return f.apply(r, s, v)
}

func (t *testExpr) eval(r *run, s *scope) (any, error) {
	v, err := t.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, _, err := t.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	ok, err := runTest(r, t.name, v, args)
	return ok, err
}
