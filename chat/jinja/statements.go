package jinja

import (
	"errors"
	"fmt"
	"strings"
)

func (r *run) body(body []stmt, s *scope) error {
	for _, st := range body {
		if err := r.step(); err != nil {
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
		return at(o.line, err)
	}
	return at(o.line, r.write(r.str(v)))
}

// named is the error of a strict rendering for an expression that is nothing, and has to be printed.
func (r *run) named(x expr, v any) error {
	what := "the expression"
	if name, ok := x.(*nameExpr); ok {
		what = name.name
	}
	if !r.strict {
		return nil
	}
	return nothing(what, v)
}

func (i *ifStmt) exec(r *run, s *scope) error {
	for n, test := range i.tests {
		r.line = i.line
		v, err := test.eval(r, s)
		if err != nil {
			return at(i.line, err)
		}
		if truth(v) {
			return r.body(i.bodies[n], s)
		}
	}
	return r.body(i.other, s)
}

// loop is the variable of that name in a for loop.
type loop struct {
	items   []any
	at      int
	depth   int // 0 for the outermost
	changed any
	run     *run
	recurse func(items any, depth int) (any, error) // nil unless recursive
}

func (f *forStmt) exec(r *run, s *scope) error {
	r.line = f.line
	items, err := f.items.eval(r, s)
	if err != nil {
		return at(f.line, err)
	}
	return at(f.line, f.run(r, s, items, 0))
}

func (f *forStmt) run(r *run, s *scope, over any, depth int) error {
	all, err := iterate(over)
	if err != nil {
		return err
	}
	if err := r.make(len(all) * itemBytes); err != nil {
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
			if !truth(ok) {
				continue
			}
		}
		items = append(items, item)
	}
	if len(items) == 0 {
		return r.body(f.other, &scope{parent: s})
	}
	l := &loop{items: items, depth: depth, changed: undefined{}, run: r}
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
		l.at = i
		inner := &scope{parent: s}
		inner.set("loop", l)
		if err := f.target.assign(r, inner, item); err != nil {
			return err
		}
		if err := r.step(); err != nil {
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

// attr returns an attribute of the loop variable.
func (l *loop) attr(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return l.at + 1, true
	case "index0":
		return l.at, true
	case "revindex":
		return n - l.at, true
	case "revindex0":
		return n - l.at - 1, true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		if l.at == 0 {
			return undefined{why: "there is no previous item"}, true
		}
		return l.items[l.at-1], true
	case "nextitem":
		if l.at == n-1 {
			return undefined{why: "there is no next item"}, true
		}
		return l.items[l.at+1], true
	case "cycle":
		return &Func{"cycle", func(args []any, _ *Dict) (any, error) {
			if len(args) == 0 {
				return nil, errors.New("no items for cycling given")
			}
			return args[l.at%len(args)], nil
		}}, true
	case "changed":
		return &Func{"changed", func(args []any, _ *Dict) (any, error) {
			now := Tuple(args)
			same := l.run.equal(l.changed, now)
			l.changed = now
			return !same, nil
		}}, true
	}
	return nil, false
}

// assign sets what t names to v.
func (t *target) assign(r *run, s *scope, v any) error {
	if t.many != nil {
		items, err := iterate(v)
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
	ns, ok := owner.(*namespace)
	if !ok {
		return fmt.Errorf("cannot assign attribute %q of %q: it is no namespace", t.attr, t.name)
	}
	return ns.set(t.attr, v)
}

func (n *namespace) set(name string, v any) error {
	if strings.HasPrefix(name, "_") {
		return fmt.Errorf("a namespace cannot have the attribute %q: it begins with an underscore", name)
	}
	n.vars.set(name, v)
	return nil
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
		return at(st.line, err)
	}
	return at(st.line, st.target.assign(r, s, v))
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
func (m *macroStmt) function(r *run, s *scope) *Func {
	return &Func{m.name, func(args []any, kwargs *Dict) (any, error) {
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
func (m *macroStmt) bind(r *run, inner *scope, args []any, kwargs *Dict) error {
	required := len(m.params) - len(m.defaults)
	rest := NewDict()
	for i, k := range kwargs.keys {
		rest.set(k, kwargs.values[i])
	}
	for i, param := range m.params {
		kw, named := rest.take(param)
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
			inner.set(param, undefined{why: fmt.Sprintf("parameter '%s' was not provided", param)})
		}
	}
	if caller, ok := rest.take("caller"); ok {
		inner.set("caller", caller)
	}
	extra := Tuple(args[min(len(args), len(m.params)):])
	if len(extra) > 0 && !m.varargs {
		return fmt.Errorf("takes not more than %d argument(s)", len(m.params))
	}
	if len(rest.keys) > 0 && !m.kwargs {
		return fmt.Errorf("takes no such keyword argument: %s", rest.names())
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
		return at(c.line, err)
	}
	args, kwargs, err := c.call.args.eval(r, s)
	if err != nil {
		return at(c.line, err)
	}
	kwargs.set("caller", c.macro.function(r, s))
	v, err := call(fn, args, kwargs)
	if err != nil {
		return at(c.line, err)
	}
	return r.write(r.str(v))
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
	return r.write(r.str(v))
}

func (b *scopedStmt) exec(r *run, s *scope) error { return r.body(b.body, &scope{parent: s}) }

func (j *jumpStmt) exec(*run, *scope) error { return j.signal }
