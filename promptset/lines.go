package promptset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
)

// Lines are the rows of JSONL that come from a stream, of which nothing is known before. Rows are those of a file; but
// no column is the same for all of them.
type Lines struct {
	source Source
	from   io.Reader
	items  chan line
	ahead  *line // was read, and is no row yet
	begun  bool
	err    error
}

// line is a line of a stream, or why there is none.
type line struct {
	text  []byte
	first int64 // its number
	err   error
}

// NewLines gives the rows of a stream, which errors call name. A read of it may outlast all that waits for it.
func NewLines(name string, from io.Reader, m Mapping) *Lines {
	return &Lines{source: Source{Name: name, mapping: &m}, from: from, items: make(chan line)}
}

// Await waits until a row or the end of the stream is there; false says that ctx was done before.
func (l *Lines) Await(ctx context.Context) bool {
	if !l.begun {
		l.begun = true
		go l.read()
	}
	if l.ahead != nil {
		return true
	}
	select {
	case next := <-l.items:
		l.ahead = &next
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads lines until the stream ends.
func (l *Lines) read() {
	in, err := openLines(l.source.Name, l.from)
	if err != nil {
		l.items <- line{err: err}
		return
	}
	for {
		text, err := in.next()
		l.items <- line{slices.Clone(text), in.first, err}
		if err != nil && err != errLineTooLong {
			return
		}
	}
}

// Rows gives each row once, as it comes. It may be called once.
func (l *Lines) Rows(ctx context.Context) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for at := int64(0); l.Await(ctx); at++ {
			next := l.ahead
			switch {
			case errors.Is(next.err, io.EOF):
				return
			case next.err != nil && next.err != errLineTooLong:
				l.err = &FileError{File: l.source.Name, What: "cannot read it", Err: next.err}
				return
			}
			l.ahead = nil
			row, err := l.source.object(&objects{}, at, next.first, next.text, next.err)
			if l.err = err; err != nil || !yield(row) {
				return
			}
		}
		l.err = ctx.Err()
	}
}

// CopyRows copies JSONL up to the end of its n-th row, byte for byte, and reads little more; 0 copies all of it.
func CopyRows(to io.Writer, from io.Reader, n int64) error {
	if n == 0 {
		_, err := io.Copy(to, from)
		return err
	}
	l, err := openLines(StandardInput, from)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 64<<10)
	if l.offset > 0 {
		out.WriteString(byteOrderMark) // an error of out stays
	}
	for rows := int64(0); rows < n; {
		l.line = l.line[:0]
		tooLong, err := l.add(func(piece []byte) { out.Write(piece) })
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if tooLong || len(bytes.TrimSpace(l.line)) > 0 {
			rows++
		}
	}
	return out.Flush()
}

// Err returns why the rows ended before the end of the stream; nil for no other reason.
func (l *Lines) Err() error { return l.err }
