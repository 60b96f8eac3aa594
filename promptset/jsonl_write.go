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

func newJSONLEncoder(w io.Writer, columns *outputColumns, _ *EncoderOptions) (Encoder, error) {
	return &jsonlEncoder{w: w, columns: columns}, nil
}

func (e *jsonlEncoder) Finish() error { return nil }

func (e *jsonlEncoder) Add(row *Row, results []Result) (rows, size int64, err error) {
	e.buf = e.columns.appendPassed(append(e.buf[:0], '{'), row)
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

func (e *jsonlEncoder) results(row *Row, r *Result) {
	o := outputRow{row.ID, r}
	for _, c := range e.columns.results {
		e.buf = c.appendJSON(appendKey(e.buf, c.Name), &o)
	}
}

// appendPassed appends the input's columns of a row, in their order, to an object that is written.
func (o *outputColumns) appendPassed(b []byte, row *Row) []byte {
	if row.Source == nil {
		return b
	}
	return row.Source.AppendJSON(b, func(column string) (string, bool) { return o.nameOf(column, row.Source) })
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
