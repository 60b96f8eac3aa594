package promptset

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
)

// jsonlEncoder writes a JSONL part.
type jsonlEncoder struct {
	w       io.Writer
	columns *outputColumns
	buf     []byte
}

func newJSONLEncoder(w io.Writer, columns *outputColumns, _ *WriterOptions) (encoder, error) {
	return &jsonlEncoder{w: w, columns: columns}, nil
}

func (e *jsonlEncoder) finish() error { return nil }

func (e *jsonlEncoder) add(row *Row, results []Result) (rows, size int64, err error) {
	e.buf = append(e.buf[:0], '{')
	e.passThrough(row)
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

func (e *jsonlEncoder) key(name string) {
	if e.buf[len(e.buf)-1] != '{' {
		e.buf = append(e.buf, ',')
	}
	e.buf = append(appendText(e.buf, name), ':')
}

// passThrough writes the input's keys in their order.
func (e *jsonlEncoder) passThrough(row *Row) {
	switch {
	case row.object != nil:
		for _, m := range row.object {
			if name, ok := e.columns.nameOf(m.key, row.object); ok {
				e.key(name)
				e.buf = append(e.buf, compactJSON(m.raw)...)
			}
		}
	case row.values != nil:
		a := assembler{values: row.values, next: make([]int, 0, 16)}
		a.index()
		for _, c := range row.layout.columns {
			if i, ok := e.columns.rename[c.name]; ok {
				e.key(e.columns.input[i].name)
				e.buf = a.column(e.buf, c)
			}
		}
	}
}

func (e *jsonlEncoder) results(row *Row, r *Result) {
	o := outputRow{row.ID, r}
	for _, c := range e.columns.results {
		e.key(c.Name)
		e.buf = c.appendJSON(e.buf, &o)
	}
}

// appendText writes a JSON string, with U+FFFD for what is not UTF-8 and without the escapes meant for HTML.
func appendText(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(strings.ToValidUTF8(s, "\uFFFD")); err != nil {
		panic(err) // a string always has a JSON form
	}
	return append(b, bytes.TrimRight(out.Bytes(), "\n")...)
}

// appendFloat writes a number; JSON has none for infinities and NaN, which become null.
func appendFloat(b []byte, f float64, bits int) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// compactJSON drops the white space of a valid JSON value.
func compactJSON(raw json.RawMessage) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}
