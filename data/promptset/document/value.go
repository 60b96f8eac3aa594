package document

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/quire/quire/data/promptset/lines"
)

// errCutOff reports a file that ends in the middle of a list or an object.
var errCutOff = errors.New("it ends in the middle of the document: it is cut off")

// peek skips white space and returns the byte after it. The error is io.EOF at the end of the file.
func peek(l *lines.Reader) (byte, error) {
	for {
		b, err := l.Buf.Peek(1)
		if err != nil {
			return 0, err
		}
		if !isSpace(b[0]) {
			return b[0], nil
		}
		l.Skip(1)
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }

// expect skips white space and one of several bytes, which it returns.
func expect(l *lines.Reader, any string) (byte, error) {
	b, err := peek(l)
	if err == io.EOF {
		return 0, errCutOff
	} else if err != nil {
		return 0, err
	}
	for i := range len(any) {
		if b == any[i] {
			l.Skip(1)
			return b, nil
		}
	}
	return 0, fmt.Errorf("byte %d is %q and not %s", l.Offset, b, strings.Join(strings.Split(any, ""), " or "))
}

// item makes the next item of a list the reader's line, and counts the items. The error is io.EOF after the last one.
func item(l *lines.Reader) error {
	l.Line = l.Line[:0]
	b, err := peek(l)
	if err == nil && b == ']' {
		l.Skip(1)
		return io.EOF
	}
	if err == nil && l.Number > 0 {
		_, err = expect(l, ",")
	}
	if err == io.EOF {
		return errCutOff
	} else if err != nil {
		return err
	}
	l.Number++
	return value(l)
}

// value makes the next value the reader's line: up to the end of its brackets and quotes or, if it has none, up to the
// character that ends a number. It need not be well formed.
func value(l *lines.Reader) error {
	l.Line = l.Line[:0]
	if _, err := peek(l); err == io.EOF {
		return errCutOff
	}
	depth, quoted, escaped, tooLong, size := 0, false, false, false, 0
	for {
		if _, err := l.Buf.Peek(1); err == io.EOF {
			return errCutOff
		} else if err != nil {
			return err
		}
		piece, _ := l.Buf.Peek(l.Buf.Buffered())
		n, ended := len(piece), false
		for i, b := range piece {
			within := true // the byte belongs to the value
			switch {
			case escaped:
				escaped = false
			case quoted:
				escaped, quoted = b == '\\', b != '"'
				ended = !quoted && depth == 0
			case b == '"':
				quoted = true
			case b == '{', b == '[':
				depth++
			case depth > 0 && (b == '}' || b == ']'):
				depth--
				ended = depth == 0
			case depth == 0 && (isSpace(b) || b == ',' || b == ':' || b == '}' || b == ']'):
				ended, within = true, false
			}
			if ended {
				if n = i; within {
					n++
				}
				break
			}
		}
		size += n
		if tooLong = tooLong || size > lines.MaxLine; !tooLong {
			l.Line = append(l.Line, piece[:n]...)
		}
		l.Skip(n)
		switch {
		case ended && tooLong:
			return lines.ErrTooLong
		case ended && size == 0:
			return fmt.Errorf("there is no value at byte %d", l.Offset)
		case ended:
			return nil
		}
	}
}
