package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// attributeOf makes the function that the attribute argument of map, sort and
// others stands for: "a.b" or an index, with otherwise for what is missing.
func (r *run) attributeOf(attribute, otherwise any) func(any) (any, error) {
	if attribute == nil {
		return func(v any) (any, error) { return v, nil }
	}
	return func(v any) (any, error) {
		for part := range strings.SplitSeq(r.str(attribute), ".") {
			var key any = part
			if n, err := strconv.Atoi(part); err == nil {
				key = n
			}
			var err error
			if v, err = r.item(v, key); err != nil {
				return nil, err
			}
			if _, missing := v.(undefined); missing && otherwise != nil {
				v = otherwise
			}
		}
		return v, nil
	}
}

func filterJoin(r *run, v any, p *params) (any, error) {
	sep, of := r.str(p.any("d", "")), r.attributeOf(p.any("attribute", nil), nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, item := range items {
		if item, err = of(item); err != nil {
			return nil, err
		}
		text := r.printed(item)
		if err := r.make(len(text) + len(sep)); err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func filterMap(r *run, v any, p *params) (any, error) {
	if !truth(v) { // which Jinja looks no further into
		return &List{}, nil
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	var each func(any) (any, error)
	if len(p.args) == 0 {
		attribute, ok := p.kwargs.get("attribute")
		otherwise, more := p.kwargs.get("default")
		known := 1
		if more {
			known = 2
		}
		if !ok || len(p.kwargs.keys) > known {
			return nil, errors.New("takes the name of a filter, or attribute and default")
		}
		each = r.attributeOf(attribute, otherwise)
	} else {
		name := r.str(p.args[0])
		f := filters[name]
		if f == nil {
			return nil, errors.New(noFilter(name))
		}
		each = func(v any) (any, error) { return f(r, v, &params{args: p.args[1:], kwargs: p.kwargs}) }
	}
	out := make([]any, 0, len(items))
	for _, item := range items {
		if err := r.step(); err != nil {
			return nil, err
		}
		if item, err = each(item); err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return r.list(out)
}

// filterSelect keeps the items that a test is true (keep) or false for, of the
// item itself or of an attribute of it.
func filterSelect(keep, ofAttribute bool) filter {
	return func(r *run, v any, p *params) (any, error) {
		of := r.attributeOf(nil, nil)
		if ofAttribute {
			of = r.attributeOf(p.required("attribute"), nil)
		}
		name, named := p.get("test")
		args := []any{}
		for p.at < len(p.args) {
			args = append(args, p.args[p.at])
			p.at++
		}
		if err := p.done(); err != nil {
			return nil, err
		}
		if !truth(v) {
			return &List{}, nil
		}
		items, err := iterate(v)
		if err != nil {
			return nil, err
		}
		out := []any{}
		for _, item := range items {
			if err := r.step(); err != nil {
				return nil, err
			}
			x, err := of(item)
			if err != nil {
				return nil, err
			}
			ok := truth(x)
			if named {
				if ok, err = runTest(r, r.str(name), x, args); err != nil {
					return nil, err
				}
			}
			if ok == keep {
				out = append(out, item)
			}
		}
		return r.list(out)
	}
}

func filterExtreme(sign int) filter {
	return func(r *run, v any, p *params) (any, error) {
		cased, of := p.bool("case_sensitive", false), r.attributeOf(p.any("attribute", nil), nil)
		if err := p.done(); err != nil {
			return nil, err
		}
		items, err := iterate(v)
		if err != nil {
			return nil, err
		}
		var best, bestKey any = undefined{why: "No aggregated item, sequence was empty."}, nil
		for i, item := range items {
			key, err := of(item)
			if err != nil {
				return nil, err
			}
			key = fold(key, cased)
			c := sign
			if i > 0 {
				if c, err = r.compare(key, bestKey, "<"); err != nil {
					return nil, err
				}
			}
			if c == sign {
				best, bestKey = item, key
			}
		}
		return best, nil
	}
}

func filterSort(r *run, v any, p *params) (any, error) {
	reverse, cased, attribute := p.bool("reverse", false), p.bool("case_sensitive", false), p.any("attribute", nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	items = append([]any{}, items...)
	var of []func(any) (any, error)
	if names, ok := attribute.(string); ok {
		for name := range strings.SplitSeq(names, ",") {
			of = append(of, r.attributeOf(name, nil))
		}
	} else {
		of = append(of, r.attributeOf(attribute, nil))
	}
	err = r.sortBy(items, reverse, func(item any) (any, error) {
		keys := make([]any, len(of))
		for i := range of {
			key, err := of[i](item)
			if err != nil {
				return nil, err
			}
			keys[i] = fold(key, cased)
		}
		return &List{keys}, nil
	})
	if err != nil {
		return nil, err
	}
	return r.list(items)
}

func filterSum(r *run, v any, p *params) (any, error) {
	of, total := r.attributeOf(p.any("attribute", nil), nil), p.any("start", 0)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item, err = of(item); err != nil {
			return nil, err
		}
		if total, err = r.arithmetic("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func filterUnique(r *run, v any, p *params) (any, error) {
	cased, of := p.bool("case_sensitive", false), r.attributeOf(p.any("attribute", nil), nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	seen, out := NewDict(), []any{}
	for _, item := range items {
		key, err := of(item)
		if err != nil {
			return nil, err
		}
		key = fold(key, cased)
		if _, ok := hashKey(key); !ok {
			return nil, fmt.Errorf("unhashable type: '%s'", typeName(key))
		}
		if _, twice := seen.get(key); !twice {
			seen.set(key, true)
			out = append(out, item)
		}
	}
	return r.list(out)
}
