package regex

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

var (
	digits = []rune{'0', '9'}
	words  = []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
	// spaces are ECMAScript's WhiteSpace and LineTerminator.
	spaces = []rune{'\t', '\r', ' ', ' ', 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A, 0x2028, 0x2029, 0x202F, 0x202F,
		0x205F, 0x205F, 0x3000, 0x3000, 0xFEFF, 0xFEFF}
)

// escape reads what follows a backslash: the characters that it means.
func (p *ecma) escape() ([]rune, error) {
	if p.rest == "" {
		return nil, fmt.Errorf(`a \ at the end`)
	}
	one := func(r rune) ([]rune, error) { return []rune{r, r}, nil }
	switch r := p.next(); r {
	case 'd':
		return slices.Clone(digits), nil
	case 'D':
		return negate(digits), nil
	case 'w':
		return slices.Clone(words), nil
	case 'W':
		return negate(words), nil
	case 's':
		return slices.Clone(spaces), nil
	case 'S':
		return negate(spaces), nil
	case 't':
		return one('\t')
	case 'n':
		return one('\n')
	case 'v':
		return one('\v')
	case 'f':
		return one('\f')
	case 'r':
		return one('\r')
	case 'p', 'P':
		return p.property(r == 'P')
	case 'x':
		return p.hex(2)
	case 'u':
		return p.unicode()
	case 'c':
		if p.rest != "" && (p.rest[0]|0x20 >= 'a' && p.rest[0]|0x20 <= 'z') {
			return one(p.next() & 31)
		}
		return nil, fmt.Errorf(`a \c without a letter`)
	case '0':
		if p.rest != "" && p.rest[0] >= '0' && p.rest[0] <= '9' {
			return nil, fmt.Errorf("octal escapes are not supported")
		}
		return one(0)
	default:
		switch {
		case r >= '1' && r <= '9' || r == 'k':
			return nil, fmt.Errorf("back references are not supported")
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			return nil, fmt.Errorf(`ECMAScript has no escape \%c`, r)
		}
		return one(r)
	}
}

func (p *ecma) hex(n int) ([]rune, error) {
	if len(p.rest) >= n {
		if v, err := strconv.ParseUint(p.rest[:n], 16, 32); err == nil {
			p.rest = p.rest[n:]
			return []rune{rune(v), rune(v)}, nil
		}
	}
	return nil, fmt.Errorf("an escape needs %d hexadecimal digits", n)
}

// unicode reads \u, after the u was read: four digits, or two times four that are a pair of surrogates, or {digits}.
func (p *ecma) unicode() ([]rune, error) {
	if p.take("{") {
		digits, rest, _ := strings.Cut(p.rest, "}")
		v, err := strconv.ParseUint(digits, 16, 32)
		if err != nil || v > unicode.MaxRune {
			return nil, fmt.Errorf(`\u{%.10s is no character`, digits)
		}
		p.rest = rest
		return []rune{rune(v), rune(v)}, nil
	}
	set, err := p.hex(4)
	if err != nil || !utf16.IsSurrogate(set[0]) {
		return set, err
	}
	if p.take(`\u`) {
		second, err := p.hex(4)
		if err != nil {
			return nil, err
		}
		if r := utf16.DecodeRune(set[0], second[0]); r != unicode.ReplacementChar {
			return []rune{r, r}, nil
		}
	}
	return nil, fmt.Errorf(`\u%04x alone is half a character`, set[0])
}

// property reads {name} after \p: the general categories and scripts that Go knows by that name.
func (p *ecma) property(not bool) ([]rune, error) {
	name, rest, ok := strings.Cut(p.rest, "}")
	if !ok || !strings.HasPrefix(name, "{") {
		return nil, fmt.Errorf(`\p needs {a property}`)
	}
	p.rest = rest
	name = name[1:]
	if key, value, hasKey := strings.Cut(name, "="); hasKey {
		if !slices.Contains([]string{"Script", "sc", "General_Category", "gc"}, key) {
			return nil, fmt.Errorf(`\p{%s} is not supported`, name)
		}
		name = value
	}
	re, err := syntax.Parse(`[\p{`+name+`}]`, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf(`\p{%s} is not supported`, name)
	}
	set := re.Rune
	if re.Op == syntax.OpLiteral {
		set = []rune{re.Rune[0], re.Rune[0]}
	}
	if not {
		return negate(set), nil
	}
	return set, nil
}
