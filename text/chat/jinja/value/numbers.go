package value

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An int of Python is an int, or a *big.Int if it does not fit an int: FromBig ensures it.

// maxBits bounds the integers that a template computes, so that a single operation takes little time.
const maxBits = 1 << 18

// maxDigits is Python's limit for conversions between int and text.
const maxDigits = 4300

var errDigits = fmt.Errorf("an integer has more than %d digits", maxDigits)

// Integer reads an integer of JSON as Python does.
func Integer(digits string) (any, error) {
	if len(strings.TrimPrefix(digits, "-")) > maxDigits {
		return nil, errDigits
	}
	n, ok := new(big.Int).SetString(digits, 10)
	if !ok {
		return nil, fmt.Errorf("%q is no integer", digits)
	}
	return FromBig(n), nil
}

// FromBig returns n as a value of templates.
func FromBig(n *big.Int) any {
	if n.IsInt64() {
		return int(n.Int64())
	}
	return n
}

// ToBig returns v as an integer, or nil if it is no int or bool.
func ToBig(v any) *big.Int {
	switch x := v.(type) {
	case bool:
		if x {
			return big.NewInt(1)
		}
		return new(big.Int)
	case int:
		return big.NewInt(int64(x))
	case *big.Int:
		return x
	}
	return nil
}

// Decimal is a number of a decimal column. It prints all of its digits, as Python's Decimal, and is a float otherwise.
type Decimal struct {
	Float float64
	Text  string
}

// Float returns v as a float, if it is one.
func Float(v any) (f float64, ok bool) {
	if d, ok := v.(Decimal); ok {
		return d.Float, true
	}
	f, ok = v.(float64)
	return f, ok
}

// Number returns v as a number; ok is false for other types. If an integer does not fit an int, i is the nearest int,
// which is enough for lengths and indices. For exact values use ToBig.
func Number(v any) (i int, f float64, isInt, ok bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int:
		return x, float64(x), true, true
	case *big.Int:
		f, _ = x.Float64()
		if x.Sign() < 0 {
			return math.MinInt, f, true, true
		}
		return math.MaxInt, f, true, true
	}
	f, ok = Float(v)
	return 0, f, false, ok
}

// ToFloat is Python's float() of a number.
func ToFloat(v any) (float64, error) {
	_, f, isInt, ok := Number(v)
	switch {
	case !ok:
		return 0, fmt.Errorf("'%s' is no number", TypeName(v))
	case isInt && math.IsInf(f, 0):
		return 0, errors.New("int too large to convert to float")
	}
	return f, nil
}

// Truncate is Python's int() of a float.
func Truncate(f float64) (any, error) {
	switch {
	case math.IsNaN(f):
		return nil, errors.New("cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		return nil, errors.New("cannot convert float infinity to integer")
	}
	n, _ := big.NewFloat(f).Int(nil)
	return FromBig(n), nil
}

// digits is Python's str() of an integer.
func digits(n *big.Int) (string, error) {
	if n.BitLen() > maxDigits*4 {
		return "", errDigits
	}
	s := n.String()
	if len(strings.TrimPrefix(s, "-")) > maxDigits {
		return "", errDigits
	}
	return s, nil
}

// compareNumbers orders two numbers by their exact values. NaN, which Python does not order, comes first.
func compareNumbers(a, b any) int {
	ai, af, aInt, _ := Number(a)
	bi, bf, bInt, _ := Number(b)
	_, aBig := a.(*big.Int)
	_, bBig := b.(*big.Int)
	switch {
	case !aInt && !bInt || isNaN(a) || isNaN(b):
		return cmp.Compare(af, bf)
	case aInt && bInt && !aBig && !bBig:
		return cmp.Compare(ai, bi)
	case aInt && bInt:
		return ToBig(a).Cmp(ToBig(b))
	case aInt:
		return new(big.Float).SetInt(ToBig(a)).Cmp(big.NewFloat(bf))
	}
	return -compareNumbers(b, a)
}

func isNaN(v any) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

// ParseInt is Python's int(s, base).
func ParseInt(s string, base int) (any, bool) {
	s, ok := ascii(s)
	if !ok || base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	sign, rest := "", s
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		sign, rest = strings.TrimPrefix(rest[:1], "+"), rest[1:]
	}
	for prefix, radix := range map[string]int{"0x": 16, "0o": 8, "0b": 2} {
		if after, found := strings.CutPrefix(strings.ToLower(rest), prefix); found && (base == radix || base == 0) {
			rest, base = strings.TrimPrefix(after, "_"), radix
		}
	}
	if base == 0 {
		if base = 10; len(rest) > 1 && rest[0] == '0' && strings.Trim(rest, "0_") != "" {
			return nil, false
		}
	}
	plain := strings.ReplaceAll(rest, "_", "")
	if plain == "" || rest[0] == '_' || strings.HasSuffix(rest, "_") || strings.Contains(rest, "__") ||
		plain[0] == '-' || plain[0] == '+' || len(plain) > maxDigits && base&(base-1) != 0 {
		return nil, false
	}
	n, ok := new(big.Int).SetString(sign+plain, base)
	if !ok || n.BitLen() > maxBits {
		return nil, false
	}
	return FromBig(n), true
}

// ParseFloat is Python's float(s).
func ParseFloat(s string) (float64, bool) {
	s, ok := ascii(s)
	if !ok || strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") {
		return 0, false
	}
	for i := range len(s) { // underscores are only allowed between digits
		if s[i] == '_' && (s[i-1] < '0' || s[i-1] > '9' || s[i+1] < '0' || s[i+1] > '9') {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// ascii removes the space around a number and replaces the decimal digits of all scripts by ASCII.
func ascii(s string) (string, bool) {
	s = Strip(s)
	if strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return s, s != ""
	}
	ok := true
	s = strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		d, isDigit := decimalDigit(r)
		ok = ok && isDigit
		return '0' + rune(d)
	}, s)
	return s, ok
}

// decimalDigit is the value of a decimal digit. In Unicode decimal digits come in runs of ten.
func decimalDigit(r rune) (int, bool) {
	if !unicode.IsDigit(r) {
		return 0, false
	}
	first := r
	for unicode.IsDigit(first - 1) {
		first--
	}
	return int(r-first) % 10, true
}

// integers is arithmetic of Python's ints.
func integers(meter *Meter, op string, x, y *big.Int) (any, error) {
	bits := max(x.BitLen(), y.BitLen()) + 1 // of the result
	switch {
	case op == "*":
		bits *= 2
	case op == "**" && y.Sign() < 0:
		return power(x, y)
	case op == "**":
		if bits = x.BitLen(); bits > 1 { // not 0, 1 or -1
			bits = int(min(y.Uint64(), maxBits)) * bits
		}
		if y.BitLen() > 63 && bits > 1 {
			bits = math.MaxInt
		}
	case y.Sign() == 0 && op != "+" && op != "-":
		return nil, errors.New("division by zero")
	}
	if bits > 2*maxBits {
		return nil, fmt.Errorf("%w: an integer of more than %d bits", ErrLimit, 2*maxBits)
	}
	if err := meter.Reserve(bits / 8); err != nil {
		return nil, err
	}
	n := new(big.Int)
	switch op {
	case "+":
		n.Add(x, y)
	case "-":
		n.Sub(x, y)
	case "*":
		n.Mul(x, y)
	case "**":
		if bits <= 1 && y.BitLen() > 1 { // the power depends on whether y is even
			y = big.NewInt(2 + int64(y.Bit(0)))
		}
		n.Exp(x, y, nil)
	case "/":
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if x.Sign() == 0 && y.Sign() < 0 {
			f = math.Copysign(0, -1)
		}
		if math.IsInf(f, 0) {
			return nil, errors.New("integer division result too large for a float")
		}
		return f, nil
	default: // Python rounds down
		m := new(big.Int)
		n.DivMod(x, y, m)
		if m.Sign() != 0 && y.Sign() < 0 { // DivMod makes the remainder non-negative
			n.Sub(n, big.NewInt(1))
			m.Add(m, y)
		}
		if op == "%" {
			n = m
		}
	}
	return FromBig(n), nil
}

// power is x to a negative power.
func power(x, y *big.Int) (any, error) {
	xf, err := ToFloat(x)
	if err != nil {
		return nil, err
	}
	yf, err := ToFloat(y)
	if err != nil {
		return nil, err
	}
	return floats("**", xf, yf)
}

// floats is arithmetic of Python's floats.
func floats(op string, x, y float64) (any, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		return pow(x, y)
	}
	if y == 0 {
		return nil, errors.New("float division by zero")
	}
	m := math.Mod(x, y)
	div := (x - m) / y
	if m != 0 && (m < 0) != (y < 0) {
		m += y
		div--
	}
	switch op {
	case "/":
		return x / y, nil
	case "%":
		if m == 0 {
			m = math.Copysign(0, y)
		}
		return m, nil
	}
	floor := math.Floor(div) // as exact as Python's
	switch {
	case div == 0:
		return math.Copysign(0, x/y), nil
	case div-floor > 0.5:
		floor++
	}
	return floor, nil
}

// pow is Python's power of floats. Whole powers are rounded only once, as the C library does almost always.
func pow(x, y float64) (any, error) {
	f := math.Pow(x, y)
	switch {
	case x == 0 && y < 0:
		return nil, errors.New("0.0 cannot be raised to a negative power")
	case math.IsNaN(f) && x < 0 && !math.IsNaN(y):
		return nil, errors.New("a negative number to a power that is not whole is complex, which is not supported")
	case math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0):
		return nil, errors.New("(34, 'Numerical result out of range')")
	case y != math.Trunc(y) || math.Abs(y) > 1024 || f == 0 || math.IsInf(f, 0) || math.IsNaN(f):
		return f, nil
	}
	const precision = 256
	base, product := new(big.Float).SetPrec(precision).SetFloat64(x), big.NewFloat(1).SetPrec(precision)
	for n := uint(math.Abs(y)); n > 0; n >>= 1 {
		if n&1 == 1 {
			product.Mul(product, base)
		}
		base.Mul(base, base)
	}
	if y < 0 {
		product.Quo(big.NewFloat(1).SetPrec(precision), product)
	}
	f, _ = product.Float64()
	return f, nil
}
