package value

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Str is Python's str(). Its cost and result count towards the limits.
func Str(meter *Meter, v any) string {
	switch x := v.(type) {
	case string:
		return x
	case Undefined:
		return ""
	}
	return Repr(meter, v)
}

// Printed is Str of a value that becomes part of the text. A strict rendering fails if there is no value.
func Printed(meter *Meter, v any) string {
	if meter.Strict {
		meter.must(NotPrintable("a value that becomes text", v))
	}
	return Str(meter, v)
}

// NotPrintable is the error of a strict rendering that prints a value that is null, missing, or a function of Jinja.
func NotPrintable(what string, v any) error {
	switch x := v.(type) {
	case nil:
		return fmt.Errorf("%s is null; {{... or ''}} prints nothing instead", what)
	case Undefined:
		if x.Meant {
			return nil
		}
		return fmt.Errorf("%s is missing; {{... or ''}} prints nothing instead", what)
	case *Func, Object:
		return fmt.Errorf("%s is a function", what)
	}
	return nil
}

// Repr is Python's repr(), with the same limits.
func Repr(meter *Meter, v any) string {
	var b strings.Builder
	writeRepr(meter, &b, v, 0)
	return b.String()
}

func writeRepr(meter *Meter, b *strings.Builder, v any, depth int) {
	from := b.Len()
	meter.visit(depth)
	list := func(open string, items []any, end string) {
		b.WriteString(open)
		for i, x := range items {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(meter, b, x, depth+1)
		}
		b.WriteString(end)
	}
	switch x := v.(type) {
	case *List:
		list("[", x.Items, "]")
		return
	case Tuple:
		if len(x) == 1 {
			list("(", x, ",)")
		} else {
			list("(", x, ")")
		}
		return
	case *View:
		writeView(meter, b, x, depth)
		return
	case *Dict:
		b.WriteByte('{')
		for i, k := range x.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			writeRepr(meter, b, k, depth+1)
			b.WriteString(": ")
			writeRepr(meter, b, x.values[i], depth+1)
		}
		b.WriteByte('}')
		return
	case nil:
		b.WriteString("None")
	case bool:
		if x {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int:
		b.WriteString(strconv.Itoa(x))
	case *big.Int:
		text, err := digits(x)
		meter.must(err)
		b.WriteString(text)
	case float64:
		b.WriteString(floatRepr(x))
	case Decimal:
		b.WriteString(x.Text)
	case string:
		writeStringRepr(b, x)
	case *Namespace:
		b.WriteString("<Namespace ")
		writeRepr(meter, b, x.Vars, depth+1)
		b.WriteString(">")
	case *Func:
		b.WriteString("<function " + x.Name + ">")
	case Object:
		b.WriteString(x.Repr())
	default:
		b.WriteString("Undefined")
	}
	meter.must(meter.Reserve(b.Len() - from))
}

func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func writeStringRepr(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteByte(quote)
}
