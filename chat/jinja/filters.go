package jinja

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

type filter func(r *run, v any, p *params) (any, error)

// noFilter is the error of a filter that this package lacks. Jinja has random and urlize.
func noFilter(name string) string {
	switch name {
	case "random":
		return "the filter random is not supported: a prompt must be the same in each run"
	case "urlize":
		return "the filter urlize is not supported: it makes links of HTML"
	}
	return fmt.Sprintf("there is no filter %q", name)
}

// filters is filled in init: the filters that call others by name refer to it.
var filters map[string]filter

func init() {
	filters = map[string]filter{
		"abs":            filterAbs,
		"attr":           filterAttr,
		"batch":          filterBatch,
		"capitalize":     textFilter(capitalize),
		"center":         filterCenter,
		"count":          filterLength,
		"d":              filterDefault,
		"default":        filterDefault,
		"dictsort":       filterDictSort,
		"e":              textFilter(escapeHTML),
		"escape":         textFilter(escapeHTML),
		"first":          filterEnd(0),
		"filesizeformat": filterFileSize,
		"forceescape":    textFilter(escapeHTML),
		"groupby":        filterGroupBy,
		"pprint":         filterPrettyPrint,
		"slice":          filterSlice,
		"striptags":      textFilter(stripTags),
		"urlencode":      filterURLEncode,
		"float":          filterFloat,
		"format":         filterFormat,
		"indent":         filterIndent,
		"int":            filterInt,
		"items":          filterItems,
		"join":           filterJoin,
		"last":           filterEnd(-1),
		"length":         filterLength,
		"list":           filterList,
		"lower":          textFilter(lower),
		"map":            filterMap,
		"max":            filterExtreme(1),
		"min":            filterExtreme(-1),
		"reject":         filterSelect(false, false),
		"rejectattr":     filterSelect(false, true),
		"replace":        filterReplace,
		"reverse":        filterReverse,
		"round":          filterRound,
		"safe":           textFilter(func(s string) string { return s }),
		"select":         filterSelect(true, false),
		"selectattr":     filterSelect(true, true),
		"sort":           filterSort,
		"string":         textFilter(func(s string) string { return s }),
		"sum":            filterSum,
		"title":          textFilter(titleFilter),
		"tojson":         filterToJSON,
		"trim":           filterTrim,
		"truncate":       filterTruncate,
		"unique":         filterUnique,
		"upper":          textFilter(upper),
		"wordcount":      filterWordCount,
		"wordwrap":       filterWordWrap,
		"xmlattr":        filterXMLAttr,
	}
}

// textFilter is a filter of the value's text that takes no arguments.
func textFilter(f func(string) string) filter {
	return func(r *run, v any, p *params) (any, error) {
		if err := p.done(); err != nil {
			return nil, err
		}
		s := r.printed(v)
		if err := r.make(len(s)); err != nil {
			return nil, err
		}
		return f(s), nil
	}
}

func filterAttr(r *run, v any, p *params) (any, error) {
	name := p.needText("name")
	if err := p.done(); err != nil {
		return nil, err
	}
	if _, ok := v.(*Dict); ok && r.method(v, name) == nil { // attributes only, not items
		return undefined{why: fmt.Sprintf("'dict object' has no attribute '%s'", name)}, nil
	}
	return r.attr(v, name)
}

func filterBatch(r *run, v any, p *params) (any, error) {
	n := p.int("linecount", 0)
	fill := p.any("fill_with", nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
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
			if err := r.make((n - len(row)) * itemBytes); err != nil {
				return nil, err
			}
			for len(row) < n {
				row = append(row, fill)
			}
		}
		rows = append(rows, &List{row})
	}
	return r.list(rows)
}

func filterDefault(_ *run, v any, p *params) (any, error) {
	otherwise, boolean := p.any("default_value", ""), p.bool("boolean", false)
	if _, is := v.(undefined); is || boolean && !truth(v) {
		v = otherwise
	}
	return v, p.done()
}

func filterDictSort(r *run, v any, p *params) (any, error) {
	cased, by, reverse := p.bool("case_sensitive", false), p.text("by", "key"), p.bool("reverse", false)
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("'%s' is no dict", typeName(v))
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	which := 0
	if by == "value" {
		which = 1
	}
	pairs := dictItems(d)
	err := r.sortBy(pairs, reverse, func(x any) (any, error) { return fold(x.(Tuple)[which], cased), nil })
	if err != nil {
		return nil, err
	}
	return r.list(pairs)
}

func dictItems(d *Dict) []any {
	pairs := make([]any, len(d.keys))
	for i, k := range d.keys {
		pairs[i] = Tuple{k, d.values[i]}
	}
	return pairs
}

// fold is v in lower case where that is text and case does not count.
func fold(v any, cased bool) any {
	if s, ok := v.(string); ok && !cased {
		return lower(s)
	}
	return v
}

// sortBy sorts stably by a key of each item.
func (r *run) sortBy(items []any, reverse bool, key func(any) (any, error)) error {
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
		c, err := r.compare(a.key, b.key, "<")
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

// filterEnd is the first (0) or last (-1) item.
func filterEnd(which int) filter {
	return func(_ *run, v any, p *params) (any, error) {
		items, err := iterate(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return undefined{why: "No item, sequence was empty."}, p.done()
		}
		return items[(len(items)+which)%len(items)], p.done()
	}
}

func filterFormat(r *run, v any, p *params) (any, error) {
	if len(p.kwargs.keys) > 0 && len(p.args) > 0 {
		return nil, errors.New("takes positional or keyword arguments, not both")
	}
	if len(p.kwargs.keys) > 0 {
		return r.percent(r.printed(v), nil, p.kwargs)
	}
	return r.percent(r.printed(v), p.args, nil)
}

func filterItems(r *run, v any, p *params) (any, error) {
	switch d := v.(type) {
	case *Dict:
		if err := p.done(); err != nil {
			return nil, err
		}
		return r.list(dictItems(d))
	case undefined:
		return &List{}, p.done()
	}
	return nil, errors.New("can only get item pairs from a mapping")
}

func filterLength(_ *run, v any, p *params) (any, error) {
	if s, ok := v.(string); ok {
		return utf8.RuneCountInString(s), p.done()
	}
	items, err := iterate(v)
	if err != nil {
		return nil, fmt.Errorf("object of type '%s' has no len()", typeName(v))
	}
	return len(items), p.done()
}

func filterList(r *run, v any, p *params) (any, error) {
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	return r.list(slices.Clone(items))
}

func filterReverse(r *run, v any, p *params) (any, error) {
	if err := p.done(); err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok {
		runes, err := r.runes(s)
		if err != nil {
			return nil, err
		}
		slices.Reverse(runes)
		return string(runes), nil
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	return r.list(items)
}
