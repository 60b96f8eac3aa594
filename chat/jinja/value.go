package jinja

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// Template values are nil, bool, int, *big.Int where it fits no int, float64, string, *List, Tuple, *Dict,
// *view, *namespace, *loop, *Func and undefined.

// List is a Python list.
type List struct{ Items []any }

// Tuple is a Python tuple.
type Tuple []any

// Dict is a Python dict: it keeps its order.
type Dict struct {
	keys   []any
	values []any
	index  map[any]int
}

// NewDict makes a dict of alternating keys and values.
func NewDict(pairs ...any) *Dict {
	d := &Dict{index: make(map[any]int)}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.set(pairs[i], pairs[i+1])
	}
	return d
}

// hashKey is equal for keys that are equal in Python; ok is false for what
// cannot be a key.
func hashKey(k any) (h any, ok bool) {
	switch x := k.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case float64:
		if n, err := truncated(x); err == nil && x == math.Trunc(x) {
			return hashKey(n)
		}
		return k, true
	case *big.Int:
		return bigKey(x.String()), true
	case nil, int, string:
		return k, true
	case Tuple: // of plain values only
		var parts tupleKey
		for _, item := range x {
			h, ok := hashKey(item)
			if _, nested := h.(tupleKey); !ok || nested {
				return nil, false
			}
			parts += tupleKey(fmt.Sprintf("%T %q,", h, fmt.Sprint(h)))
		}
		return parts, true
	}
	return nil, false
}

type (
	tupleKey string
	bigKey   string
)

// set adds or replaces a key, which must be hashable.
func (d *Dict) set(k, v any) {
	h, _ := hashKey(k)
	if i, ok := d.index[h]; ok {
		d.values[i] = v
		return
	}
	d.index[h] = len(d.keys)
	d.keys, d.values = append(d.keys, k), append(d.values, v)
}

func (d *Dict) get(k any) (any, bool) {
	h, ok := hashKey(k)
	if !ok {
		return nil, false
	}
	i, ok := d.index[h]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// Get returns the value of a key.
func (d *Dict) Get(k any) (v any, ok bool) { return d.get(k) }

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// All gives keys and values in their order.
func (d *Dict) All() iter.Seq2[any, any] {
	return func(yield func(k, v any) bool) {
		for i, k := range d.keys {
			if !yield(k, d.values[i]) {
				return
			}
		}
	}
}

// take removes a name of a small dict of names and returns its value.
func (d *Dict) take(k string) (any, bool) {
	v, ok := d.get(k)
	if ok {
		old := *d
		*d = *NewDict()
		for i, key := range old.keys {
			if key != k {
				d.set(key, old.values[i])
			}
		}
	}
	return v, ok
}

// names lists the keys of a dict of keyword arguments.
func (d *Dict) names() string { return strings.Trim(fmt.Sprint(d.keys), "[]") }

// Func is something a template can call. Its arguments are positional ones and
// keyword ones.
type Func struct {
	Name string
	Call func(args []any, kwargs *Dict) (any, error)
}

type namespace struct{ vars *Dict }

// undefined is the value of what does not exist. It prints as nothing, is false
// and empty; anything else done with it fails with why.
type undefined struct {
	why string
}

func (u undefined) err() error { return fmt.Errorf("%s", u.why) }

// typeName is Python's name of the value's type.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		return "list"
	case Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case *view:
		return v.(*view).kind
	case *Func:
		return "function"
	}
	return "Undefined"
}

func truth(v any) bool {
	switch x := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return x
	case int:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case Tuple:
		return len(x) > 0
	case *view:
		return len(x.items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// str is Python's str(). Its cost and result count towards the limits.
func (r *run) str(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case undefined:
		return ""
	}
	return r.repr(v)
}

// printed is str of what becomes part of the text. A strict rendering fails where that is nothing.
func (r *run) printed(v any) string {
	if r.strict {
		r.must(nothing("a value that becomes text", v))
	}
	return r.str(v)
}

// nothing is the error for a value that is null, missing, or one of Jinja's own functions, and has to be printed.
func nothing(what string, v any) error {
	switch v.(type) {
	case nil:
		return fmt.Errorf("%s is null", what)
	case undefined:
		return fmt.Errorf("%s is missing", what)
	case *Func, *loop:
		return fmt.Errorf("%s is a function", what)
	}
	return nil
}

// repr is Python's repr(), with the same limits.
func (r *run) repr(v any) string {
	var b strings.Builder
	r.writeRepr(&b, v, 0)
	return b.String()
}

func (r *run) writeRepr(b *strings.Builder, v any, depth int) {
	from := b.Len()
	r.visit(depth)
	list := func(open string, items []any, end string) {
		b.WriteString(open)
		for i, x := range items {
			if i > 0 {
				b.WriteString(", ")
			}
			r.writeRepr(b, x, depth+1)
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
	case *view:
		r.writeView(b, x, depth)
		return
	case *Dict:
		b.WriteByte('{')
		for i, k := range x.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			r.writeRepr(b, k, depth+1)
			b.WriteString(": ")
			r.writeRepr(b, x.values[i], depth+1)
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
		r.must(err)
		b.WriteString(text)
	case float64:
		b.WriteString(floatRepr(x))
	case string:
		writeStringRepr(b, x)
	case *namespace:
		b.WriteString("<Namespace ")
		r.writeRepr(b, x.vars, depth+1)
		b.WriteString(">")
	case *Func:
		b.WriteString("<function " + x.Name + ">")
	case *loop:
		fmt.Fprintf(b, "<LoopContext %d/%d>", x.at+1, len(x.items))
	default:
		b.WriteString("Undefined")
	}
	r.must(r.make(b.Len() - from))
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

// iterate returns the items of v, as a Python for loop would see them.
func iterate(v any) ([]any, error) {
	switch x := v.(type) {
	case *List:
		return x.Items, nil
	case Tuple:
		return x, nil
	case *view:
		return x.items, nil
	case *Dict:
		return x.keys, nil
	case undefined:
		return nil, nil
	case string:
		items := make([]any, 0, len(x))
		for _, r := range x {
			items = append(items, string(r))
		}
		return items, nil
	}
	return nil, fmt.Errorf("'%s' object is not iterable", typeName(v))
}
