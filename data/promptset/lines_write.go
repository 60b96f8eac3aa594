package promptset

import (
	"fmt"
	"io"
	"sync"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/schema"
)

// LineWriter writes completions to a stream, in a line format. The completions of a row are written at once, and rows
// as they finish or in the order of [Row.Index]. Its methods may be called from several goroutines.
type LineWriter struct {
	mu      sync.Mutex
	encoder completion.Encoder
	inOrder bool
	next    int64              // index of the next row to write, if in order
	held    map[int64]finished // finished rows that wait for next
	bytes   int64              // estimated size of held
	rows    int64              // input rows that were written
	err     error              // the first failure; nothing is written after it
}

// NewLineWriter starts to write to w. Without an input schema, all keys of a row are passed through.
func NewLineWriter(w io.Writer, options WriterOptions, inOrder bool) (*LineWriter, error) {
	format := formatNamed(options.Format)
	if format == nil || !folder.HasMetaFile(format.name) {
		return nil, fmt.Errorf("the output format %q has no lines", options.Format)
	}
	if _, err := options.Shape.Task.OnRequest(options.Shape.Requested); err != nil {
		return nil, fmt.Errorf("a column of the output %w", err)
	}
	input := options.Schema
	if input == nil {
		input = schema.New()
	}
	if err := options.Shape.CheckExcluded(options.Schema); err != nil {
		return nil, fmt.Errorf("what the output does without %w", err)
	}
	columns := completion.NewLayout(input, options.Shape)
	columns.Open = options.Schema == nil
	l := &LineWriter{inOrder: inOrder, held: map[int64]finished{}}
	l.encoder, l.err = format.encoder(w, columns, options.encoder())
	return l, l.err
}

// Add accepts the completions of a row, which must not change afterwards.
func (l *LineWriter) Add(row *Row, results []Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.inOrder {
		return l.write(finished{row, results})
	}
	f := finished{row, results}
	l.held[row.Index] = f
	l.bytes += f.size()
	for {
		f, ok := l.held[l.next]
		if !ok {
			return l.err
		}
		delete(l.held, l.next)
		l.bytes -= f.size()
		l.next++
		if err := l.write(f); err != nil {
			return err
		}
	}
}

func (l *LineWriter) write(f finished) error {
	if l.err == nil {
		if _, _, l.err = l.encoder.Add(f.row, f.results); l.err == nil {
			l.rows++
		}
	}
	return l.err
}

// Rows returns how many input rows were written.
func (l *LineWriter) Rows() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rows
}

// Pending returns how many rows wait for an earlier one to be added, and about how many bytes they take.
func (l *LineWriter) Pending() (rows int, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held), l.bytes
}
