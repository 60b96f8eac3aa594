package promptset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// group is rows of a table that are read together: a row group of Parquet, a record batch of Arrow.
type group struct {
	what string // "row group 3"
	rows int64
	open func(from int64) (rowReader, error) // reads it from a row on
}

// rowReader reads the rows of a group one behind the other, as the values of their leaves in order.
type rowReader interface {
	ReadRows(rows []parquet.Row) (n int, err error)
	Close() error
}

// rows gives rows of a file, numbered there, to yield. It returns false when yield did. An error is that of reading the
// file.
func (t *table) rows(ctx context.Context, in *Opened, groups []group, from, to int64, yield func(*Row) bool) (bool,
	error) {
	l, err := in.Schema.place(t.root)
	if err != nil {
		return false, in.Changed("%v", err)
	}
	var start int64
	for _, g := range groups {
		first := start
		start += g.rows
		if start <= from || first >= to {
			continue
		}
		r := groupReader{table: t, source: in.Source, first: first, at: max(first, from), end: min(start, to),
			layout: l}
		err := r.read(ctx, g, yield)
		if r.stopped {
			return false, nil
		}
		// What could not be read is still there as rows, each with the reason.
		for at := r.at; at < r.end; at++ {
			if in.File.Err != nil {
				return false, in.File.Err
			}
			row := in.Row(at)
			row.LostID = true
			row.fail("%s cannot be read from here on: %v; write the file anew", g.what, err)
			row.finish(nil, t.mapping)
			if ctx.Err() != nil || !yield(row.Row) {
				return false, nil
			}
		}
	}
	return true, nil
}

type groupReader struct {
	table   *table
	source  *Source
	first   int64 // row of the group
	at, end int64 // next row, and the first not wanted
	layout  *layout
	stopped bool
	values  []parquet.Value   // of the current row
	columns [][]parquet.Value // the same by leaf
}

// read gives the rows of a group to yield up to its end or the first error, which it returns.
func (r *groupReader) read(ctx context.Context, g group, yield func(*Row) bool) (err error) {
	rows, err := g.open(r.at - r.first)
	if err != nil {
		return err
	}
	defer rows.Close()
	r.columns = make([][]parquet.Value, r.table.root.leaves)
	buffer := make([]parquet.Row, 16)
	for r.at < r.end {
		if ctx.Err() != nil {
			r.stopped = true
			return nil
		}
		n, err := readRows(rows, buffer)
		for _, values := range buffer[:n] {
			if r.at == r.end {
				break
			}
			row, badRow := r.row(values)
			if badRow != nil {
				return badRow
			}
			r.at++
			if !yield(row) {
				r.stopped = true
				return nil
			}
		}
		switch {
		case r.at == r.end:
			return nil
		case err == io.EOF || n == 0 && err == nil:
			return errors.New("it ends before its rows do")
		case err != nil:
			return err
		}
	}
	return nil
}

// row makes a Row of one row's values, which it copies.
func (r *groupReader) row(values parquet.Row) (*Row, error) {
	row := r.source.Row(r.at)
	all := append(compact(values), r.table.folders...)
	made := r.table.made
	if made != nil {
		all = append(all, parquet.NullValue().Level(0, 0, made.column))
	}
	if err := r.place(all); err != nil {
		return nil, err
	}
	given := r.decode(row)
	if row.made {
		all[len(all)-1] = parquet.ByteArrayValue([]byte(row.Prompt)).Level(0, made.maxDef, made.column)
	}
	row.Source = &Values{all, r.layout}
	row.finish(given, r.table.mapping)
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

// compact copies the values of a row into memory of their own, so that the row does not hold on to whole pages.
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
func (r *groupReader) decode(row *Builder) (given []string) {
	for _, name := range promptNames {
		if c := r.table.known[name]; c != nil && r.present(c) {
			given = append(given, name)
		}
	}
	if r.table.made != nil {
		given = []string{"prompt"}
		r.render(row)
	}
	beside := r.table.mapping.forms(given)
	for _, name := range knownNames {
		if c := r.table.known[name]; c != nil && concerns(name, beside) {
			r.decodeKnown(row, name, c)
		}
	}
	row.apply(r.foreign(row), beside)
	return given
}

// render sets the prompt of the row to what the template makes.
func (r *groupReader) render(row *Builder) {
	a := &assembler{values: r.values, python: true}
	a.index()
	columns := map[string]json.RawMessage{}
	for _, c := range r.table.used {
		r.checkText(row, c)
		columns[r.table.mapping.original(c.name)] = a.column(nil, c)
	}
	r.table.mapping.render(row, columns)
}

// decodeKnown sets one known field of the row.
func (r *groupReader) decodeKnown(row *Builder, name string, c *node) {
	first := r.columns[c.column][0]
	switch name {
	case "prompt":
		if !first.IsNull() {
			row.Prompt = row.text(name, first.ByteArray())
		}
	case "messages":
		r.messages(row, c)
	case "prompt_token_ids":
		r.tokens(row, c)
	case idName:
		row.ID = idOf(row, name, first, c)
	case parentName:
		row.Parent.ID = idOf(row, name, first, c)
	case "parent_generation", "parent_length":
		if !first.IsNull() {
			row.parentNumber(name, numberOf(first, c.typ))
		}
	default:
		r.parameter(row, parameter.Sink(name), c)
	}
}

// idOf reads the name of a row. In a column of floats, as which data frames hold integers with nulls, NaN is null.
func idOf(row *Builder, name string, v parquet.Value, c *node) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.ByteArray:
		if name == idName && !utf8.Valid(v.ByteArray()) {
			row.LostID = true
			row.text(name, v.ByteArray())
			return ""
		}
		return row.text(name, v.ByteArray())
	}
	n := numberOf(v, c.typ)
	if n.f != n.f {
		return ""
	}
	w, ok := n.whole()
	if !ok {
		row.fail("%s is %v, which is not a whole number that a column of floats holds exactly; give text or an integer",
			name, n)
	}
	return w.String()
}

// foreign returns the values that the table of parameters judges, as JSON: so they mean the same in both formats.
func (r *groupReader) foreign(row *Builder) (values []foreign) {
	var a *assembler
	for _, c := range r.table.foreign {
		if !r.present(c) {
			continue
		}
		if a == nil {
			a = &assembler{values: r.values}
			a.index()
		}
		raw := a.column(nil, c)
		if c.leaf && isDecimal(c.typ) {
			raw = bytes.Trim(raw, `"`)
		}
		if isNullJSON(raw) {
			row.fail("%s is no finite number; give one, or null", c.name)
			continue
		}
		for _, p := range foreignNames(c.name) {
			values = append(values, foreign{p, raw, wholeBelow(c)})
		}
	}
	return values
}

// present says whether a column is not null in the current row. A bare repeated field cannot be null: empty, it is not
// given.
func (r *groupReader) present(c *node) bool {
	return r.columns[c.column][0].DefinitionLevel() >= c.maxDef
}

func numberOf(v parquet.Value, t parquet.Type) numeric {
	switch v.Kind() {
	case parquet.Float:
		// Through its shortest decimal, so that 0.7 stored in 32 bits is 0.7 and not 0.699999988.
		f, err := strconv.ParseFloat(strconv.FormatFloat(float64(v.Float()), 'g', -1, 32), 64)
		if err != nil || math.Abs(f) > math.MaxFloat32 { // as that of the largest float32 is
			f = float64(v.Float())
		}
		return numeric{isFloat: true, f: f, all: 1 << 24}
	case parquet.Double:
		return numeric{isFloat: true, f: v.Double()}
	}
	signed, _ := integer(t)
	n := numeric{}
	switch {
	case v.Kind() == parquet.Int32 && signed:
		n.i = int64(v.Int32())
	case v.Kind() == parquet.Int32:
		n.i = int64(v.Uint32())
	default:
		n.i = v.Int64()
		n.big = !signed && n.i < 0
	}
	n.u = uint64(n.i)
	return n
}

// elements calls do with the leaf values of a list column's elements; null says that an element or its leaf is null.
func (r *groupReader) elements(list, leaf *node, do func(v parquet.Value, null bool)) {
	rep := list
	if list.rep != repeated {
		rep = list.fields[0]
	}
	for _, v := range r.columns[leaf.column] {
		if v.DefinitionLevel() >= rep.maxDef {
			do(v, v.IsNull())
		}
	}
}

func (r *groupReader) tokens(row *Builder, c *node) {
	leaf := c.element()
	i := 0
	r.elements(c, leaf, func(v parquet.Value, null bool) {
		if null {
			row.fail("prompt_token_ids[%d] is null; give a token id", i)
		} else if n := numberOf(v, leaf.typ); n.big {
			row.token(math.MaxInt64)
		} else {
			row.token(n.i)
		}
		i++
	})
}

// parameter sets one of Quire's own parameters to the value of its column.
func (r *groupReader) parameter(row *Builder, p *parameter.Parameter, c *node) {
	o := &row.Overrides
	switch p.Type() {
	case parameter.TextList:
		r.texts(row, p, c)
		return
	case parameter.Object, parameter.List:
		r.checkText(row, c)
		if raw := r.json(c); raw != nil && !giveJSON(o, p, raw) {
			row.fail("%s is %s; it must be %s", p.Name, kindJSON(raw), p.Type())
		}
		return
	}
	switch v := r.columns[c.column][0]; {
	case v.IsNull():
	case p.Type() == parameter.Boolean:
		*o.Give(p).(*bool) = v.Boolean()
	case p.Type() == parameter.Word:
		*o.Give(p).(*string) = row.text(p.Name, v.ByteArray())
	default:
		row.override(o, p, p.Name, numberOf(v, c.typ))
	}
}

// json returns a column of the row as JSON, nil where it is null. Members of structs that are null are not given: every
// struct of a column has all members.
func (r *groupReader) json(c *node) []byte {
	if !r.present(c) {
		return nil
	}
	a := &assembler{values: r.values, given: true, python: true}
	a.index()
	return a.column(nil, c)
}

// texts sets a parameter that is a list of text, from a column of text or of lists.
func (r *groupReader) texts(row *Builder, p *parameter.Parameter, c *node) {
	if c.leaf && c.rep != repeated {
		if v := r.columns[c.column][0]; !v.IsNull() {
			*row.Overrides.Give(p).(*[]string) = []string{row.text(p.Name, v.ByteArray())}
		}
		return
	}
	if !r.present(c) {
		return
	}
	list := []string{}
	r.elements(c, c.element(), func(v parquet.Value, null bool) {
		if null {
			row.fail("%s[%d] is null; give text", p.Name, len(list))
			return
		}
		list = append(list, row.text(fmt.Sprintf("%s[%d]", p.Name, len(list)), v.ByteArray()))
	})
	*row.Overrides.Give(p).(*[]string) = list
}
