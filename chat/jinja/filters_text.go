package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

func filterCenter(r *run, v any, p *params) (any, error) {
	s, width := r.printed(v), p.int("width", 80)
	if err := p.done(); err != nil {
		return nil, err
	}
	return r.center(s, width, " ")
}

// center is Python's str.center.
func (r *run) center(s string, width int, fill string) (any, error) {
	pad := width - utf8.RuneCountInString(s)
	if pad <= 0 {
		return s, nil
	}
	if err := r.make(len(s) + pad*len(fill)); err != nil {
		return nil, err
	}
	left := pad/2 + pad&width&1
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, pad-left), nil
}

func filterIndent(r *run, v any, p *params) (any, error) {
	width, first, blank := p.any("width", 4), p.bool("first", false), p.bool("blank", false)
	if err := p.done(); err != nil {
		return nil, err
	}
	by, ok := width.(string)
	if n, _, isInt, _ := number(width); isInt {
		pad, err := r.repeat(" ", n)
		if err != nil {
			return nil, err
		}
		by, ok = pad.(string)
	}
	if !ok {
		return nil, errors.New("width must be an integer or a string")
	}
	s := r.printed(v)
	lines := strings.Split(s, "\n")
	if err := r.make(len(s) + len(lines)*len(by)); err != nil {
		return nil, err
	}
	for i, line := range lines {
		if (i > 0 || first) && (line != "" || blank) {
			lines[i] = by + line
		}
	}
	return strings.Join(lines, "\n"), nil
}

func filterReplace(r *run, v any, p *params) (any, error) {
	old, with, count := r.printed(p.required("old")), r.printed(p.required("new")), p.any("count", nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	n := -1
	if c, _, isInt, _ := number(count); isInt {
		n = c
	}
	return r.replace(r.printed(v), old, with, n)
}

// replace is strings.Replace within the limits.
func (r *run) replace(s, old, with string, n int) (any, error) {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	if count > 0 && len(with) > r.limits.Memory/count {
		return nil, r.make(-1)
	}
	if err := r.make(len(s) + count*len(with)); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, with, n), nil
}

func filterTrim(r *run, v any, p *params) (any, error) {
	chars := p.any("chars", nil)
	if err := p.done(); err != nil {
		return nil, err
	}
	return r.text(strip(r.printed(v), chars, true, true))
}

func filterTruncate(r *run, v any, p *params) (any, error) {
	length, kill, end, leeway := p.int("length", 255), p.bool("killwords", false), p.text("end", "..."),
		p.int("leeway", 5)
	if err := p.done(); err != nil {
		return nil, err
	}
	runes, err := r.runes(r.printed(v))
	if err != nil {
		return nil, err
	}
	tail := utf8.RuneCountInString(end)
	if length < tail || leeway < 0 {
		return nil, fmt.Errorf("length %d is less than that of the end, or leeway %d is negative", length, leeway)
	}
	if len(runes) <= length+leeway {
		return string(runes), nil
	}
	cut := string(runes[:length-tail])
	if !kill {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return r.text(cut + end)
}

func filterWordCount(r *run, v any, p *params) (any, error) {
	words := strings.FieldsFunc(r.printed(v), func(c rune) bool {
		return c != '_' && !unicode.In(c, unicode.L, unicode.N)
	})
	return len(words), p.done()
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}
