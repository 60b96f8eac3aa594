package jinja

import (
	"errors"
	"fmt"
)

// maxRange is the limit that Jinja's sandbox sets on range.
const maxRange = 100000

// builtins are the names every template can use.
func builtins(r *run) map[string]any {
	vars := make(map[string]any)
	for name, f := range map[string]func(args []any, kwargs *Dict) (any, error){
		"range": r.rangeOf,
		"dict": func(args []any, kwargs *Dict) (any, error) {
			return r.dictOf(args, kwargs)
		},
		"namespace": func(args []any, kwargs *Dict) (any, error) {
			d, err := r.dictOf(args, kwargs)
			if err != nil {
				return nil, err
			}
			ns := &namespace{NewDict()}
			for i, k := range d.keys {
				if err := ns.set(r.str(k), d.values[i]); err != nil {
					return nil, err
				}
			}
			return ns, nil
		},
		"raise_exception": func(args []any, _ *Dict) (any, error) {
			if len(args) != 1 {
				return nil, errors.New("raise_exception takes a message")
			}
			return nil, &RaisedError{r.str(args[0])}
		},
		"joiner": joiner,
		"cycler": cycler,
	} {
		vars[name] = &Func{name, f}
	}
	return vars
}

func (r *run) rangeOf(args []any, kwargs *Dict) (any, error) {
	var n [3]int
	if len(args) < 1 || len(args) > 3 || len(kwargs.keys) > 0 {
		return nil, errors.New("range takes 1 to 3 integers")
	}
	for i, a := range args {
		v, _, isInt, _ := number(a)
		if !isInt {
			return nil, fmt.Errorf("range takes integers, not %s", typeName(a))
		}
		n[i] = v
	}
	start, stop, step := n[0], n[1], n[2]
	if len(args) == 1 {
		start, stop = 0, n[0]
	}
	if len(args) < 3 {
		step = 1
	}
	if step == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	items := []any{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(items) == maxRange {
			return nil, fmt.Errorf("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
		}
		items = append(items, i)
		if i > 0 && step > 0 && i+step < i || i < 0 && step < 0 && i+step > i {
			break // past the last integer
		}
	}
	return r.list(items)
}

func (r *run) dictOf(args []any, kwargs *Dict) (*Dict, error) {
	out := NewDict()
	for _, a := range args {
		d, ok := a.(*Dict)
		if !ok || len(args) > 1 {
			return nil, errors.New("dict takes one mapping and keyword arguments")
		}
		for i, k := range d.keys {
			out.set(k, d.values[i])
		}
	}
	for i, k := range kwargs.keys {
		out.set(k, kwargs.values[i])
	}
	return out, r.make(2 * itemBytes * len(out.keys))
}

func joiner(args []any, kwargs *Dict) (any, error) {
	p := &params{args: args, kwargs: kwargs}
	sep, used := p.any("sep", ", "), false
	return &Func{"joiner", func([]any, *Dict) (any, error) {
		if !used {
			used = true
			return "", nil
		}
		return sep, nil
	}}, p.done()
}

// cycler is an object with current, next() and reset().
func cycler(args []any, _ *Dict) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("at least one item has to be provided")
	}
	at := 0
	self := &namespace{NewDict()}
	self.vars.set("current", args[0])
	move := func(to int) { at = to % len(args); self.vars.set("current", args[at]) }
	self.vars.set("next", &Func{"next", func([]any, *Dict) (any, error) {
		v := args[at]
		move(at + 1)
		return v, nil
	}})
	self.vars.set("reset", &Func{"reset", func([]any, *Dict) (any, error) {
		move(0)
		return nil, nil
	}})
	return self, nil
}
