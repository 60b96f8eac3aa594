package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
)

// JSONStyle is how ToJSON writes.
type JSONStyle struct {
	Item, Key string // the separators of items, and of key and value
	Lines     bool   // each item is on a line of its own, indented by Indent per level
	Indent    string
	ASCII     bool // other characters are escaped
	Sorted    bool // keys are sorted
}

// ToJSON is Python's json.dumps. Nothing is escaped for HTML.
func ToJSON(meter *Meter, v any, style JSONStyle) (string, error) {
	w := &jsonWriter{meter: meter, JSONStyle: style}
	err := w.write(v, 0)
	return w.out.String(), err
}

type jsonWriter struct {
	JSONStyle
	meter *Meter
	out   strings.Builder
}

func (w *jsonWriter) put(s string) error {
	w.out.WriteString(s)
	return w.meter.Reserve(len(s))
}

func (w *jsonWriter) write(v any, depth int) error {
	if depth > maxDepth {
		return errors.New("the value is nested too deeply")
	}
	switch x := v.(type) {
	case nil:
		return w.put("null")
	case bool:
		return w.put(strconv.FormatBool(x))
	case int:
		return w.put(strconv.Itoa(x))
	case *big.Int:
		text, err := digits(x)
		if err != nil {
			return err
		}
		return w.put(text)
	case Decimal:
		return w.put(x.Text)
	case float64:
		if math.IsNaN(x) {
			return w.put("NaN")
		}
		return w.put(strings.Replace(floatRepr(x), "inf", "Infinity", 1))
	case string:
		return w.text(x)
	case *List:
		return w.list('[', ']', len(x.Items), depth, func(i int) error { return w.write(x.Items[i], depth+1) })
	case Tuple:
		return w.list('[', ']', len(x), depth, func(i int) error { return w.write(x[i], depth+1) })
	case *View:
		if x.kind == GroupView {
			return w.write(Tuple(x.items), depth)
		}
	case *Dict:
		return w.dict(x, depth)
	}
	return fmt.Errorf("Object of type %s is not JSON serializable", TypeName(v))
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	keys, order := make([]string, len(d.keys)), make([]int, len(d.keys))
	for i, k := range d.keys {
		order[i] = i
		switch x := k.(type) {
		case string:
			keys[i] = x
		case bool:
			keys[i] = strconv.FormatBool(x)
		case nil:
			keys[i] = "null"
		default:
			keys[i] = Repr(w.meter, k)
		}
	}
	if w.Sorted {
		sort.SliceStable(order, func(i, j int) bool { return keys[order[i]] < keys[order[j]] })
	}
	return w.list('{', '}', len(keys), depth, func(i int) error {
		if err := w.text(keys[order[i]]); err != nil {
			return err
		}
		if err := w.put(w.Key); err != nil {
			return err
		}
		return w.write(d.values[order[i]], depth+1)
	})
}

func (w *jsonWriter) list(open, end byte, n, depth int, write func(int) error) error {
	w.out.WriteByte(open)
	line := func(depth int) error {
		if !w.Lines || n == 0 {
			return nil
		}
		return w.put("\n" + strings.Repeat(w.Indent, depth))
	}
	for i := range n {
		if i > 0 {
			if err := w.put(w.Item); err != nil {
				return err
			}
		}
		if err := line(depth + 1); err != nil {
			return err
		}
		if err := write(i); err != nil {
			return err
		}
	}
	if err := line(depth); err != nil {
		return err
	}
	return w.put(string(end))
}

func (w *jsonWriter) text(s string) error {
	if err := w.meter.Reserve(len(s)); err != nil {
		return err
	}
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	w.out.WriteByte('"')
	for _, r := range s {
		esc, ok := short[r]
		switch {
		case ok:
			w.out.WriteString(esc)
		case r < 0x20 || w.ASCII && r >= 0x7f && r < 0x10000:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		case w.ASCII && r >= 0x10000:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, a, b)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
	return nil
}
