package value

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

type method func(meter *Meter, p *Params) (any, error)

// Method returns the bound method v.name, or nil if there is none.
func Method(meter *Meter, v any, name string) *Func {
	var m method
	switch x := v.(type) {
	case string:
		m = stringMethod(x, name)
	case *Dict:
		m = dictMethod(x, name)
	case *List:
		m = sequenceMethod(x.Items, name)
		if name == "copy" {
			m = func(meter *Meter, _ *Params) (any, error) { return meter.List(slices.Clone(x.Items)) }
		}
	case Tuple:
		m = sequenceMethod(x, name)
	case *View:
		if x.indexed() {
			m = sequenceMethod(x.items, name)
		}
	}
	if m == nil {
		return nil
	}
	return &Func{name, func(args []any, kwargs *Dict) (any, error) {
		if err := meter.Step(); err != nil {
			return nil, err
		}
		p := &Params{Args: args, Kwargs: kwargs}
		out, err := m(meter, p)
		if err == nil {
			err = p.Done()
		}
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", TypeName(v), name, err)
		}
		return out, nil
	}}
}

func dictMethod(d *Dict, name string) method {
	switch name {
	case "items":
		return func(meter *Meter, _ *Params) (any, error) { return newView(meter, "dict_items", DictItems(d)) }
	case "keys":
		return func(meter *Meter, _ *Params) (any, error) { return newView(meter, keysView, slices.Clone(d.keys)) }
	case "values":
		return func(meter *Meter, _ *Params) (any, error) {
			return newView(meter, "dict_values", slices.Clone(d.values))
		}
	case "get":
		return func(_ *Meter, p *Params) (any, error) {
			key, otherwise := p.Required("key"), p.Any("default", nil)
			if v, ok := d.Get(key); ok {
				return v, nil
			}
			return otherwise, nil
		}
	case "copy":
		return func(meter *Meter, _ *Params) (any, error) {
			out := NewDict()
			for i, k := range d.keys {
				out.Set(k, d.values[i])
			}
			return out, meter.Reserve(2 * ItemBytes * len(d.keys))
		}
	}
	return nil
}

func sequenceMethod(items []any, name string) method {
	switch name {
	case "index":
		return func(meter *Meter, p *Params) (any, error) {
			v := p.Required("value")
			for i, item := range items {
				if Equal(meter, item, v) {
					return i, nil
				}
			}
			return nil, fmt.Errorf("%s is not in list", Repr(meter, v))
		}
	case "count":
		return func(meter *Meter, p *Params) (any, error) {
			v, n := p.Required("value"), 0
			for _, item := range items {
				if Equal(meter, item, v) {
					n++
				}
			}
			return n, nil
		}
	}
	return nil
}

// stringMethod returns the method of the string s with that name, or nil if there is none.
func stringMethod(s, name string) method {
	for _, find := range []func(s, name string) method{casing, predicate, searching, cutting, padding} {
		if m := find(s, name); m != nil {
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
		change = Upper
	case "lower":
		change = Lower
	case "casefold":
		change = casefold
	case "capitalize":
		change = Capitalize
	case "title":
		change = titleMethod
	case "swapcase":
		change = swapCase
	default:
		return nil
	}
	return func(meter *Meter, _ *Params) (any, error) {
		if err := meter.Reserve(len(s)); err != nil {
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
		return func(_ *Meter, p *Params) (any, error) { return strings.Count(s, p.NeedText("sub")), nil }
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
		return func(meter *Meter, p *Params) (any, error) {
			return StripChars(s, p.Any("chars", nil), left, right), nil
		}
	}
	switch name {
	case "strip":
		return stripped(true, true)
	case "lstrip":
		return stripped(true, false)
	case "rstrip":
		return stripped(false, true)
	case "removeprefix":
		return func(_ *Meter, p *Params) (any, error) { return strings.TrimPrefix(s, p.NeedText("prefix")), nil }
	case "removesuffix":
		return func(_ *Meter, p *Params) (any, error) { return strings.TrimSuffix(s, p.NeedText("suffix")), nil }
	case "split":
		return func(meter *Meter, p *Params) (any, error) { return split(meter, s, p, false) }
	case "rsplit":
		return func(meter *Meter, p *Params) (any, error) { return split(meter, s, p, true) }
	case "splitlines":
		return func(meter *Meter, p *Params) (any, error) { return splitLinesList(meter, s, p.Bool("keepends", false)) }
	case "join":
		return func(meter *Meter, p *Params) (any, error) { return joinTexts(meter, s, p.Required("iterable")) }
	case "replace":
		return func(meter *Meter, p *Params) (any, error) {
			old, with, n := p.NeedText("old"), p.NeedText("new"), p.Int("count", -1)
			if p.err != nil {
				return nil, p.err
			}
			return Replace(meter, s, old, with, n)
		}
	}
	return nil
}

// padding returns format and the methods that pad a string to a width.
func padding(s, name string) method {
	switch name {
	case "format":
		return func(meter *Meter, p *Params) (any, error) { return format(meter, s, p) }
	case "zfill":
		return func(meter *Meter, p *Params) (any, error) {
			sign := 0
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign = 1
			}
			zeros, err := Repeat(meter, "0", p.Int("width", 0)-utf8.RuneCountInString(s))
			if err != nil {
				return nil, err
			}
			return meter.Text(s[:sign] + zeros.(string) + s[sign:])
		}
	case "expandtabs":
		return func(meter *Meter, p *Params) (any, error) { return expandTabs(meter, s, p.Int("tabsize", 8)) }
	case "format_map":
		return func(meter *Meter, p *Params) (any, error) {
			d, ok := p.Required("mapping").(*Dict)
			if !ok {
				return nil, errors.New("takes a mapping")
			}
			text, err := format(meter, s, &Params{Kwargs: d})
			return text, err
		}
	case "center":
		return func(meter *Meter, p *Params) (any, error) {
			width, fill := p.Int("width", 0), p.Text("fillchar", " ")
			return Center(meter, s, width, fill)
		}
	case "ljust", "rjust":
		return func(meter *Meter, p *Params) (any, error) {
			width, fill := p.Int("width", 0), p.Text("fillchar", " ")
			pad, err := Repeat(meter, fill, width-utf8.RuneCountInString(s))
			if err != nil {
				return nil, err
			}
			if name == "ljust" {
				return meter.Text(s + pad.(string))
			}
			return meter.Text(pad.(string) + s)
		}
	}
	return nil
}

func affix(s string, has func(s, affix string) bool) method {
	return func(_ *Meter, p *Params) (any, error) {
		v := p.Required("prefix")
		options, ok := v.(Tuple)
		if !ok {
			options = Tuple{v}
		}
		for _, o := range options {
			text, ok := o.(string)
			if !ok {
				return nil, fmt.Errorf("first arg must be str or a tuple of str, not %s", TypeName(o))
			}
			if has(s, text) {
				return true, nil
			}
		}
		return false, nil
	}
}

func position(s, name string, find func(s, sub string) int) method {
	return func(_ *Meter, p *Params) (any, error) {
		i := find(s, p.NeedText("sub"))
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
	return func(_ *Meter, p *Params) (any, error) {
		sep := p.NeedText("sep")
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

// predicate returns the methods that test all characters.
func predicate(s, name string) method {
	answer := func(yes bool) method { return func(*Meter, *Params) (any, error) { return yes, nil } }
	all := func(f func(rune) bool) method {
		return func(*Meter, *Params) (any, error) {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0, nil
		}
	}
	switch name {
	case "isdecimal":
		return all(unicode.IsDigit)
	case "isdigit":
		return all(func(r rune) bool { return unicode.IsDigit(r) || unicode.Is(furtherDigits, r) })
	case "isnumeric":
		return all(func(r rune) bool { return unicode.IsNumber(r) || strings.ContainsRune(numericLetters, r) })
	case "isalpha":
		return all(unicode.IsLetter)
	case "isalnum":
		return all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	case "isspace":
		return all(IsSpace)
	case "isascii":
		return answer(strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0)
	case "isprintable":
		return answer(strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0)
	case "isidentifier":
		return answer(identifier.MatchString(s))
	case "isupper":
		return answer(AllCased(s, IsUpper))
	case "islower":
		return answer(AllCased(s, IsLower))
	case "istitle":
		return answer(isTitle(s))
	}
	return nil
}

var identifier = regexp.MustCompile(`^[\pL\p{Nl}_][\pL\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}]*$`)
