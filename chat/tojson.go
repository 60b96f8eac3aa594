package chat

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// toJSONFilter is tojson as transformers defines it: Python's json.dumps with
// ensure_ascii off, nothing escaped for HTML.
func toJSONFilter(_ *exec.Evaluator, in *exec.Value, args *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	if len(args.Args) > 0 {
		return exec.AsValue(errors.New("tojson takes keyword arguments only"))
	}
	w := &jsonWriter{indent: -1, item: ", ", key: ": "}
	for name, v := range args.KwArgs {
		switch {
		case name == "ensure_ascii" && v.IsBool():
			w.ascii = v.Bool()
		case name == "sort_keys" && v.IsBool():
			w.sorted = v.Bool()
		case name == "indent" && v.IsNil() || name == "separators" && v.IsNil():
		case name == "indent" && v.IsInteger() && v.Integer() <= 64:
			w.indent = max(0, v.Integer())
			w.item = ","
		case name == "separators" && v.Len() == 2:
		default:
			return exec.AsValue(fmt.Errorf("tojson: the argument %s=%s is not supported", name, v.String()))
		}
	}
	if v, ok := args.KwArgs["separators"]; ok && !v.IsNil() {
		w.item, w.key = v.Index(0).String(), v.Index(1).String()
	}
	if err := w.write(in.Interface(), 0); err != nil {
		return exec.AsValue(fmt.Errorf("tojson: %w", err))
	}
	return exec.AsSafeValue(w.out.String())
}

type jsonWriter struct {
	out           strings.Builder
	indent        int // -1: one line
	item, key     string
	ascii, sorted bool
}

const maxJSONDepth = 100

func (w *jsonWriter) write(v any, depth int) error {
	if depth > maxJSONDepth {
		return errors.New("the value is nested too deeply")
	}
	switch x := v.(type) {
	case nil:
		w.out.WriteString("null")
		return nil
	case *exec.Value:
		return w.write(x.Interface(), depth)
	case string:
		w.str(x)
		return nil
	case bool:
		w.out.WriteString(strconv.FormatBool(x))
		return nil
	case *exec.Dict:
		keys, values := make([]string, len(x.Pairs)), make([]any, len(x.Pairs))
		for i, p := range x.Pairs {
			keys[i], values[i] = p.Key.String(), p.Value
		}
		return w.object(keys, values, depth)
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.out.WriteString(strconv.FormatInt(r.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.out.WriteString(strconv.FormatUint(r.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		w.float(r.Float())
	case reflect.Slice, reflect.Array:
		values := make([]any, r.Len())
		for i := range values {
			values[i] = r.Index(i).Interface()
		}
		return w.list('[', ']', len(values), depth, func(i int) error { return w.write(values[i], depth+1) })
	case reflect.Map:
		var keys []string
		byKey := make(map[string]any)
		for it := r.MapRange(); it.Next(); {
			k := fmt.Sprint(it.Key().Interface())
			keys = append(keys, k)
			byKey[k] = it.Value().Interface()
		}
		sort.Strings(keys)
		values := make([]any, len(keys))
		for i, k := range keys {
			values[i] = byKey[k]
		}
		return w.object(keys, values, depth)
	default:
		return fmt.Errorf("a %T has no JSON form", v)
	}
	return nil
}

func (w *jsonWriter) object(keys []string, values []any, depth int) error {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	if w.sorted {
		sort.SliceStable(order, func(i, j int) bool { return keys[order[i]] < keys[order[j]] })
	}
	return w.list('{', '}', len(keys), depth, func(i int) error {
		w.str(keys[order[i]])
		w.out.WriteString(w.key)
		return w.write(values[order[i]], depth+1)
	})
}

func (w *jsonWriter) list(open, end byte, n, depth int, write func(int) error) error {
	w.out.WriteByte(open)
	for i := range n {
		if i > 0 {
			w.out.WriteString(w.item)
		}
		w.line(depth + 1)
		if err := write(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.line(depth)
	}
	w.out.WriteByte(end)
	return nil
}

func (w *jsonWriter) line(depth int) {
	if w.indent >= 0 {
		w.out.WriteByte('\n')
		w.out.WriteString(strings.Repeat(" ", depth*w.indent))
	}
}

// float writes f as Python's repr does.
func (w *jsonWriter) float(f float64) {
	switch {
	case math.IsNaN(f):
		w.out.WriteString("NaN")
		return
	case math.IsInf(f, 0):
		w.out.WriteString(strings.Replace(strconv.FormatFloat(f, 'g', -1, 64), "Inf", "Infinity", 1))
		return
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	w.out.WriteString(s)
}

func (w *jsonWriter) str(s string) {
	w.out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.out.WriteByte('\\')
			w.out.WriteRune(r)
		case r == '\n':
			w.out.WriteString(`\n`)
		case r == '\r':
			w.out.WriteString(`\r`)
		case r == '\t':
			w.out.WriteString(`\t`)
		case r == '\b':
			w.out.WriteString(`\b`)
		case r == '\f':
			w.out.WriteString(`\f`)
		case r < 0x20 || w.ascii && r >= 0x7f && r < 0x10000:
			fmt.Fprintf(&w.out, `\u%04x`, r)
		case w.ascii && r > utf8.RuneSelf:
			a, b := utf16.EncodeRune(r)
			fmt.Fprintf(&w.out, `\u%04x\u%04x`, a, b)
		default:
			w.out.WriteRune(r)
		}
	}
	w.out.WriteByte('"')
}
