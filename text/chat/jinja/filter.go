package jinja

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

// filter applies a filter to a value, with arguments.
type filter func(meter *value.Meter, v any, p *value.Params) (any, error)

// filters is filled by init, because filters that apply others by name refer to it.
var filters map[string]filter

// noFilter is the message for a filter that this package lacks. Jinja has random and urlize.
func noFilter(name string) string {
	switch name {
	case "random":
		return "the filter random is not supported: a prompt must be the same in each run"
	case "urlize":
		return "the filter urlize is not supported: it makes links of HTML"
	}
	return fmt.Sprintf("there is no filter %q", name)
}

// textFilter makes a filter of the value's text that takes no arguments.
func textFilter(f func(string) string) filter {
	return func(meter *value.Meter, v any, p *value.Params) (any, error) {
		if err := p.Done(); err != nil {
			return nil, err
		}
		s := value.Printed(meter, v)
		if err := meter.Reserve(len(s)); err != nil {
			return nil, err
		}
		return f(s), nil
	}
}

// fold returns v in lower case if v is text and case does not matter.
func fold(v any, cased bool) any {
	if s, ok := v.(string); ok && !cased {
		return value.Lower(s)
	}
	return v
}

// sortBy sorts items by their keys. The sort is stable.
func sortBy(meter *value.Meter, items []any, reverse bool, key func(any) (any, error)) error {
	type keyed struct{ key, item any }
	all := make([]keyed, len(items))
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return err
		}
		all[i] = keyed{k, item}
	}
	var failed error
	slices.SortStableFunc(all, func(a, b keyed) int {
		c, err := value.Compare(meter, a.key, b.key, "<")
		if err != nil {
			failed = err
		}
		if reverse {
			return -c
		}
		return c
	})
	for i := range all {
		items[i] = all[i].item
	}
	return failed
}

// attributeOf returns the function for the argument attribute of map, sort and others: "a.b" or an index. otherwise
// replaces what is missing.
func attributeOf(meter *value.Meter, attribute, otherwise any) func(any) (any, error) {
	if attribute == nil {
		return func(v any) (any, error) { return v, nil }
	}
	return func(v any) (any, error) {
		for part := range strings.SplitSeq(value.Str(meter, attribute), ".") {
			var key any = part
			if n, err := strconv.Atoi(part); err == nil {
				key = n
			}
			var err error
			if v, err = value.Item(meter, v, key); err != nil {
				return nil, err
			}
			if _, missing := v.(value.Undefined); missing && otherwise != nil {
				v = otherwise
			}
		}
		return v, nil
	}
}
