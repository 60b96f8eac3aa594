package value

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Center is Python's str.center.
func Center(meter *Meter, s string, width int, fill string) (any, error) {
	pad := width - utf8.RuneCountInString(s)
	if pad <= 0 {
		return s, nil
	}
	if err := meter.Reserve(len(s) + pad*len(fill)); err != nil {
		return nil, err
	}
	left := pad/2 + pad&width&1
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, pad-left), nil
}

// Replace is strings.Replace within the limits.
func Replace(meter *Meter, s, old, with string, n int) (any, error) {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	if count > 0 && len(with) > meter.memory/count {
		return nil, meter.Reserve(-1)
	}
	if err := meter.Reserve(len(s) + count*len(with)); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, with, n), nil
}

// expandTabs is str.expandtabs.
func expandTabs(meter *Meter, s string, size int) (any, error) {
	var b strings.Builder
	column := 0
	for _, c := range s {
		switch c {
		case '\t':
			if size > 0 {
				n := size - column%size
				if err := meter.Reserve(n); err != nil {
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
	return meter.Text(b.String())
}

// Strip is Python's str.strip.
func Strip(s string) string { return StripChars(s, nil, true, true) }

// StripRight is Python's str.rstrip.
func StripRight(s string) string { return StripChars(s, nil, false, true) }

// StripChars is Python's str.strip and its one-sided forms. It strips the characters in chars, or whitespace if chars
// is nil.
func StripChars(s string, chars any, left, right bool) string {
	in := IsSpace
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

// IsSpace is str.isspace: Unicode's whitespace and the four separators 0x1c to 0x1f.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// split is str.split or, from the right, str.rsplit.
func split(meter *Meter, s string, p *Params, fromRight bool) (any, error) {
	sep, most := p.Any("sep", nil), p.Int("maxsplit", -1)
	if p.err != nil {
		return nil, p.err
	}
	by, given := sep.(string)
	if !given && sep != nil {
		return nil, fmt.Errorf("must be str or None, not %s", TypeName(sep))
	}
	if given && by == "" {
		return nil, errors.New("empty separator")
	}
	if err := meter.Reserve(len(s) + ItemBytes); err != nil {
		return nil, err
	}
	var parts []string
	for most != 0 {
		if !given { // runs of whitespace, none at the ends
			if fromRight {
				s = strings.TrimRightFunc(s, IsSpace)
			} else {
				s = strings.TrimLeftFunc(s, IsSpace)
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
		s = StripChars(s, nil, !fromRight, fromRight)
	}
	if given || s != "" {
		parts = append(parts, s)
	}
	if fromRight {
		slices.Reverse(parts)
	}
	return textList(meter, parts)
}

// cutAt finds the next separator of split. start is -1 if there is none.
func cutAt(s, by string, given, fromRight bool) (start, end int) {
	switch {
	case given && fromRight:
		start = strings.LastIndex(s, by)
		return start, start + len(by)
	case given:
		start = strings.Index(s, by)
		return start, start + len(by)
	case fromRight:
		start = strings.LastIndexFunc(s, IsSpace)
	default:
		start = strings.IndexFunc(s, IsSpace)
	}
	if start < 0 {
		return start, start
	}
	_, n := utf8.DecodeRuneInString(s[start:])
	return start, start + n
}

func textList(meter *Meter, parts []string) (any, error) {
	items := make([]any, len(parts))
	for i, part := range parts {
		items[i] = part
	}
	return meter.List(items)
}

func splitLinesList(meter *Meter, s string, keep bool) (any, error) {
	if err := meter.Reserve(len(s)); err != nil {
		return nil, err
	}
	return textList(meter, SplitLines(s, keep))
}

// SplitLines is str.splitlines.
func SplitLines(s string, keep bool) (parts []string) {
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

func joinTexts(meter *Meter, sep string, v any) (any, error) {
	items, err := Iterate(v)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, item := range items {
		text, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("sequence item %d: expected str instance, %s found", i, TypeName(item))
		}
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
