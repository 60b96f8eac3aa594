package jinja

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/quire/quire/text/chat/jinja/value"
)

func filterAttr(meter *value.Meter, v any, p *value.Params) (any, error) {
	name := p.NeedText("name")
	if err := p.Done(); err != nil {
		return nil, err
	}
	if _, ok := v.(*value.Dict); ok && value.Method(meter, v, name) == nil { // attributes only, not items
		return value.Undefined{Why: fmt.Sprintf("'dict object' has no attribute '%s'", name)}, nil
	}
	return value.Attr(meter, v, name)
}

func filterBatch(meter *value.Meter, v any, p *value.Params) (any, error) {
	n := p.Int("linecount", 0)
	fill := p.Any("fill_with", nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, errors.New("linecount must be at least 1")
	}
	rows := []any{}
	for chunk := range slices.Chunk(items, n) {
		row := slices.Clone(chunk)
		if fill != nil && len(row) < n {
			if err := meter.Reserve((n - len(row)) * value.ItemBytes); err != nil {
				return nil, err
			}
			for len(row) < n {
				row = append(row, fill)
			}
		}
		rows = append(rows, &value.List{Items: row})
	}
	return meter.List(rows)
}

func filterDefault(_ *value.Meter, v any, p *value.Params) (any, error) {
	otherwise, boolean := p.Any("default_value", ""), p.Bool("boolean", false)
	if _, isUndefined := v.(value.Undefined); isUndefined || boolean && !value.Truth(v) {
		v = otherwise
	}
	return v, p.Done()
}

func filterDictSort(meter *value.Meter, v any, p *value.Params) (any, error) {
	cased, by, reverse := p.Bool("case_sensitive", false), p.Text("by", "key"), p.Bool("reverse", false)
	d, ok := v.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("'%s' is not a dict", value.TypeName(v))
	}
	if err := p.Done(); err != nil {
		return nil, err
	}
	which := 0
	if by == "value" {
		which = 1
	}
	pairs := value.DictItems(d)
	err := sortBy(meter, pairs, reverse, func(x any) (any, error) { return fold(x.(value.Tuple)[which], cased), nil })
	if err != nil {
		return nil, err
	}
	return meter.List(pairs)
}

// filterEnd makes the filter for the first (0) or last (-1) item.
func filterEnd(which int) filter {
	return func(_ *value.Meter, v any, p *value.Params) (any, error) {
		items, err := value.Iterate(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return value.Undefined{Why: "No item, sequence was empty."}, p.Done()
		}
		return items[(len(items)+which)%len(items)], p.Done()
	}
}

func filterFormat(meter *value.Meter, v any, p *value.Params) (any, error) {
	if p.Kwargs.Len() > 0 && len(p.Args) > 0 {
		return nil, errors.New("takes positional or keyword arguments, not both")
	}
	if p.Kwargs.Len() > 0 {
		return value.Percent(meter, value.Printed(meter, v), nil, p.Kwargs)
	}
	return value.Percent(meter, value.Printed(meter, v), p.Args, nil)
}

func filterItems(meter *value.Meter, v any, p *value.Params) (any, error) {
	switch d := v.(type) {
	case *value.Dict:
		if err := p.Done(); err != nil {
			return nil, err
		}
		return meter.List(value.DictItems(d))
	case value.Undefined:
		return &value.List{}, p.Done()
	}
	return nil, errors.New("can only get item pairs from a mapping")
}

func filterLength(_ *value.Meter, v any, p *value.Params) (any, error) {
	if s, ok := v.(string); ok {
		return utf8.RuneCountInString(s), p.Done()
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, fmt.Errorf("object of type '%s' has no len()", value.TypeName(v))
	}
	return len(items), p.Done()
}

func filterList(meter *value.Meter, v any, p *value.Params) (any, error) {
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	return meter.List(slices.Clone(items))
}

func filterReverse(meter *value.Meter, v any, p *value.Params) (any, error) {
	if err := p.Done(); err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		runes, err := value.Runes(meter, s)
		if err != nil {
			return nil, err
		}
		slices.Reverse(runes)
		return string(runes), nil
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return meter.List(items)
}
