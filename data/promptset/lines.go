package promptset

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/quire/quire/data/promptset/jsonl"
	"github.com/quire/quire/data/promptset/lines"
)

// Lines are rows of JSONL from a stream whose content is unknown in advance. The rows are like a file's, but no
// column has the same type in all of them.
type Lines struct {
	source  Source
	from    io.Reader
	items   chan lines.Text
	ahead   *lines.Text // text that was read but is not a row yet
	started bool
	err     error
}

// NewLines returns the rows of a stream. Errors call the stream name. A blocked read of it may outlast everything
// that waits for it.
func NewLines(name string, from io.Reader, m Mapping) *Lines {
	return &Lines{source: Source{Name: name, Mapping: &m}, from: from, items: make(chan lines.Text)}
}

// Await waits until a row or the end of the stream is available; it returns false if ctx is done first.
func (l *Lines) Await(ctx context.Context) bool {
	if !l.started {
		l.started = true
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
	in, err := lines.Open(l.source.Name, l.from)
	if err != nil {
		l.items <- lines.Text{Err: err}
		return
	}
	for {
		text, err := in.Next()
		l.items <- lines.Text{Bytes: slices.Clone(text), Line: in.First, Err: err}
		if err != nil && err != lines.ErrTooLong {
			return
		}
	}
}

// Rows yields each row once, as it arrives. It may be called once.
func (l *Lines) Rows(ctx context.Context) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for index := int64(0); l.Await(ctx); index++ {
			next := l.ahead
			switch {
			case errors.Is(next.Err, io.EOF):
				return
			case next.Err != nil && next.Err != lines.ErrTooLong:
				l.err = &FileError{File: l.source.Name, What: "cannot read it", Err: next.Err}
				return
			}
			l.ahead = nil
			row, err := lines.RowOf(&l.source, jsonl.Rows{}, index, *next)
			if l.err = err; err != nil || !yield(row) {
				return
			}
		}
		l.err = ctx.Err()
	}
}

// Err returns why the rows ended before the end of the stream; nil if they did not.
func (l *Lines) Err() error { return l.err }
