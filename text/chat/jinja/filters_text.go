package jinja

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quire/quire/text/chat/jinja/value"
)

func filterCenter(meter *value.Meter, v any, p *value.Params) (any, error) {
	s, width := value.Printed(meter, v), p.Int("width", 80)
	if err := p.Done(); err != nil {
		return nil, err
	}
	return value.Center(meter, s, width, " ")
}

func filterIndent(meter *value.Meter, v any, p *value.Params) (any, error) {
	width, first, blank := p.Any("width", 4), p.Bool("first", false), p.Bool("blank", false)
	if err := p.Done(); err != nil {
		return nil, err
	}
	by, ok := width.(string)
	if n, _, isInt, _ := value.Number(width); isInt {
		pad, err := value.Repeat(meter, " ", n)
		if err != nil {
			return nil, err
		}
		by, ok = pad.(string)
	}
	if !ok {
		return nil, errors.New("width must be an integer or a string")
	}
	s := value.Printed(meter, v)
	lines := strings.Split(s, "\n")
	if err := meter.Reserve(len(s) + len(lines)*len(by)); err != nil {
		return nil, err
	}
	for i, line := range lines {
		if (i > 0 || first) && (line != "" || blank) {
			lines[i] = by + line
		}
	}
	return strings.Join(lines, "\n"), nil
}

func filterReplace(meter *value.Meter, v any, p *value.Params) (any, error) {
	old, with, count := value.Printed(meter, p.Required("old")), value.Printed(meter, p.Required("new")),
		p.Any("count", nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	n := -1
	if c, _, isInt, _ := value.Number(count); isInt {
		n = c
	}
	return value.Replace(meter, value.Printed(meter, v), old, with, n)
}

func filterTrim(meter *value.Meter, v any, p *value.Params) (any, error) {
	chars := p.Any("chars", nil)
	if err := p.Done(); err != nil {
		return nil, err
	}
	return meter.Text(value.StripChars(value.Printed(meter, v), chars, true, true))
}

func filterTruncate(meter *value.Meter, v any, p *value.Params) (any, error) {
	length, kill, end, leeway := p.Int("length", 255), p.Bool("killwords", false), p.Text("end", "..."),
		p.Int("leeway", 5)
	if err := p.Done(); err != nil {
		return nil, err
	}
	runes, err := value.Runes(meter, value.Printed(meter, v))
	if err != nil {
		return nil, err
	}
	tail := utf8.RuneCountInString(end)
	if length < tail || leeway < 0 {
		return nil, fmt.Errorf("length %d is less than the length of the end, or leeway %d is negative", length, leeway)
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
	return meter.Text(cut + end)
}

func filterWordCount(meter *value.Meter, v any, p *value.Params) (any, error) {
	words := strings.FieldsFunc(value.Printed(meter, v), func(c rune) bool {
		return c != '_' && !unicode.In(c, unicode.L, unicode.N)
	})
	return len(words), p.Done()
}

func escapeHTML(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;").Replace(s)
}
