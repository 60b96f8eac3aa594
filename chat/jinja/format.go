package jinja

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// conversion is one printf-style conversion: %-08.3f.
type conversion struct {
	minus, zero, plus, space, alt bool
	width, precision              int // precision -1: none
	verb                          byte
}

// maxWidth bounds what one conversion can pad to.
const maxWidth = 1 << 20

func parseConversion(s string) (c conversion, rest string, err error) {
	c.precision = -1
	for ; s != ""; s = s[1:] {
		switch s[0] {
		case '-':
			c.minus = true
			continue
		case '0':
			c.zero = true
			continue
		case '+':
			c.plus = true
			continue
		case ' ':
			c.space = true
			continue
		case '#':
			c.alt = true
			continue
		}
		break
	}
	digits := func() (n int) {
		for s != "" && s[0] >= '0' && s[0] <= '9' && n <= maxWidth {
			n = n*10 + int(s[0]-'0')
			s = s[1:]
		}
		return n
	}
	c.width = digits()
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		c.precision = digits()
	}
	if c.width > maxWidth || c.precision > maxWidth {
		return c, "", errors.New("format: a width or precision is too large")
	}
	if s == "" {
		return c, "", errors.New("incomplete format")
	}
	c.verb = s[0]
	return c, s[1:], nil
}

// percent is Python's format % args; with named, %(name)s takes from a dict.
func (r *run) percent(format string, args Tuple, named any) (any, error) {
	dict, _ := named.(*Dict)
	var b strings.Builder
	used := 0
	for {
		text, rest, found := strings.Cut(format, "%")
		b.WriteString(text)
		if !found {
			break
		}
		var v any
		have := false
		if strings.HasPrefix(rest, "(") {
			name, after, ok := strings.Cut(rest[1:], ")")
			if !ok || dict == nil {
				return nil, errors.New("format requires a mapping")
			}
			if v, have = dict.get(name); !have {
				return nil, fmt.Errorf("format: no key %q", name)
			}
			rest = after
			used = len(args)
		}
		c, rest, err := parseConversion(rest)
		if err != nil {
			return nil, err
		}
		format = rest
		if c.verb == '%' {
			b.WriteByte('%')
			continue
		}
		if !have {
			if used >= len(args) {
				return nil, errors.New("not enough arguments for format string")
			}
			v = args[used]
			used++
		}
		s, err := c.text(r, v)
		if err != nil {
			return nil, err
		}
		if err := r.make(len(s)); err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	if used < len(args) && dict == nil {
		return nil, errors.New("not all arguments converted during string formatting")
	}
	return r.text(b.String())
}

// text formats v.
func (c *conversion) text(r *run, v any) (string, error) {
	i, f, isInt, ok := number(v)
	var s string
	switch c.verb {
	case 's':
		s = r.str(v)
	case 'r':
		s = r.repr(v)
	case 'c':
		s = r.str(v)
		if isInt {
			s = string(rune(i))
		}
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if ok && !isInt && c.verb != 'x' && c.verb != 'X' && c.verb != 'o' && math.Abs(f) < 1<<62 {
			i, isInt = int(f), true
		}
		if !isInt {
			return "", fmt.Errorf("%%%c format: a real number is required, not %s", c.verb, typeName(v))
		}
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8}[c.verb]
		if base == 0 {
			base = 10
		}
		s = strconv.FormatInt(int64(i), base)
		if c.verb == 'X' {
			s = strings.ToUpper(s)
		}
		if c.alt && base != 10 {
			s = strings.Replace("0"+string(c.verb)+s, "0"+string(c.verb)+"-", "-0"+string(c.verb), 1)
		}
		return c.pad(c.signed(s), true), nil
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if !ok {
			return "", fmt.Errorf("must be real number, not %s", typeName(v))
		}
		precision := c.precision
		if precision < 0 {
			precision = 6
		}
		if c.verb == 'g' || c.verb == 'G' {
			s = fmt.Sprintf("%."+strconv.Itoa(precision)+string(c.verb), f)
		} else {
			s = strconv.FormatFloat(f, c.verb|0x20, precision, 64)
			if c.verb == 'E' {
				s = strings.ToUpper(s)
			}
		}
		return c.pad(c.signed(s), true), nil
	default:
		return "", fmt.Errorf("unsupported format character %q", c.verb)
	}
	if c.precision >= 0 && c.verb != 'c' && utf8.RuneCountInString(s) > c.precision {
		s = string([]rune(s)[:c.precision])
	}
	return c.pad(s, false), nil
}

func (c *conversion) signed(s string) string {
	switch {
	case strings.HasPrefix(s, "-"):
	case c.plus:
		return "+" + s
	case c.space:
		return " " + s
	}
	return s
}

func (c *conversion) pad(s string, numeric bool) string {
	n := c.width - utf8.RuneCountInString(s)
	switch {
	case n <= 0:
		return s
	case c.minus:
		return s + strings.Repeat(" ", n)
	case c.zero && numeric:
		sign := 0
		if s != "" && strings.ContainsRune("+- ", rune(s[0])) {
			sign = 1
		}
		return s[:sign] + strings.Repeat("0", n) + s[sign:]
	}
	return strings.Repeat(" ", n) + s
}

// format is str.format with fields {}, {0} and {name}; format specifications
// and attribute access within fields are not supported.
func (r *run) format(s string, p *params) (any, error) {
	var b strings.Builder
	next := 0
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		if i+1 < len(s) && s[i+1] == s[i] {
			b.WriteByte(s[i])
			s = s[i+2:]
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if s[i] == '}' || end < 0 {
			return nil, errors.New("single '{' or '}' in the format string")
		}
		field := s[i+1 : i+end]
		s = s[i+end+1:]
		if strings.ContainsAny(field, ":!.[{") {
			return nil, fmt.Errorf("the replacement field {%s} is not supported: only {}, {0} and {name} are", field)
		}
		n, err := strconv.Atoi(field)
		if field == "" {
			n, err = next, nil
			next++
		}
		var v any
		ok := false
		if err == nil {
			if ok = n >= 0 && n < len(p.args); ok {
				v = p.args[n]
			}
		} else {
			v, ok = p.kwargs.get(field)
		}
		if !ok {
			return nil, fmt.Errorf("no argument for the replacement field {%s}", field)
		}
		text := r.str(v)
		if err := r.make(len(text)); err != nil {
			return nil, err
		}
		b.WriteString(text)
	}
	p.at, p.used = len(p.args), len(p.kwargs.keys) // more than are used is fine
	return r.text(b.String())
}
