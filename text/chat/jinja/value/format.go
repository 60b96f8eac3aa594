package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// conversion is one printf-style conversion: %-08.3f.
type conversion struct {
	minus, zero, plus, space, alt bool
	width, precision              int // precision -1: none
	verb                          byte
}

// maxWidth bounds the width and precision of one conversion.
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

// Percent is Python's format % args. %(name)s takes values from named if that is a dict.
func Percent(meter *Meter, format string, args Tuple, named any) (any, error) {
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
			if v, have = dict.Get(name); !have {
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
		s, err := c.text(meter, v)
		if err != nil {
			return nil, err
		}
		if err := meter.Reserve(len(s)); err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	if used < len(args) && dict == nil {
		return nil, errors.New("not all arguments converted during string formatting")
	}
	return meter.Text(b.String())
}

// text formats v.
func (c *conversion) text(meter *Meter, v any) (string, error) {
	var s string
	switch c.verb {
	case 's':
		s = Printed(meter, v)
	case 'r':
		s = Repr(meter, v)
	case 'a':
		s = asciiOnly(Repr(meter, v))
	case 'c':
		var err error
		if s, err = character(v); err != nil {
			return "", err
		}
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return c.integer(v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		f, err := ToFloat(v)
		if err != nil {
			return "", fmt.Errorf("must be real number, not %s", TypeName(v))
		}
		precision := c.precision
		if precision < 0 {
			precision = 6
		}
		return c.pad(c.signed(formatFloat(f, c.verb, precision, c.alt)), true), nil
	default:
		return "", fmt.Errorf("unsupported format character %q", c.verb)
	}
	if c.precision >= 0 && c.verb != 'c' && utf8.RuneCountInString(s) > c.precision {
		s = string([]rune(s)[:c.precision])
	}
	return c.pad(s, false), nil
}

// character is a character, or the character with the number v.
func character(v any) (string, error) {
	if s, ok := v.(string); ok && utf8.RuneCountInString(s) == 1 {
		return s, nil
	}
	i, _, isInt, _ := Number(v)
	switch {
	case !isInt:
		return "", errors.New("%c requires int or char")
	case i < 0 || i > unicode.MaxRune:
		return "", errors.New("%c arg not in range(0x110000)")
	}
	return string(rune(i)), nil
}

// integer formats v as an integer.
func (c *conversion) integer(v any) (string, error) {
	base, decimal := bases[c.verb], false
	if base == 0 {
		base, decimal = 10, true
	}
	if f, ok := Float(v); ok && decimal {
		var err error
		if v, err = Truncate(f); err != nil {
			return "", err
		}
	}
	n := ToBig(v)
	if n == nil {
		return "", fmt.Errorf("%%%c format: a real number is required, not %s", c.verb, TypeName(v))
	}
	s, err := inBase(new(big.Int).Abs(n), base, c.verb == 'X')
	if err != nil {
		return "", err
	}
	s = strings.Repeat("0", max(0, c.precision-len(s))) + s
	if c.alt && !decimal {
		s = "0" + string(c.verb) + s
	}
	if n.Sign() < 0 {
		s = "-" + s
	}
	return c.pad(c.signed(s), true), nil
}

// bases are the bases of conversions that are not decimal.
var bases = map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}

// inBase writes an integer. Decimal integers are limited to as many digits as Python's.
func inBase(n *big.Int, base int, upper bool) (string, error) {
	if base == 10 {
		return digits(n)
	}
	if upper {
		return strings.ToUpper(n.Text(base)), nil
	}
	return n.Text(base), nil
}

// formatFloat writes f as C's printf does by the verb e, f or g. alt keeps the point, and the zeros of g.
func formatFloat(f float64, verb byte, precision int, alt bool) string {
	var s string
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		s = floatRepr(f)
	case verb|0x20 == 'g':
		form := "%."
		if alt {
			form = "%#."
		}
		s = fmt.Sprintf(form+strconv.Itoa(max(1, precision))+"g", f)
	default:
		s = strconv.FormatFloat(f, verb|0x20, precision, 64)
		if alt && precision == 0 {
			digits, exponent, _ := strings.Cut(s, "e")
			if s = digits + "."; exponent != "" {
				s += "e" + exponent
			}
		}
	}
	if verb < 'a' {
		return strings.ToUpper(s)
	}
	return s
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
		if c.alt && len(s) > sign+2 && strings.ContainsRune("xXo", rune(s[sign+1])) {
			sign += 2
		}
		return s[:sign] + strings.Repeat("0", n) + s[sign:]
	}
	return strings.Repeat(" ", n) + s
}
