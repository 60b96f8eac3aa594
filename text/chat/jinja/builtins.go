package jinja

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/quire/quire/text/chat/jinja/value"
)

// maxRange is the limit that Jinja's sandbox sets on range.
const maxRange = 100000

// builtins are the names every template can use.
func builtins(meter *value.Meter) map[string]any {
	vars := make(map[string]any)
	for name, f := range map[string]func(args []any, kwargs *value.Dict) (any, error){
		"range": func(args []any, kwargs *value.Dict) (any, error) { return rangeOf(meter, args, kwargs) },
		"dict": func(args []any, kwargs *value.Dict) (any, error) {
			return dictOf(meter, args, kwargs)
		},
		"namespace": func(args []any, kwargs *value.Dict) (any, error) {
			d, err := dictOf(meter, args, kwargs)
			if err != nil {
				return nil, err
			}
			ns := value.NewNamespace()
			for k, v := range d.All() {
				if err := ns.Set(value.Str(meter, k), v); err != nil {
					return nil, err
				}
			}
			return ns, nil
		},
		"raise_exception": func(args []any, _ *value.Dict) (any, error) {
			if len(args) != 1 {
				return nil, errors.New("raise_exception takes a message")
			}
			return nil, &RaisedError{value.Str(meter, args[0])}
		},
		"joiner": joiner,
		"cycler": cycler,
	} {
		vars[name] = &value.Func{Name: name, Call: f}
	}
	return vars
}

func rangeOf(meter *value.Meter, args []any, kwargs *value.Dict) (any, error) {
	bounds := []any{0, 0, 1}
	if len(args) < 1 || len(args) > 3 || kwargs.Len() > 0 {
		return nil, errors.New("range takes 1 to 3 integers")
	}
	for i, a := range args {
		n := value.ToBig(a)
		if n == nil {
			return nil, fmt.Errorf("range takes integers, not %s", value.TypeName(a))
		}
		bounds[i] = value.FromBig(n)
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := value.ToBig(bounds[0]), value.ToBig(bounds[1]), value.ToBig(bounds[2])
	if step.Sign() == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	var items []any
	for i := new(big.Int).Set(start); i.Cmp(stop) == -step.Sign(); i.Add(i, step) {
		if len(items) == maxRange {
			return nil, fmt.Errorf("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
		}
		items = append(items, value.FromBig(new(big.Int).Set(i)))
	}
	return value.NewRange(bounds[0], bounds[1], bounds[2], items), meter.Reserve(len(items) * value.ItemBytes)
}

func dictOf(meter *value.Meter, args []any, kwargs *value.Dict) (*value.Dict, error) {
	out := value.NewDict()
	for _, a := range args {
		d, ok := a.(*value.Dict)
		if !ok || len(args) > 1 {
			return nil, errors.New("dict takes one mapping and keyword arguments")
		}
		for k, v := range d.All() {
			out.Set(k, v)
		}
	}
	for k, v := range kwargs.All() {
		out.Set(k, v)
	}
	return out, meter.Reserve(2 * value.ItemBytes * out.Len())
}

func joiner(args []any, kwargs *value.Dict) (any, error) {
	p := &value.Params{Args: args, Kwargs: kwargs}
	sep, used := p.Any("sep", ", "), false
	return &value.Func{Name: "joiner", Call: func([]any, *value.Dict) (any, error) {
		if !used {
			used = true
			return "", nil
		}
		return sep, nil
	}}, p.Done()
}

// cycler is an object with current, next() and reset().
func cycler(args []any, _ *value.Dict) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("at least one item has to be provided")
	}
	index := 0
	self := value.NewNamespace()
	self.Vars.Set("current", args[0])
	move := func(to int) { index = to % len(args); self.Vars.Set("current", args[index]) }
	self.Vars.Set("next", &value.Func{Name: "next", Call: func([]any, *value.Dict) (any, error) {
		v := args[index]
		move(index + 1)
		return v, nil
	}})
	self.Vars.Set("reset", &value.Func{Name: "reset", Call: func([]any, *value.Dict) (any, error) {
		move(0)
		return nil, nil
	}})
	return self, nil
}
