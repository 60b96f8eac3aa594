package jinja

import (
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"
)

// filterGroupBy sorts by an attribute and gives the runs that have an equal one.
func filterGroupBy(r *run, v any, p *params) (any, error) {
	of, cased := r.attributeOf(p.required("attribute"), p.any("default", nil)), p.bool("case_sensitive", false)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	key := func(item any) (any, error) {
		k, err := of(item)
		return fold(k, cased), err
	}
	if err := r.sortBy(items, false, key); err != nil {
		return nil, err
	}
	groups := []any{}
	var last any
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		if i == 0 || !r.equal(k, last) {
			grouper, err := of(item)
			if err != nil {
				return nil, err
			}
			groups = append(groups, &view{kind: groupView, items: []any{grouper, &List{}}})
			last = k
		}
		list := groups[len(groups)-1].(*view).items[1].(*List)
		list.Items = append(list.Items, item)
	}
	return r.list(groups)
}

// filterSlice cuts a sequence into columns.
func filterSlice(r *run, v any, p *params) (any, error) {
	n, fill := p.int("slices", 0), p.any("fill_with", nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	items, err := iterate(v)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, errors.New("slices must be at least 1")
	}
	if n > r.limits.Memory/itemBytes {
		return nil, r.make(-1)
	}
	if err := r.make(n * itemBytes); err != nil {
		return nil, err
	}
	columns := make([]any, n)
	each, more := len(items)/n, len(items)%n
	for i, at := 0, 0; i < n; i++ {
		end := at + each
		if i < more {
			end++
		}
		column := slices.Clone(items[at:end])
		if fill != nil && i >= more {
			column = append(column, fill)
		}
		columns[i], at = &List{column}, end
	}
	return r.list(columns)
}

func filterURLEncode(r *run, v any, p *params) (any, error) {
	if err := p.done(); err != nil {
		return nil, err
	}
	var pairs []any
	switch x := v.(type) {
	case *Dict:
		pairs = dictItems(x)
	case *List:
		pairs = x.Items
	case Tuple:
		pairs = x
	case *view:
		pairs = x.items
	default:
		return r.text(quoteURL(r.printed(v), "/"))
	}
	var b strings.Builder
	for i, pair := range pairs {
		kv, err := iterate(pair)
		if err != nil || len(kv) != 2 {
			return nil, errors.New("takes text, a mapping or a list of pairs")
		}
		if i > 0 {
			b.WriteByte('&')
		}
		for j, part := range kv {
			text := quoteURL(r.printed(part), "")
			if err := r.make(len(text)); err != nil {
				return nil, err
			}
			if j == 1 {
				b.WriteByte('=')
			}
			b.WriteString(strings.ReplaceAll(text, "%20", "+"))
		}
	}
	return b.String(), nil
}

// quoteURL is urllib.parse.quote.
func quoteURL(s, safe string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_.-~"+safe, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// stripTags removes comments and tags, joins runs of space, and replaces entities.
func stripTags(s string) string {
	for _, marks := range [][2]string{{"<!--", "-->"}, {"<", ">"}} {
		var b strings.Builder
		for {
			start := strings.Index(s, marks[0])
			if start < 0 {
				break
			}
			end := strings.Index(s[start:], marks[1])
			if end < 0 {
				break
			}
			b.WriteString(s[:start])
			s = s[start+end+len(marks[1]):]
		}
		s = b.String() + s
	}
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, pySpace), " "))
}

func filterFileSize(_ *run, v any, p *params) (any, error) {
	binary := p.bool("binary", false)
	if err := p.done(); err != nil {
		return nil, err
	}
	var f float64
	var err error
	if s, ok := v.(string); ok {
		if f, ok = parseFloat(s); !ok {
			err = fmt.Errorf("could not convert string to float: %q", s)
		}
	} else {
		f, err = toFloat(v)
	}
	if err != nil {
		return nil, err
	}
	base, names := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if binary {
		base, names = 1024, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	switch {
	case f == 1:
		return "1 Byte", nil
	case f < base:
		n, err := truncated(f)
		return fmt.Sprint(n, " Bytes"), err
	}
	unit := base
	for i, name := range names {
		unit *= base
		if f < unit || i == len(names)-1 {
			return fmt.Sprintf("%.1f %s", base*f/unit, name), nil
		}
	}
	return nil, nil
}

// expandTabs is str.expandtabs.
func (r *run) expandTabs(s string, size int) (any, error) {
	var b strings.Builder
	column := 0
	for _, c := range s {
		switch c {
		case '\t':
			if size > 0 {
				n := size - column%size
				if err := r.make(n); err != nil {
					return nil, err
				}
				b.WriteString(strings.Repeat(" ", n))
				column += n
			}
			continue
		case '\n', '\r':
			column = -1
		}
		b.WriteRune(c)
		column++
	}
	return r.text(b.String())
}

func filterXMLAttr(r *run, v any, p *params) (any, error) {
	space := p.bool("autospace", true)
	d, ok := v.(*Dict)
	if !ok {
		return nil, fmt.Errorf("'%s' is no dict", typeName(v))
	}
	if err := p.done(); err != nil {
		return nil, err
	}
	var b strings.Builder
	for k, v := range d.All() {
		if _, missing := v.(undefined); missing || v == nil {
			continue
		}
		name := r.str(k)
		if strings.IndexFunc(name, func(c rune) bool { return pySpace(c) || strings.ContainsRune("/>=", c) }) >= 0 {
			return nil, fmt.Errorf("invalid character in attribute name: %q", name)
		}
		if b.Len() > 0 || space {
			b.WriteByte(' ')
		}
		b.WriteString(escapeHTML(name) + `="` + escapeHTML(r.str(v)) + `"`)
	}
	return r.text(b.String())
}
