package value

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// prettyWidth is the width of lines that the filter pprint aims for.
const prettyWidth = 80

// sortedKeys returns v with the keys of its dicts sorted, as pprint does.
func sortedKeys(meter *Meter, v any, depth int) any {
	meter.visit(depth)
	all := func(items []any) []any {
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = sortedKeys(meter, item, depth+1)
		}
		return out
	}
	switch x := v.(type) {
	case *List:
		return &List{all(x.Items)}
	case Tuple:
		return Tuple(all(x))
	case *Dict:
		keys := slices.Clone(x.keys)
		slices.SortStableFunc(keys, func(a, b any) int {
			c, err := Compare(meter, a, b, "<")
			if err != nil {
				return strings.Compare(TypeName(a), TypeName(b))
			}
			return c
		})
		d := NewDict()
		for _, k := range keys {
			item, _ := x.Get(k)
			d.Set(k, sortedKeys(meter, item, depth+1))
		}
		return d
	}
	return v
}

// Pretty is Python's pprint.pformat.
func Pretty(meter *Meter, v any) string {
	w := &prettyPrinter{meter: meter}
	w.format(sortedKeys(meter, v, 0), 0, 0, 1)
	return w.out.String()
}

// prettyPrinter is Python's pprint.pformat.
type prettyPrinter struct {
	meter *Meter
	out   strings.Builder
}

func (w *prettyPrinter) line(indent int) {
	w.meter.must(w.meter.Reserve(indent))
	w.out.WriteString(",\n" + strings.Repeat(" ", indent))
}

// format writes v at a column, and leaves room after it.
func (w *prettyPrinter) format(v any, indent, room, level int) {
	text := Repr(w.meter, v)
	if utf8.RuneCountInString(text) > prettyWidth-indent-room {
		switch x := v.(type) {
		case *Dict:
			w.dict(x, indent, room+1, level)
			return
		case *List:
			w.items("[", x.Items, "]", indent, room, level)
			return
		case Tuple:
			end := ")"
			if len(x) == 1 {
				end = ",)"
			}
			w.items("(", x, end, indent, room, level)
			return
		case string:
			w.text(x, indent, room, level)
			return
		}
	}
	w.out.WriteString(text)
}

func (w *prettyPrinter) items(open string, items []any, end string, indent, room, level int) {
	w.out.WriteString(open)
	for i, item := range items {
		behind := 1
		if i == len(items)-1 {
			behind = room + len(end)
		}
		if i > 0 {
			w.line(indent + 1)
		}
		w.format(item, indent+1, behind, level+1)
	}
	w.out.WriteString(end)
}

func (w *prettyPrinter) dict(d *Dict, indent, room, level int) {
	w.out.WriteByte('{')
	for i, k := range d.keys {
		behind := 1
		if i == len(d.keys)-1 {
			behind = room
		}
		if i > 0 {
			w.line(indent + 1)
		}
		key := Repr(w.meter, k)
		w.out.WriteString(key + ": ")
		w.format(d.values[i], indent+1+utf8.RuneCountInString(key)+2, behind, level+1)
	}
	w.out.WriteByte('}')
}

// text writes a string as several literals, one per line.
func (w *prettyPrinter) text(s string, indent, room, level int) {
	if level == 1 {
		indent++
		room++
	}
	literal := func(s string) (string, int) {
		text := Repr(w.meter, s)
		return text, utf8.RuneCountInString(text)
	}
	var chunks []string
	lines := SplitLines(s, true)
	for i, line := range lines {
		width, last := prettyWidth-indent, i == len(lines)-1
		text, n := literal(line)
		if n <= width-room || !last && n <= width {
			chunks = append(chunks, text)
			continue
		}
		current := ""
		words := spaced(line)
		for j, part := range words {
			if last && j == len(words)-1 {
				width -= room
			}
			if _, n := literal(current + part); n <= width {
				current += part
				continue
			}
			if current != "" {
				text, _ := literal(current)
				chunks = append(chunks, text)
			}
			current = part
		}
		if current != "" {
			text, _ := literal(current)
			chunks = append(chunks, text)
		}
	}
	w.meter.must(w.meter.Reserve(len(chunks) * indent))
	text := strings.Join(chunks, "\n"+strings.Repeat(" ", indent))
	if level == 1 && len(chunks) > 1 {
		text = "(" + text + ")"
	}
	w.out.WriteString(text)
}

// spaced splits a line into words, each with the space after it.
func spaced(s string) (parts []string) {
	for s != "" {
		end := strings.IndexFunc(s, IsSpace)
		if end < 0 {
			return append(parts, s)
		}
		if n := strings.IndexFunc(s[end:], func(r rune) bool { return !IsSpace(r) }); n >= 0 {
			parts, s = append(parts, s[:end+n]), s[end+n:]
		} else {
			return append(parts, s)
		}
	}
	return parts
}
