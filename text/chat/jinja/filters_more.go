package jinja

import (
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

// filterGroupBy sorts by an attribute and returns the groups of items with an equal attribute.
func filterGroupBy(meter *value.Meter, v any, p *value.Params) (any, error) {
	attribute, cased := attributeOf(meter, p.Required("attribute"), p.Any("default", nil)),
		p.Bool("case_sensitive", false)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	key := func(item any) (any, error) {
		k, err := attribute(item)
		return fold(k, cased), err
	}
	if err := sortBy(meter, items, false, key); err != nil {
		return nil, err
	}
	groups := []any{}
	var group *value.List
	var last any
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		if i == 0 || !value.Equal(meter, k, last) {
			grouper, err := attribute(item)
			if err != nil {
				return nil, err
			}
			group = &value.List{}
			groups = append(groups, value.NewGroup(grouper, group))
			last = k
		}
		group.Items = append(group.Items, item)
	}
	return meter.List(groups)
}

// filterSlice cuts a sequence into columns.
func filterSlice(meter *value.Meter, v any, p *value.Params) (any, error) {
	n, fill := p.Int("slices", 0), p.Any("fill_with", nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	items, err := value.Iterate(v)
	if err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, errors.New("slices must be at least 1")
	}
	if err := meter.ReserveItems(n); err != nil {
		return nil, err
	}
	columns := make([]any, n)
	each, more := len(items)/n, len(items)%n
	for i, start := 0, 0; i < n; i++ {
		end := start + each
		if i < more {
			end++
		}
		column := slices.Clone(items[start:end])
		if fill != nil && i >= more {
			column = append(column, fill)
		}
		columns[i], start = &value.List{Items: column}, end
	}
	return meter.List(columns)
}

func filterURLEncode(meter *value.Meter, v any, p *value.Params) (any, error) {
	if err := p.Done(); err != nil {
		return nil, err
	}
	var pairs []any
	switch x := v.(type) {
	case *value.Dict:
		pairs = value.DictItems(x)
	case *value.List:
		pairs = x.Items
	case value.Tuple:
		pairs = x
	case *value.View:
		pairs, _ = value.Iterate(x)
	default:
		return meter.Text(quoteURL(value.Printed(meter, v), "/"))
	}
	var b strings.Builder
	for i, pair := range pairs {
		kv, err := value.Iterate(pair)
		if err != nil || len(kv) != 2 {
			return nil, errors.New("takes text, a mapping or a list of pairs")
		}
		if i > 0 {
			b.WriteByte('&')
		}
		for j, part := range kv {
			text := quoteURL(value.Printed(meter, part), "")
			if err := meter.Reserve(len(text)); err != nil {
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

// stripTags removes comments and tags, collapses whitespace, and replaces entities.
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
	return html.UnescapeString(strings.Join(strings.FieldsFunc(s, value.IsSpace), " "))
}

func filterFileSize(_ *value.Meter, v any, p *value.Params) (any, error) {
	binary := p.Bool("binary", false)
	if err := p.Done(); err != nil {
		return nil, err
	}
	var f float64
	var err error
	if s, ok := v.(string); ok {
		if f, ok = value.ParseFloat(s); !ok {
			err = fmt.Errorf("could not convert string to float: %q", s)
		}
	} else {
		f, err = value.ToFloat(v)
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
		n, err := value.Truncate(f)
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

func filterXMLAttr(meter *value.Meter, v any, p *value.Params) (any, error) {
	space := p.Bool("autospace", true)
	d, ok := v.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("'%s' is not a dict", value.TypeName(v))
	}
	if err := p.Done(); err != nil {
		return nil, err
	}
	var b strings.Builder
	for k, v := range d.All() {
		if _, missing := v.(value.Undefined); missing || v == nil {
			continue
		}
		name := value.Str(meter, k)
		if strings.IndexFunc(name, func(c rune) bool {
			return value.IsSpace(c) || strings.ContainsRune("/>=",
				c)
		}) >= 0 {
			return nil, fmt.Errorf("invalid character in attribute name: %q", name)
		}
		if b.Len() > 0 || space {
			b.WriteByte(' ')
		}
		b.WriteString(escapeHTML(name) + `="` + escapeHTML(value.Str(meter, v)) + `"`)
	}
	return meter.Text(b.String())
}

func filterPrettyPrint(meter *value.Meter, v any, p *value.Params) (any, error) {
	if err := p.Done(); err != nil {
		return nil, err
	}
	return meter.Text(value.Pretty(meter, v))
}
