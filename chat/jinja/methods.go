package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

type method func(r *run, p *params) (any, error)

// method returns the bound method v.name, nil where there is none.
func (r *run) method(v any, name string) *Func {
	var m method
	switch x := v.(type) {
	case string:
		m = stringMethod(x, name)
	case *Dict:
		m = dictMethod(x, name)
	case *List:
		m = sequenceMethod(x.Items, name)
		if name == "copy" {
			m = func(r *run, p *params) (any, error) { return filterList(r, x, p) }
		}
	case Tuple:
		m = sequenceMethod(x, name)
	case *view:
		if x.indexed() {
			m = sequenceMethod(x.items, name)
		}
	}
	if m == nil {
		return nil
	}
	return &Func{name, func(args []any, kwargs *Dict) (any, error) {
		if err := r.step(); err != nil {
			return nil, err
		}
		p := &params{args: args, kwargs: kwargs}
		out, err := m(r, p)
		if err == nil {
			err = p.done()
		}
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", typeName(v), name, err)
		}
		return out, nil
	}}
}

func dictMethod(d *Dict, name string) method {
	switch name {
	case "items":
		return func(r *run, _ *params) (any, error) { return r.view("dict_items", dictItems(d)) }
	case "keys":
		return func(r *run, _ *params) (any, error) { return r.view(keysView, slices.Clone(d.keys)) }
	case "values":
		return func(r *run, _ *params) (any, error) { return r.view("dict_values", slices.Clone(d.values)) }
	case "get":
		return func(_ *run, p *params) (any, error) {
			key, otherwise := p.required("key"), p.any("default", nil)
			if v, ok := d.get(key); ok {
				return v, nil
			}
			return otherwise, nil
		}
	case "copy":
		return func(r *run, _ *params) (any, error) {
			out := NewDict()
			for i, k := range d.keys {
				out.set(k, d.values[i])
			}
			return out, r.make(2 * itemBytes * len(d.keys))
		}
	}
	return nil
}

func sequenceMethod(items []any, name string) method {
	switch name {
	case "index":
		return func(r *run, p *params) (any, error) {
			v := p.required("value")
			for i, item := range items {
				if r.equal(item, v) {
					return i, nil
				}
			}
			return nil, fmt.Errorf("%s is not in list", r.repr(v))
		}
	case "count":
		return func(r *run, p *params) (any, error) {
			v, n := p.required("value"), 0
			for _, item := range items {
				if r.equal(item, v) {
					n++
				}
			}
			return n, nil
		}
	}
	return nil
}

// Strip is Python's str.strip.
func Strip(s string) string { return strip(s, nil, true, true) }

// StripRight is Python's str.rstrip.
func StripRight(s string) string { return strip(s, nil, false, true) }

// strip is Python's str.strip and its one-sided forms: of the characters in
// chars, nil for whitespace.
func strip(s string, chars any, left, right bool) string {
	in := pySpace
	if set, ok := chars.(string); ok {
		in = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, in)
	}
	if right {
		s = strings.TrimRightFunc(s, in)
	}
	return s
}

// pySpace is str.isspace: Unicode's and the four separators 0x1c to 0x1f.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// stringMethod returns the method of the string s with that name, nil where there is none.
func stringMethod(s, name string) method {
	for _, of := range []func(s, name string) method{casing, predicate, searching, cutting, padding} {
		if m := of(s, name); m != nil {
			return m
		}
	}
	return nil
}

// casing returns the methods that change the case of letters.
func casing(s, name string) method {
	var change func(string) string
	switch name {
	case "upper":
		change = upper
	case "lower":
		change = lower
	case "casefold":
		change = casefold
	case "capitalize":
		change = capitalize
	case "title":
		change = titleMethod
	case "swapcase":
		change = swapCase
	default:
		return nil
	}
	return func(r *run, _ *params) (any, error) {
		if err := r.make(len(s)); err != nil {
			return nil, err
		}
		return change(s), nil
	}
}

// searching returns the methods that find one string in another.
func searching(s, name string) method {
	switch name {
	case "startswith":
		return affix(s, strings.HasPrefix)
	case "endswith":
		return affix(s, strings.HasSuffix)
	case "find", "index":
		return position(s, name, strings.Index)
	case "rfind", "rindex":
		return position(s, name, strings.LastIndex)
	case "count":
		return func(_ *run, p *params) (any, error) { return strings.Count(s, p.needText("sub")), nil }
	case "partition":
		return partition(s, name, strings.Index)
	case "rpartition":
		return partition(s, name, strings.LastIndex)
	}
	return nil
}

// cutting returns the methods that remove, split, join and replace.
func cutting(s, name string) method {
	stripped := func(left, right bool) method {
		return func(r *run, p *params) (any, error) { return strip(s, p.any("chars", nil), left, right), nil }
	}
	switch name {
	case "strip":
		return stripped(true, true)
	case "lstrip":
		return stripped(true, false)
	case "rstrip":
		return stripped(false, true)
	case "removeprefix":
		return func(_ *run, p *params) (any, error) { return strings.TrimPrefix(s, p.needText("prefix")), nil }
	case "removesuffix":
		return func(_ *run, p *params) (any, error) { return strings.TrimSuffix(s, p.needText("suffix")), nil }
	case "split":
		return func(r *run, p *params) (any, error) { return r.split(s, p, false) }
	case "rsplit":
		return func(r *run, p *params) (any, error) { return r.split(s, p, true) }
	case "splitlines":
		return func(r *run, p *params) (any, error) { return r.splitLines(s, p.bool("keepends", false)) }
	case "join":
		return func(r *run, p *params) (any, error) { return r.join(s, p.required("iterable")) }
	case "replace":
		return func(r *run, p *params) (any, error) {
			old, with, n := p.needText("old"), p.needText("new"), p.int("count", -1)
			if p.err != nil {
				return nil, p.err
			}
			return r.replace(s, old, with, n)
		}
	}
	return nil
}

// padding returns the methods that bring a string to a width, and format.
func padding(s, name string) method {
	switch name {
	case "format":
		return func(r *run, p *params) (any, error) { return r.format(s, p) }
	case "zfill":
		return func(r *run, p *params) (any, error) {
			sign := 0
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign = 1
			}
			zeros, err := r.repeat("0", p.int("width", 0)-utf8.RuneCountInString(s))
			if err != nil {
				return nil, err
			}
			return r.text(s[:sign] + zeros.(string) + s[sign:])
		}
	case "expandtabs":
		return func(r *run, p *params) (any, error) { return r.expandTabs(s, p.int("tabsize", 8)) }
	case "format_map":
		return func(r *run, p *params) (any, error) {
			d, ok := p.required("mapping").(*Dict)
			if !ok {
				return nil, errors.New("takes a mapping")
			}
			text, err := r.format(s, &params{kwargs: d})
			return text, err
		}
	case "center":
		return func(r *run, p *params) (any, error) {
			width, fill := p.int("width", 0), p.text("fillchar", " ")
			return r.center(s, width, fill)
		}
	case "ljust", "rjust":
		return func(r *run, p *params) (any, error) {
			width, fill := p.int("width", 0), p.text("fillchar", " ")
			pad, err := r.repeat(fill, width-utf8.RuneCountInString(s))
			if err != nil {
				return nil, err
			}
			if name == "ljust" {
				return r.text(s + pad.(string))
			}
			return r.text(pad.(string) + s)
		}
	}
	return nil
}

// split is str.split and, from the right, str.rsplit.
func (r *run) split(s string, p *params, fromRight bool) (any, error) {
	sep, most := p.any("sep", nil), p.int("maxsplit", -1)
	if p.err != nil {
		return nil, p.err
	}
	by, given := sep.(string)
	if !given && sep != nil {
		return nil, fmt.Errorf("must be str or None, not %s", typeName(sep))
	}
	if given && by == "" {
		return nil, errors.New("empty separator")
	}
	if err := r.make(len(s) + itemBytes); err != nil {
		return nil, err
	}
	var parts []string
	for most != 0 {
		if !given { // runs of whitespace, none at the ends
			if fromRight {
				s = strings.TrimRightFunc(s, pySpace)
			} else {
				s = strings.TrimLeftFunc(s, pySpace)
			}
		}
		start, end := cutAt(s, by, given, fromRight)
		if start < 0 {
			break
		}
		if fromRight {
			parts, s = append(parts, s[end:]), s[:start]
		} else {
			parts, s = append(parts, s[:start]), s[end:]
		}
		most--
	}
	if !given {
		s = strip(s, nil, !fromRight, fromRight)
	}
	if given || s != "" {
		parts = append(parts, s)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return r.strings(parts)
}

// cutAt finds the next separator of split, -1 for none.
func cutAt(s, by string, given, fromRight bool) (start, end int) {
	switch {
	case given && fromRight:
		start = strings.LastIndex(s, by)
		return start, start + len(by)
	case given:
		start = strings.Index(s, by)
		return start, start + len(by)
	case fromRight:
		start = strings.LastIndexFunc(s, pySpace)
	default:
		start = strings.IndexFunc(s, pySpace)
	}
	if start < 0 {
		return start, start
	}
	_, n := utf8.DecodeRuneInString(s[start:])
	return start, start + n
}

func (r *run) strings(parts []string) (any, error) {
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return r.list(items)
}

func (r *run) splitLines(s string, keep bool) (any, error) {
	if err := r.make(len(s)); err != nil {
		return nil, err
	}
	return r.strings(splitLines(s, keep))
}

// splitLines is str.splitlines.
func splitLines(s string, keep bool) (parts []string) {
	for s != "" {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(parts, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if keep {
			parts = append(parts, s[:i+n])
		} else {
			parts = append(parts, s[:i])
		}
		s = s[i+n:]
	}
	return parts
}

func (r *run) join(sep string, v any) (any, error) {
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
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

func affix(s string, has func(s, affix string) bool) method {
	return func(_ *run, p *params) (any, error) {
		v := p.required("prefix")
		options, ok := v.(Tuple)
		if !ok {
			options = Tuple{v}
		}
		for _, o := range options {
			text, ok := o.(string)
			if !ok {
				return nil, fmt.Errorf("first arg must be str or a tuple of str, not %s", typeName(o))
			}
			if has(s, text) {
				return true, nil
			}
		}
		return false, nil
	}
}

func position(s, name string, find func(s, sub string) int) method {
	return func(_ *run, p *params) (any, error) {
		i := find(s, p.needText("sub"))
		if i < 0 && strings.HasSuffix(name, "index") {
			return nil, errors.New("substring not found")
		}
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return i, nil
	}
}

func partition(s, name string, find func(s, sub string) int) method {
	return func(_ *run, p *params) (any, error) {
		sep := p.needText("sep")
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		i := find(s, sep)
		if i < 0 {
			if name == "rpartition" {
				return Tuple{"", "", s}, nil
			}
			return Tuple{s, "", ""}, nil
		}
		return Tuple{s[:i], sep, s[i+len(sep):]}, nil
	}
}
