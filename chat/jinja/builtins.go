package jinja

import (
	"errors"
	"fmt"
	"math/big"
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
	bounds := []any{0, 0, 1}
	if len(args) < 1 || len(args) > 3 || len(kwargs.keys) > 0 {
		return nil, errors.New("range takes 1 to 3 integers")
	}
	for i, a := range args {
		n := exact(a)
		if n == nil {
			return nil, fmt.Errorf("range takes integers, not %s", typeName(a))
		}
		bounds[i] = whole(n)
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := exact(bounds[0]), exact(bounds[1]), exact(bounds[2])
	if step.Sign() == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	out := &view{kind: rangeView, text: rangeText(bounds[0], bounds[1], bounds[2])}
	for i := new(big.Int).Set(start); i.Cmp(stop) == -step.Sign(); i.Add(i, step) {
		if len(out.items) == maxRange {
			return nil, fmt.Errorf("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
		}
		out.items = append(out.items, whole(new(big.Int).Set(i)))
	}
	return out, r.make(len(out.items) * itemBytes)
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
