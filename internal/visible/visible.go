// Package visible prints text from files, models and networks so that it cannot control a terminal. Control characters,
// marks that change the direction of text, and bytes that are not UTF-8 are written as escapes, such as \x1b and
// \u202e.
//
// JSON stays valid: the only such characters that it can contain are from U+007F on, inside of strings, where \u007f
// means the same.
package visible

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// hidden reports whether a character is written as an escape. Newlines and tabs belong to the layout.
func hidden(r rune) bool {
	switch {
	case r < ' ':
		return r != '\n' && r != '\t'
	case r < 0x7f:
		return false
	case r < 0xa0: // DEL, and the controls of Latin-1
		return true
	}
	switch {
	case r >= 0x2028 && r <= 0x202e: // ends of lines and paragraphs; embeddings and overrides of direction
		return true
	case r >= 0x2066 && r <= 0x2069: // isolates
		return true
	}
	return false
}

// Text returns s with its control characters visible, except newlines and tabs.
func Text(s string) string {
	for i, r := range s {
		if hidden(r) || r == utf8.RuneError {
			out, _ := escape(append(make([]byte, 0, len(s)+8), s[:i]...), []byte(s[i:]), true)
			return string(out)
		}
	}
	return s
}

// Line is Text for a single line: newlines and tabs are visible, too.
func Line(s string) string { return lines.Replace(Text(s)) }

var lines = strings.NewReplacer("\n", `\x0a`, "\t", `\x09`)

// escape appends b to out in printable form. Unless end is set, the bytes of an incomplete character are returned as
// left.
func escape(out, b []byte, end bool) (printed, left []byte) {
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1:
			if !end && !utf8.FullRune(b) {
				return out, b
			}
			out = fmt.Appendf(out, `\x%02x`, b[0])
		case !hidden(r):
			out = append(out, b[:size]...)
		case r < ' ':
			out = fmt.Appendf(out, `\x%02x`, r)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[size:]
	}
	return out, nil
}

// Writer makes control characters in what is written to it visible. It is not for concurrent use.
type Writer struct {
	to   io.Writer
	left []byte // bytes of a character that is still incomplete
	out  []byte // reused
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes b.
func (w *Writer) Write(b []byte) (int, error) {
	if err := w.write(b, false); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes the rest of an incomplete character.
func (w *Writer) Flush() error { return w.write(nil, true) }

func (w *Writer) write(b []byte, end bool) error {
	if len(w.left) > 0 {
		b = append(w.left, b...)
	}
	var left []byte
	w.out, left = escape(w.out[:0], b, end)
	w.left = append([]byte(nil), left...)
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.to.Write(w.out)
	return err
}
