package promptset

import (
	"bytes"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// NewRowCompare returns a function that says whether a row of an output has the columns that a row of the input gives
// it, in an output of that format with that schema of the input and columns on request.
func NewRowCompare(format string, s *Schema, requested []string) func(*Row, *Completion) bool {
	columns := newOutputColumns(s, requested)
	if format == FormatParquet {
		return columns.sameValues
	}
	return columns.sameMembers
}

// sameMembers compares a row of JSONL.
func (o *outputColumns) sameMembers(row *Row, c *Completion) bool {
	want, got := jsonlEncoder{columns: o, buf: []byte{'{'}}, jsonlEncoder{columns: o, buf: []byte{'{'}}
	want.passThrough(row)
	for _, m := range c.prompt().object {
		if m.key == columns[0].Name {
			break
		}
		got.key(m.key)
		got.buf = append(got.buf, compactJSON(m.raw)...)
	}
	return bytes.Equal(want.buf, got.buf)
}

// sameValues compares a row of Parquet.
func (o *outputColumns) sameValues(row *Row, c *Completion) bool {
	e := &parquetEncoder{columns: o, input: make([][]parquet.Value, o.root.leaves)}
	e.passThrough(row)
	first, got := o.result.column, make([][]parquet.Value, o.root.leaves)
	for _, v := range c.prompt().values {
		if v.Column() >= len(got) {
			return false
		}
		got[v.Column()] = append(got[v.Column()], v)
	}
	if len(got) > 0 && len(got[len(got)-1]) == 0 { // it has fewer columns
		return false
	}
	for i := range first {
		if !slices.EqualFunc(e.input[i], got[i], parquet.DeepEqual) {
			return false
		}
	}
	return true
}
