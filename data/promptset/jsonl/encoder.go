package jsonl

import (
	"io"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
)

// encoder writes a JSONL part.
type encoder struct {
	w       io.Writer
	columns *completion.Layout
	buf     []byte
}

func NewEncoder(w io.Writer, columns *completion.Layout, _ *completion.EncoderOptions) (completion.Encoder, error) {
	return &encoder{w: w, columns: columns}, nil
}

func (e *encoder) Finish() error { return nil }

func (e *encoder) Add(row *record.Row, results []completion.Result) (rows, size int64, err error) {
	e.buf = e.columns.AppendPassed(append(e.buf[:0], '{'), row)
	head := len(e.buf)
	for i := range results {
		e.buf = e.buf[:head]
		e.results(row, &results[i])
		e.buf = append(e.buf, '}', '\n')
		if _, err := e.w.Write(e.buf); err != nil {
			return rows, size, err
		}
		rows++
		size += int64(len(e.buf))
	}
	return rows, size, nil
}

func (e *encoder) results(row *record.Row, r *completion.Result) {
	o := completion.Row{ID: row.ID, Result: r}
	for _, c := range e.columns.Results {
		e.buf = c.AppendJSON(jsonvalue.AppendKey(e.buf, c.Name), &o)
	}
}
