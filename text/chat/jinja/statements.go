package jinja

import (
	"fmt"

	"github.com/quire/quire/text/chat/jinja/value"
)

func (r *run) body(body []stmt, s *scope) error {
	for _, st := range body {
		if err := r.Step(); err != nil {
			return err
		}
		if err := st.exec(r, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *textStmt) exec(r *run, _ *scope) error { return r.write(t.text) }

func (o *outputStmt) exec(r *run, s *scope) error {
	r.line = o.line
	v, err := o.x.eval(r, s)
	if err == nil {
		err = r.named(o.x, v)
	}
	if err != nil {
		return withLine(o.line, err)
	}
	return withLine(o.line, r.write(value.Str(r.Meter, v)))
}

// named is the error of a strict rendering if an expression to be printed has no value.
func (r *run) named(x expr, v any) error {
	what := "the expression"
	if name, ok := x.(*nameExpr); ok {
		what = name.name
	}
	if !r.Strict {
		return nil
	}
	return value.NotPrintable(what, v)
}

func (i *ifStmt) exec(r *run, s *scope) error {
	for n, test := range i.tests {
		r.line = i.line
		v, err := test.eval(r, s)
		if err != nil {
			return withLine(i.line, err)
		}
		if value.Truth(v) {
			return r.body(i.bodies[n], s)
		}
	}
	return r.body(i.other, s)
}

func (f *forStmt) exec(r *run, s *scope) error {
	r.line = f.line
	items, err := f.items.eval(r, s)
	if err != nil {
		return withLine(f.line, err)
	}
	return withLine(f.line, f.run(r, s, items, 0))
}

func (f *forStmt) run(r *run, s *scope, over any, depth int) error {
	all, err := value.Iterate(over)
	if err != nil {
		return err
	}
	if err := r.Reserve(len(all) * value.ItemBytes); err != nil {
		return err
	}
	items := make([]any, 0, len(all))
	for _, item := range all {
		if f.test != nil {
			inner := &scope{parent: s}
			if err := f.target.assign(r, inner, item); err != nil {
				return err
			}
			ok, err := f.test.eval(r, inner)
			if err != nil {
				return err
			}
			if !value.Truth(ok) {
				continue
			}
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		return r.body(f.other, &scope{parent: s})
	}
	l := &loop{items: items, depth: depth, changed: value.Undefined{}, meter: r.Meter}
	if f.recursive {
		l.recurse = func(items any, depth int) (any, error) {
			if err := r.enter(); err != nil {
				return nil, err
			}
			defer r.leave()
			return r.capture(func() error { return f.run(r, s, items, depth) })
		}
	}
	for i, item := range items {
		l.index = i
		inner := &scope{parent: s}
		inner.set("loop", l)
		if err := f.target.assign(r, inner, item); err != nil {
			return err
		}
		if err := r.Step(); err != nil {
			return err
		}
		switch err := r.body(f.body, inner); {
		case err == errBreak:
			return nil
		case err != nil && err != errContinue:
			return err
		}
	}
	return nil
}

// assign sets the target to v.
func (t *target) assign(r *run, s *scope, v any) error {
	if t.many != nil {
		items, err := value.Iterate(v)
		if err != nil {
			return fmt.Errorf("cannot unpack: %w", err)
		}
		if len(items) != len(t.many) {
			return fmt.Errorf("cannot unpack %d values into %d names", len(items), len(t.many))
		}
		for i := range t.many {
			if err := t.many[i].assign(r, s, items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if t.attr == "" {
		s.set(t.name, v)
		return nil
	}
	owner, _ := s.get(t.name)
	ns, ok := owner.(*value.Namespace)
	if !ok {
		return fmt.Errorf("cannot assign attribute %q of %q: it is not a namespace", t.attr, t.name)
	}
	return ns.Set(t.attr, v)
}

func (st *setStmt) exec(r *run, s *scope) error {
	r.line = st.line
	var v any
	var err error
	if st.body == nil {
		v, err = st.value.eval(r, s)
	} else {
		v, err = r.capture(func() error { return r.body(st.body, &scope{parent: s}) })
		if err == nil && st.filter != nil {
			v, err = st.filter.over(r, s, v)
		}
	}
	if err != nil {
		return withLine(st.line, err)
	}
	return withLine(st.line, st.target.assign(r, s, v))
}

func (w *withStmt) exec(r *run, s *scope) error {
	inner := &scope{parent: s}
	for i, x := range w.values {
		v, err := x.eval(r, s)
		if err != nil {
			return err
		}
		if err := w.targets[i].assign(r, inner, v); err != nil {
			return err
		}
	}
	return r.body(w.body, inner)
}

func (m *macroStmt) exec(r *run, s *scope) error {
	s.set(m.name, m.function(r, s))
	return nil
}

// function makes the macro callable, with s as the scope around it.
func (m *macroStmt) function(r *run, s *scope) *value.Func {
	return &value.Func{Name: m.name, Call: func(args []any, kwargs *value.Dict) (any, error) {
		if err := r.enter(); err != nil {
			return nil, err
		}
		defer r.leave()
		inner := &scope{parent: s}
		if err := m.bind(r, inner, args, kwargs); err != nil {
			return nil, fmt.Errorf("macro %s: %w", m.name, err)
		}
		return r.capture(func() error { return r.body(m.body, inner) })
	}}
}

// bind sets the macro's parameters in its scope.
func (m *macroStmt) bind(r *run, inner *scope, args []any, kwargs *value.Dict) error {
	required := len(m.params) - len(m.defaults)
	rest := value.NewDict()
	for k, v := range kwargs.All() {
		rest.Set(k, v)
	}
	for i, param := range m.params {
		kw, named := rest.Take(param)
		switch {
		case i < len(args) && named:
			return fmt.Errorf("the argument %q is given twice", param)
		case i < len(args):
			inner.set(param, args[i])
		case named:
			inner.set(param, kw)
		case i >= required:
			v, err := m.defaults[i-required].eval(r, inner)
			if err != nil {
				return err
			}
			inner.set(param, v)
		default:
			inner.set(param, value.Undefined{Why: fmt.Sprintf("parameter '%s' was not provided", param)})
		}
	}
	if caller, ok := rest.Take("caller"); ok {
		inner.set("caller", caller)
	}
	extra := value.Tuple(args[min(len(args), len(m.params)):])
	if len(extra) > 0 && !m.varargs {
		return fmt.Errorf("takes not more than %d argument(s)", len(m.params))
	}
	if rest.Len() > 0 && !m.kwargs {
		return fmt.Errorf("takes no such keyword argument: %s", rest.Names())
	}
	if m.varargs {
		inner.set("varargs", extra)
	}
	if m.kwargs {
		inner.set("kwargs", rest)
	}
	return nil
}

func (c *callStmt) exec(r *run, s *scope) error {
	r.line = c.line
	fn, err := c.call.fn.eval(r, s)
	if err != nil {
		return withLine(c.line, err)
	}
	args, kwargs, err := c.call.args.eval(r, s)
	if err != nil {
		return withLine(c.line, err)
	}
	kwargs.Set("caller", c.macro.function(r, s))
	v, err := call(fn, args, kwargs)
	if err != nil {
		return withLine(c.line, err)
	}
	return r.write(value.Str(r.Meter, v))
}

func (f *filterStmt) exec(r *run, s *scope) error {
	text, err := r.capture(func() error { return r.body(f.body, &scope{parent: s}) })
	if err != nil {
		return err
	}
	v, err := f.filter.over(r, s, text)
	if err != nil {
		return err
	}
	return r.write(value.Str(r.Meter, v))
}

func (b *scopedStmt) exec(r *run, s *scope) error { return r.body(b.body, &scope{parent: s}) }

func (j *jumpStmt) exec(*run, *scope) error { return j.signal }
