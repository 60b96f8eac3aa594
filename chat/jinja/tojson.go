package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// filterToJSON is tojson as transformers defines it: Python's json.dumps with
// ensure_ascii off, nothing escaped for HTML.
func filterToJSON(r *run, v any, p *params) (any, error) {
	w := &jsonWriter{run: r, item: ", ", key: ": "}
	w.ascii = p.bool("ensure_ascii", false)
	indent, separators := p.any("indent", nil), p.any("separators", nil)
	w.sorted = p.bool("sort_keys", false)
	if err := p.done(); err != nil {
		return nil, err
	}
	if indent != nil {
		w.item, w.lines = ",", true
		n, _, isInt, _ := number(indent)
		s, isText := indent.(string)
		switch {
		case isInt:
			s = strings.Repeat(" ", min(max(0, n), 64))
		case !isText:
			return nil, errors.New("indent must be an integer or a string")
		}
		w.indent = s
	}
	if separators != nil {
		items, err := iterate(separators)
		if err != nil || len(items) != 2 {
			return nil, errors.New("separators must be two strings")
		}
		w.item, w.key = r.str(items[0]), r.str(items[1])
	}
	if err := w.write(v, 0); err != nil {
		return nil, err
	}
	return w.out.String(), nil
}

// ToJSON returns a value as the filter tojson writes it.
func ToJSON(v any, limits Limits) (string, error) {
	w := &jsonWriter{run: &run{limits: limits, deadline: time.Now().Add(limits.Time)}, item: ", ", key: ": "}
	err := w.write(v, 0)
	return w.out.String(), err
}

type jsonWriter struct {
	run           *run
	out           strings.Builder
	lines         bool
	indent        string
	item, key     string
	ascii, sorted bool
}

func (w *jsonWriter) put(s string) error {
	w.out.WriteString(s)
	return w.run.make(len(s))
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
	case *view:
		if x.kind == groupView {
			return w.write(Tuple(x.items), depth)
		}
	case *Dict:
		return w.dict(x, depth)
	}
	return fmt.Errorf("Object of type %s is not JSON serializable", typeName(v))
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
			keys[i] = w.run.repr(k)
		}
	}
	if w.sorted {
		sort.SliceStable(order, func(i, j int) bool { return keys[order[i]] < keys[order[j]] })
	}
	return w.list('{', '}', len(keys), depth, func(i int) error {
		if err := w.text(keys[order[i]]); err != nil {
			return err
		}
		if err := w.put(w.key); err != nil {
			return err
		}
		return w.write(d.values[order[i]], depth+1)
	})
}

func (w *jsonWriter) list(open, end byte, n, depth int, write func(int) error) error {
	w.out.WriteByte(open)
	line := func(depth int) error {
		if !w.lines || n == 0 {
			return nil
		}
		return w.put("\n" + strings.Repeat(w.indent, depth))
	}
	for i := range n {
		if i > 0 {
			if err := w.put(w.item); err != nil {
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
	if err := w.run.make(len(s)); err != nil {
		return err
	}
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	w.out.WriteByte('"')
	for _, r := range s {
		esc, ok := short[r]
		switch {
		case ok:
			w.out.WriteString(esc)
		case r < 0x20 || w.ascii && r >= 0x7f && r < 0x10000:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		case w.ascii && r >= 0x10000:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, a, b)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
	return nil
}
