package jinja

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

func filterJoin(meter *value.Meter, v any, p *value.Params) (any, error) {
	sep, attribute := value.Str(meter, p.Any("d", "")), attributeOf(meter, p.Any("attribute", nil), nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, item := range items {
		if item, err = attribute(item); err != nil {
			return nil, err
		}
		text := value.Printed(meter, item)
		if err := meter.Reserve(len(text) + len(sep)); err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

func filterMap(meter *value.Meter, v any, p *value.Params) (any, error) {
	if !value.Truth(v) { // Jinja does not look further either
		return &value.List{}, nil
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	var each func(any) (any, error)
	if len(p.Args) == 0 {
		attribute, ok := p.Kwargs.Get("attribute")
		otherwise, more := p.Kwargs.Get("default")
		known := 1
		if more {
			known = 2
		}
		if !ok || p.Kwargs.Len() > known {
			return nil, errors.New("takes the name of a filter, or attribute and default")
		}
		each = attributeOf(meter, attribute, otherwise)
	} else {
		name := value.Str(meter, p.Args[0])
		f := filters[name]
		if f == nil {
			return nil, errors.New(noFilter(name))
		}
		each = func(v any) (any, error) { return f(meter, v, &value.Params{Args: p.Args[1:], Kwargs: p.Kwargs}) }
	}
	out := make([]any, 0, len(items))
	for _, item := range items {
		if err := meter.Step(); err != nil {
			return nil, err
		}
		if item, err = each(item); err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return meter.List(out)
}

// filterSelect makes a filter that keeps the items for which a test is true (keep) or false. It tests the item itself
// or one of its attributes.
func filterSelect(keep, ofAttribute bool) filter {
	return func(meter *value.Meter, v any, p *value.Params) (any, error) {
		attribute := attributeOf(meter, nil, nil)
		if ofAttribute {
			attribute = attributeOf(meter, p.Required("attribute"), nil)
		}
		name, named := p.Get("test")
		args := p.Rest()
		if err := p.Done(); err != nil {
			return nil, err
		}
		if !value.Truth(v) {
			return &value.List{}, nil
		}
		items, err := value.Iterate(v)
		if err != nil {
			return nil, err
		}
		out := []any{}
		for _, item := range items {
			if err := meter.Step(); err != nil {
				return nil, err
			}
			x, err := attribute(item)
			if err != nil {
				return nil, err
			}
			ok := value.Truth(x)
			if named {
				if ok, err = runTest(meter, value.Str(meter, name), x, args); err != nil {
					return nil, err
				}
			}
			if ok == keep {
				out = append(out, item)
			}
		}
		return meter.List(out)
	}
}

func filterExtreme(sign int) filter {
	return func(meter *value.Meter, v any, p *value.Params) (any, error) {
		cased, attribute := p.Bool("case_sensitive", false), attributeOf(meter, p.Any("attribute", nil), nil)
		if err := p.Done(); err != nil {
			return nil, err
		}
		items, err := value.Iterate(v)
		if err != nil {
			return nil, err
		}
		var best, bestKey any = value.Undefined{Why: "No aggregated item, sequence was empty."}, nil
		for i, item := range items {
			key, err := attribute(item)
			if err != nil {
				return nil, err
			}
			key = fold(key, cased)
			c := sign
			if i > 0 {
				if c, err = value.Compare(meter, key, bestKey, "<"); err != nil {
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

func filterSort(meter *value.Meter, v any, p *value.Params) (any, error) {
	reverse, cased, attribute := p.Bool("reverse", false), p.Bool("case_sensitive", false), p.Any("attribute", nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	items = append([]any{}, items...)
	var attributes []func(any) (any, error)
	if names, ok := attribute.(string); ok {
		for name := range strings.SplitSeq(names, ",") {
			attributes = append(attributes, attributeOf(meter, name, nil))
		}
	} else {
		attributes = append(attributes, attributeOf(meter, attribute, nil))
	}
	err = sortBy(meter, items, reverse, func(item any) (any, error) {
		keys := make([]any, len(attributes))
		for i := range attributes {
			key, err := attributes[i](item)
			if err != nil {
				return nil, err
			}
			keys[i] = fold(key, cased)
		}
		return &value.List{Items: keys}, nil
	})
	if err != nil {
		return nil, err
	}
	return meter.List(items)
}

func filterSum(meter *value.Meter, v any, p *value.Params) (any, error) {
	attribute, total := attributeOf(meter, p.Any("attribute", nil), nil), p.Any("start", 0)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if item, err = attribute(item); err != nil {
			return nil, err
		}
		if total, err = value.Arithmetic(meter, "+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func filterUnique(meter *value.Meter, v any, p *value.Params) (any, error) {
	cased, attribute := p.Bool("case_sensitive", false), attributeOf(meter, p.Any("attribute", nil), nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	seen, out := value.NewDict(), []any{}
	for _, item := range items {
		key, err := attribute(item)
		if err != nil {
			return nil, err
		}
		key = fold(key, cased)
		if !value.Hashable(key) {
			return nil, fmt.Errorf("unhashable type: '%s'", value.TypeName(key))
		}
		if _, twice := seen.Get(key); !twice {
			seen.Set(key, true)
			out = append(out, item)
		}
	}
	return meter.List(out)
}
