package table

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// Guard converts a panic of the Parquet library, which a corrupt file can cause, to an error.
func Guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Parquet library gave up: %v", p)
	}
}

// Group is a set of rows that are read together: a row group of Parquet, or a record batch of Arrow.
type Group struct {
	What string // "row group 3"
	Rows int64
	Open func(from int64) (RowReader, error) // opens the group at a row
}

// RowReader reads the rows of a group in order, as the values of their leaves in order.
type RowReader interface {
	ReadRows(rows []parquet.Row) (n int, err error)
	Close() error
}

// Rows yields rows of a file, numbered within the file. It returns false if yield did. The error is an error of
// reading the file.
func (t *Table) Rows(ctx context.Context, in *input.Opened, groups []Group, from, to int64,
	yield func(*record.Row) bool) (bool,
	error) {
	l, err := in.Schema.Place(t.Root)
	if err != nil {
		return false, in.Changed("%v", err)
	}
	var start int64
	for _, g := range groups {
		first := start
		start += g.Rows
		if start <= from || first >= to {
			continue
		}
		r := groupReader{table: t, source: in.Source, first: first, nextRow: max(first, from), end: min(start, to),
			layout: l}
		err := r.read(ctx, g, yield)
		if r.stopped {
			return false, nil
		}
		// Rows that could not be read are still rows, each with the error.
		for index := r.nextRow; index < r.end; index++ {
			if in.File.Err != nil {
				return false, in.File.Err
			}
			row := in.Row(index)
			row.LostID = true
			row.Fail("%s cannot be read from here on: %v; write the file again", g.What, err)
			row.Finish(nil, t.mapping)
			if ctx.Err() != nil || !yield(row.Row) {
				return false, nil
			}
		}
	}
	return true, nil
}

type groupReader struct {
	table        *Table
	source       *input.Source
	first        int64 // number in the file of the group's first row
	nextRow, end int64 // the next row, and the end of the wanted ones
	layout       *schema.Placement
	stopped      bool
	values       []parquet.Value   // values of the current row
	columns      [][]parquet.Value // the same by leaf
}

// read yields the rows of a group up to its end or the first error, which it returns.
func (r *groupReader) read(ctx context.Context, g Group, yield func(*record.Row) bool) (err error) {
	rows, err := g.Open(r.nextRow - r.first)
	if err != nil {
		return err
	}
	defer rows.Close()
	r.columns = make([][]parquet.Value, r.table.Root.Leaves)
	buffer := make([]parquet.Row, 16)
	for r.nextRow < r.end {
		if ctx.Err() != nil {
			r.stopped = true
			return nil
		}
		n, err := ReadRows(rows, buffer)
		for _, values := range buffer[:n] {
			if r.nextRow == r.end {
				break
			}
			row, badRow := r.row(values)
			if badRow != nil {
				return badRow
			}
			r.nextRow++
			if !yield(row) {
				r.stopped = true
				return nil
			}
		}
		switch {
		case r.nextRow == r.end:
			return nil
		case err == io.EOF || n == 0 && err == nil:
			return errors.New("it ends before its rows do")
		case err != nil:
			return err
		}
	}
	return nil
}

// row returns a Row with a copy of the values.
func (r *groupReader) row(values parquet.Row) (*record.Row, error) {
	row := r.source.Row(r.nextRow)
	all := append(compact(values), r.table.folders...)
	made := r.table.Made
	if made != nil {
		all = append(all, parquet.NullValue().Level(0, 0, made.Column))
	}
	if err := r.place(all); err != nil {
		return nil, err
	}
	given := r.decode(row)
	if row.Made {
		all[len(all)-1] = parquet.ByteArrayValue([]byte(row.Prompt)).Level(0, made.MaxDef, made.Column)
	}
	row.Source = &record.Values{Values: all, Layout: r.layout}
	row.Finish(given, r.table.mapping)
	return row.Row, nil
}

// place makes a row's values the current ones.
func (r *groupReader) place(values []parquet.Value) error {
	clear(r.columns)
	r.values = values
	for i := 0; i < len(values); {
		c := values[i].Column()
		j := i + 1
		for j < len(values) && values[j].Column() == c {
			j++
		}
		if c < 0 || c >= len(r.columns) || r.columns[c] != nil {
			return errors.New("its values are out of order")
		}
		r.columns[c] = values[i:j:j]
		i = j
	}
	for _, v := range r.columns {
		if v == nil {
			return errors.New("a column of it ends early")
		}
	}
	return nil
}

// compact copies the values of a row, so that the row does not keep whole pages in memory.
func compact(row parquet.Row) []parquet.Value {
	size := 0
	for _, v := range row {
		if !v.IsNull() && (v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray) {
			size += len(v.ByteArray())
		}
	}
	arena := make([]byte, 0, size)
	out := make([]parquet.Value, len(row))
	for i, v := range row {
		if !v.IsNull() {
			switch v.Kind() {
			case parquet.ByteArray, parquet.FixedLenByteArray:
				start := len(arena)
				arena = append(arena, v.ByteArray()...)
				b := arena[start:len(arena):len(arena)]
				c := parquet.ByteArrayValue(b)
				if v.Kind() == parquet.FixedLenByteArray {
					c = parquet.FixedLenByteArrayValue(b)
				}
				v = c.Level(v.RepetitionLevel(), v.DefinitionLevel(), v.Column())
			case parquet.Int96:
				v = v.Clone()
			}
		}
		out[i] = v
	}
	return out
}

// decode sets the row's known fields and returns which prompts are given.
func (r *groupReader) decode(row *record.Builder) (given []string) {
	for _, name := range schema.PromptNames {
		if c := r.table.Known[name]; c != nil && r.present(c) {
			given = append(given, name)
		}
	}
	if r.table.Made != nil {
		given = []string{"prompt"}
		r.render(row)
	}
	beside := r.table.mapping.Forms(given)
	for _, name := range schema.KnownNames {
		if c := r.table.Known[name]; c != nil && schema.Concerns(name, beside) {
			r.decodeKnown(row, name, c)
		}
	}
	row.Apply(r.foreign(row), beside)
	r.decodeSeconds(row)
	return given
}

// decodeSeconds sets the texts that make pairs with the row's prompt.
func (r *groupReader) decodeSeconds(row *record.Builder) {
	if len(r.table.seconds) == 0 {
		return
	}
	a := &schema.Assembler{Values: r.values}
	a.Index()
	for _, c := range r.table.seconds {
		r.checkText(row, c)
		row.DecodeSeconds(c.Name, a.Append(nil, c))
	}
}

// render sets the prompt of the row from the template.
func (r *groupReader) render(row *record.Builder) {
	a := &schema.Assembler{Values: r.values, Python: true}
	a.Index()
	columns := map[string]json.RawMessage{}
	for _, c := range r.table.used {
		r.checkText(row, c)
		columns[r.table.mapping.Original(c.Name)] = a.Append(nil, c)
	}
	r.table.mapping.Render(row, columns)
}

func ReadRows(rows RowReader, buffer []parquet.Row) (n int, err error) {
	defer Guard(&err)
	return rows.ReadRows(buffer)
}
