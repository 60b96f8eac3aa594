package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatter is one call of str.format.
type formatter struct {
	meter *Meter
	p     *Params
	next  int  // the index of the next field without a name
	used  bool // fields have explicit numbers
}

// format is str.format.
func format(meter *Meter, s string, p *Params) (any, error) {
	f := &formatter{meter: meter, p: p}
	text, err := f.text(s, 0)
	if err != nil {
		return nil, err
	}
	p.index, p.used = len(p.Args), len(p.Kwargs.keys) // unused arguments are allowed
	return meter.Text(text)
}

// text replaces the fields of s. Specifications may contain fields, too.
func (f *formatter) text(s string, depth int) (string, error) {
	if depth > 2 {
		return "", errors.New("max string recursion exceeded")
	}
	var b strings.Builder
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
		if s[i] == '}' {
			return "", errors.New("single '}' encountered in format string")
		}
		field, rest, ok := closed(s[i+1:])
		if !ok {
			return "", errors.New("expected '}' before end of string")
		}
		s = rest
		text, err := f.field(field, depth)
		if err != nil {
			return "", err
		}
		if err := f.meter.Reserve(len(text)); err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// closed splits s at its closing brace.
func closed(s string) (field, rest string, ok bool) {
	open := 1
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return s[:i], s[i+1:], true
			}
		}
	}
	return "", "", false
}

// field is the text of a replacement field: name!conversion:specification.
func (f *formatter) field(field string, depth int) (string, error) {
	name, spec, _ := strings.Cut(field, ":")
	if i := strings.IndexByte(field, '['); i >= 0 && i < len(name) { // an index may contain a colon
		if end := strings.IndexByte(field[i:], ']'); end > 0 {
			after, more, _ := strings.Cut(field[i+end:], ":")
			name, spec = field[:i+end]+after, more
		}
	}
	name, conversion, converted := strings.Cut(name, "!")
	v, err := f.value(name)
	if err != nil {
		return "", err
	}
	switch {
	case !converted:
	case conversion == "s":
		v = Printed(f.meter, v)
	case conversion == "r":
		v = Repr(f.meter, v)
	case conversion == "a":
		v = asciiOnly(Repr(f.meter, v))
	default:
		return "", fmt.Errorf("unknown conversion specifier %q", conversion)
	}
	if spec, err = f.text(spec, depth+1); err != nil {
		return "", err
	}
	return formatted(f.meter, v, spec)
}

// value returns what a field names: an argument, or attributes and items of it.
func (f *formatter) value(name string) (any, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	first, rest := name[:end], name[end:]
	n, err := strconv.Atoi(first)
	if first == "" {
		n, err = f.next, nil
		f.next++
	} else if err == nil {
		f.used = true
	}
	if f.used && f.next > 0 {
		return nil, errors.New("cannot mix fields with and without a number")
	}
	var v any
	var ok bool
	if err != nil {
		v, ok = f.p.Kwargs.Get(first)
	} else if ok = n >= 0 && n < len(f.p.Args); ok {
		v = f.p.Args[n]
	}
	if !ok {
		return nil, fmt.Errorf("no argument for the replacement field {%s}", name)
	}
	for rest != "" {
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			v, err = Attr(f.meter, v, rest[1:1+end])
			rest = rest[1+end:]
		} else {
			key, after, closed := strings.Cut(rest[1:], "]")
			if !closed || after != "" && after[0] != '.' && after[0] != '[' {
				return nil, fmt.Errorf("the replacement field {%s} has no valid index", name)
			}
			var index any = key
			if n, err := strconv.Atoi(key); err == nil {
				index = n
			}
			v, err = Item(f.meter, v, index)
			rest = after
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// spec is a format specification.
type spec struct {
	fill                string
	align, sign         byte
	alt, zero, noMinus0 bool
	width, precision    int // precision -1: none
	group, verb         byte
}

func parseSpec(s string) (spec, error) {
	c := spec{fill: " ", precision: -1}
	if _, n := utf8.DecodeRuneInString(s); n > 0 && n < len(s) && strings.IndexByte("<>=^", s[n]) >= 0 {
		c.fill, c.align, s = s[:n], s[n], s[n+1:]
	} else if s != "" && strings.IndexByte("<>=^", s[0]) >= 0 {
		c.align, s = s[0], s[1:]
	}
	flag := func(set string) byte {
		if s == "" || strings.IndexByte(set, s[0]) < 0 {
			return 0
		}
		b := s[0]
		s = s[1:]
		return b
	}
	count := func() (n int) {
		for s != "" && s[0] >= '0' && s[0] <= '9' && n <= maxWidth {
			n = n*10 + int(s[0]-'0')
			s = s[1:]
		}
		return n
	}
	c.sign = flag("+- ")
	c.noMinus0 = flag("z") != 0
	c.alt = flag("#") != 0
	if c.zero = flag("0") != 0; c.zero && c.align == 0 {
		c.fill, c.align = "0", '='
	}
	c.width = count()
	c.group = flag(",_")
	if flag(".") != 0 {
		if s == "" || s[0] < '0' || s[0] > '9' {
			return c, errors.New("Format specifier missing precision")
		}
		c.precision = count()
	}
	if c.width > maxWidth || c.precision > maxWidth {
		return c, errors.New("format: a width or precision is too large")
	}
	if len(s) > 1 {
		return c, fmt.Errorf("invalid format specifier %q", s)
	}
	if s != "" {
		c.verb = s[0]
	}
	return c, nil
}

// formatted is Python's format(v, spec).
func formatted(meter *Meter, v any, text string) (string, error) {
	if text == "" {
		return Printed(meter, v), nil
	}
	c, err := parseSpec(text)
	if err != nil {
		return "", err
	}
	if s, ok := v.(string); ok {
		return c.text(s)
	}
	n := ToBig(v)
	f, isFloat := Float(v)
	switch {
	case n == nil && !isFloat:
		return "", fmt.Errorf("unsupported format string passed to %s.__format__", TypeName(v))
	case n != nil && (c.verb == 0 || strings.IndexByte("bcdnoxX", c.verb) >= 0):
		return c.integer(n)
	case c.verb != 0 && strings.IndexByte("eEfFgGn%", c.verb) < 0:
		return "", c.unknown(v)
	case n != nil:
		if f, err = ToFloat(v); err != nil {
			return "", err
		}
	}
	return c.float(f)
}

func (c *spec) unknown(v any) error {
	return fmt.Errorf("Unknown format code '%c' for object of type '%s'", c.verb, TypeName(v))
}

func (c *spec) text(s string) (string, error) {
	switch {
	case c.verb != 0 && c.verb != 's':
		return "", c.unknown(s)
	case c.sign != 0 || c.alt || c.group != 0 || c.noMinus0 || c.align == '=' && !c.zero:
		return "", errors.New("a sign, '#', '=' or a separator is not allowed in the format of a string")
	case c.align == 0 || c.align == '=':
		c.align = '<'
	}
	if c.precision >= 0 && utf8.RuneCountInString(s) > c.precision {
		s = string([]rune(s)[:c.precision])
	}
	return c.pad("", s), nil
}

func (c *spec) integer(n *big.Int) (string, error) {
	base := max(bases[c.verb], 2)
	if bases[c.verb] == 0 {
		base = 10
	}
	switch {
	case c.precision >= 0 || c.noMinus0:
		return "", errors.New("Precision not allowed in integer format specifier")
	case c.verb == 'c':
		s, err := character(FromBig(n))
		return c.pad("", s), err
	case c.group == ',' && base != 10 || c.group != 0 && c.verb == 'n':
		return "", fmt.Errorf("Cannot specify '%c' with '%c'.", c.group, c.verb)
	}
	s, err := inBase(new(big.Int).Abs(n), base, c.verb == 'X')
	if err != nil {
		return "", err
	}
	head := c.signOf(n.Sign() < 0)
	if c.alt && base != 10 {
		head += "0" + string(c.verb)
	}
	size := 3
	if base != 10 {
		size = 4
	}
	return c.pad(head, c.grouped(s, "", size, len(head))), nil
}

func (c *spec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case c.sign != 0 && c.sign != '-':
		return string(c.sign)
	}
	return ""
}

func (c *spec) float(f float64) (string, error) {
	if c.group != 0 && c.verb == 'n' {
		return "", fmt.Errorf("Cannot specify '%c' with 'n'.", c.group)
	}
	verb, precision, tail := c.verb, c.precision, ""
	if precision < 0 {
		precision = 6
	}
	if verb == '%' {
		f, verb, tail = f*100, 'f', "%"
	}
	if verb == 'n' {
		verb = 'g'
	}
	var s string
	switch a := math.Abs(f); {
	case verb == 0 && c.precision < 0:
		s = floatRepr(a)
	case verb == 0:
		s = shortest(a, precision)
	default:
		s = formatFloat(a, verb, precision, c.alt)
	}
	negative := math.Signbit(f) && !math.IsNaN(f)
	if c.noMinus0 && strings.Trim(s, "0.") == "" {
		negative = false
	}
	head := c.signOf(negative)
	whole, rest := s, ""
	if i := strings.IndexAny(s, ".eE"); i >= 0 {
		whole, rest = s[:i], s[i:]
	}
	rest += tail
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return c.pad(head, s+tail), nil
	}
	return c.pad(head, c.grouped(whole, rest, 3, len(head))), nil
}

// shortest is the form g with a digit after the point.
func shortest(f float64, precision int) string {
	precision = max(1, precision)
	s := formatFloat(f, 'g', precision, false)
	switch {
	case strings.ContainsAny(s, ".en"):
		return s
	case len(s) < precision:
		return s + ".0"
	}
	digits, exponent, _ := strings.Cut(formatFloat(f, 'e', precision-1, false), "e")
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	return digits + "e" + exponent
}

// grouped puts separators between groups of digits, and zeros before them if zeros fill the width.
func (c *spec) grouped(digits, rest string, size, head int) string {
	if c.group == 0 {
		return digits + rest
	}
	if c.fill == "0" && c.align == '=' {
		n := len(digits)
		for n+(n-1)/size+head+len(rest) < c.width {
			n++
		}
		digits = strings.Repeat("0", n-len(digits)) + digits
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%size == 0 {
			b.WriteByte(c.group)
		}
		b.WriteByte(digits[i])
	}
	return b.String() + rest
}

// pad pads a sign and what follows it to the width.
func (c *spec) pad(head, s string) string {
	n := c.width - utf8.RuneCountInString(head) - utf8.RuneCountInString(s)
	if n <= 0 {
		return head + s
	}
	switch c.align {
	case '<':
		return head + s + strings.Repeat(c.fill, n)
	case '^':
		return strings.Repeat(c.fill, n/2) + head + s + strings.Repeat(c.fill, n-n/2)
	case '=':
		return head + strings.Repeat(c.fill, n) + s
	}
	return strings.Repeat(c.fill, n) + head + s
}

// asciiOnly escapes other characters than ASCII, as Python's ascii() does.
func asciiOnly(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}
