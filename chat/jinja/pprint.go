package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// prettyWidth is the width of lines that the filter pprint keeps to where it can.
const prettyWidth = 80

func filterPrettyPrint(r *run, v any, p *params) (any, error) {
	if err := p.done(); err != nil {
		return nil, err
	}
	w := &prettyPrinter{run: r}
	w.format(r.sortedKeys(v, 0), 0, 0, 1)
	return r.text(w.out.String())
}

// sortedKeys is v with the keys of its dicts in order, as pprint has them.
func (r *run) sortedKeys(v any, depth int) any {
	r.visit(depth)
	all := func(items []any) []any {
		out := make([]any, len(items))
		for i, item := range items {
			out[i] = r.sortedKeys(item, depth+1)
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
			c, err := r.compare(a, b, "<")
			if err != nil {
				return strings.Compare(typeName(a), typeName(b))
			}
			return c
		})
		d := NewDict()
		for _, k := range keys {
			item, _ := x.get(k)
			d.set(k, r.sortedKeys(item, depth+1))
		}
		return d
	}
	return v
}

// prettyPrinter is Python's pprint.pformat.
type prettyPrinter struct {
	run *run
	out strings.Builder
}

func (w *prettyPrinter) line(indent int) {
	w.run.must(w.run.make(indent))
	w.out.WriteString(",\n" + strings.Repeat(" ", indent))
}

// format writes v, which begins at a column and leaves room behind it.
func (w *prettyPrinter) format(v any, indent, room, level int) {
	text := w.run.repr(v)
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
		key := w.run.repr(k)
		w.out.WriteString(key + ": ")
		w.format(d.values[i], indent+1+utf8.RuneCountInString(key)+2, behind, level+1)
	}
	w.out.WriteByte('}')
}

// text writes a string in several literals, one a line.
func (w *prettyPrinter) text(s string, indent, room, level int) {
	if level == 1 {
		indent++
		room++
	}
	literal := func(s string) (string, int) {
		text := w.run.repr(s)
		return text, utf8.RuneCountInString(text)
	}
	var chunks []string
	lines := splitLines(s, true)
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
	w.run.must(w.run.make(len(chunks) * indent))
	text := strings.Join(chunks, "\n"+strings.Repeat(" ", indent))
	if level == 1 && len(chunks) > 1 {
		text = "(" + text + ")"
	}
	w.out.WriteString(text)
}

// spaced cuts a line into words, each with the space behind it.
func spaced(s string) (parts []string) {
	for s != "" {
		end := strings.IndexFunc(s, pySpace)
		if end < 0 {
			return append(parts, s)
		}
		if n := strings.IndexFunc(s[end:], func(r rune) bool { return !pySpace(r) }); n >= 0 {
			parts, s = append(parts, s[:end+n]), s[end+n:]
		} else {
			return append(parts, s)
		}
	}
	return parts
}
