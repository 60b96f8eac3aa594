package jinja

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

func (c *constExpr) eval(*run, *scope) (any, error) { return c.value, nil }

func (n *nameExpr) eval(r *run, s *scope) (any, error) {
	if err := r.Step(); err != nil {
		return nil, err
	}
	if v, ok := s.get(n.name); ok {
		return v, nil
	}
	if n.name == "lipsum" { // a function of Jinja that makes random texts
		return value.Undefined{Why: "the function lipsum is not supported: a prompt must be the same in each run"}, nil
	}
	return value.Undefined{Why: fmt.Sprintf("'%s' is undefined", n.name)}, nil
}

func evalAll(r *run, s *scope, xs []expr) ([]any, error) {
	if err := r.Reserve(len(xs) * value.ItemBytes); err != nil {
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
	return &value.List{Items: items}, err
}

func (t *tupleExpr) eval(r *run, s *scope) (any, error) {
	items, err := evalAll(r, s, t.items)
	return value.Tuple(items), err
}

func (d *dictExpr) eval(r *run, s *scope) (any, error) {
	out := value.NewDict()
	for i, k := range d.keys {
		key, err := k.eval(r, s)
		if err != nil {
			return nil, err
		}
		if !value.Hashable(key) {
			return nil, fmt.Errorf("unhashable type: '%s'", value.TypeName(key))
		}
		v, err := d.values[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		out.Set(key, v)
	}
	return out, r.Reserve(len(d.keys) * 2 * value.ItemBytes)
}

func (l *logicExpr) eval(r *run, s *scope) (any, error) {
	v, err := l.l.eval(r, s)
	if err != nil || value.Truth(v) != l.and {
		return v, err
	}
	return l.r.eval(r, s)
}

func (c *condExpr) eval(r *run, s *scope) (any, error) {
	v, err := c.test.eval(r, s)
	switch {
	case err != nil:
		return nil, err
	case value.Truth(v):
		return c.yes.eval(r, s)
	case c.no == nil:
		return value.Undefined{Why: "the inline if-expression has no else part", Meant: true}, nil
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
		text := value.Str(r.Meter, v)
		if err := r.Reserve(len(text)); err != nil {
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
		ok, err := value.CompareBy(r.Meter, op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func (a *arguments) eval(r *run, s *scope) (args []any, kwargs *value.Dict, err error) {
	if args, err = evalAll(r, s, a.args); err != nil {
		return nil, nil, err
	}
	kwargs = value.NewDict()
	if a.star != nil {
		v, err := a.star.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		more, err := value.Iterate(v)
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
		kwargs.Set(a.names[i], v)
	}
	if a.twoStar != nil {
		v, err := a.twoStar.eval(r, s)
		if err != nil {
			return nil, nil, err
		}
		more, ok := v.(*value.Dict)
		if !ok {
			return nil, nil, fmt.Errorf("argument after ** must be a mapping, not %s", value.TypeName(v))
		}
		for k, v := range more.All() {
			kwargs.Set(value.Str(r.Meter, k), v)
		}
	}
	return args, kwargs, nil
}

func (c *callExpr) eval(r *run, s *scope) (any, error) {
	if err := r.Step(); err != nil {
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

func call(fn any, args []any, kwargs *value.Dict) (any, error) {
	switch f := fn.(type) {
	case *value.Func:
		return f.Call(args, kwargs)
	case *loop:
		if f.recurse == nil {
			return nil, errors.New("the loop must have the 'recursive' marker to be called recursively")
		}
		if len(args) != 1 {
			return nil, errors.New("loop() takes one argument")
		}
		return f.recurse(args[0], f.depth+1)
	case value.Undefined:
		return nil, f.Err()
	}
	return nil, fmt.Errorf("'%s' object is not callable", value.TypeName(fn))
}

func (a *attrExpr) eval(r *run, s *scope) (any, error) {
	v, err := a.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	return value.Attr(r.Meter, v, a.name)
}

func (f *filterExpr) eval(r *run, s *scope) (any, error) {
	v, err := f.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	return f.apply(r, s, v)
}

func (f *filterExpr) apply(r *run, s *scope, v any) (any, error) {
	if err := r.Step(); err != nil {
		return nil, err
	}
	args, kwargs, err := f.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	if filters[f.name] == nil {
		return nil, errors.New(noFilter(f.name))
	}
	out, err := filters[f.name](r.Meter, v, &value.Params{Args: args, Kwargs: kwargs})
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", f.name, err)
	}
	return out, nil
}

// over applies a chain of filters to v. The innermost filter has no operand.
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
	ok, err := runTest(r.Meter, t.name, v, args)
	return ok, err
}

func (e *itemExpr) eval(r *run, s *scope) (any, error) {
	v, err := e.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	index, err := e.index.eval(r, s)
	if err != nil {
		return nil, err
	}
	return value.Item(r.Meter, v, index)
}

func (e *sliceExpr) eval(r *run, s *scope) (any, error) {
	v, err := e.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	var parts [3]*int
	for i, x := range []expr{e.start, e.stop, e.step} {
		if x == nil {
			continue
		}
		p, err := x.eval(r, s)
		if err != nil {
			return nil, err
		}
		n, _, isInt, _ := value.Number(p)
		if p != nil && !isInt {
			return nil, errors.New("slice indices must be integers or None")
		}
		if p != nil {
			parts[i] = &n
		}
	}
	return value.Slice(r.Meter, v, parts)
}

func (u *unaryExpr) eval(r *run, s *scope) (any, error) {
	v, err := u.x.eval(r, s)
	if err != nil {
		return nil, err
	}
	if u.op == "not" {
		return !value.Truth(v), nil
	}
	_, f, isInt, ok := value.Number(v)
	switch {
	case !ok:
		if x, ok := v.(value.Undefined); ok {
			return nil, x.Err()
		}
		return nil, fmt.Errorf("bad operand type for unary %s: '%s'", u.op, value.TypeName(v))
	case isInt && u.op == "+":
		return value.FromBig(value.ToBig(v)), nil
	case isInt:
		return value.FromBig(new(big.Int).Neg(value.ToBig(v))), nil
	case u.op == "+":
		return f, nil
	}
	return -f, nil
}

func (b *binaryExpr) eval(r *run, s *scope) (any, error) {
	if err := r.Step(); err != nil {
		return nil, err
	}
	x, err := b.l.eval(r, s)
	if err != nil {
		return nil, err
	}
	y, err := b.r.eval(r, s)
	if err != nil {
		return nil, err
	}
	return value.Arithmetic(r.Meter, b.op, x, y)
}
