package promptset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// parquetFile is an open Parquet file of prompts.
type parquetFile struct {
	name    string
	input   io.ReaderAt
	size    int64 // bytes
	file    *parquet.File
	root    *node // its columns, numbered as in the file
	known   map[string]*node
	foreign []*node // columns whose values the table of parameters judges
}

// guard turns a panic of the Parquet library, which a corrupt file can cause, into an error.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Parquet library gave up: %v", p)
	}
}

// parseParquet reads a file's footer and finds its known columns.
func parseParquet(name string, r io.ReaderAt, size int64) (*parquetFile, error) {
	file, root, err := openFooter(r, size)
	if err != nil {
		return nil, &FileError{File: name, What: "not a readable Parquet file", Err: err}
	}
	pf := &parquetFile{name: name, input: r, size: size, file: file, root: root, known: map[string]*node{}}
	var names []string
	for _, c := range root.fields {
		names = append(names, c.name)
	}
	for _, c := range root.fields {
		if len(foreignNames(c.name)) > 0 && !c.isNull() {
			pf.foreign = append(pf.foreign, c)
			if parameter.TypeOf(c.name) == parameter.TextList {
				c.readAsText()
			}
		}
		if !slices.Contains(knownNames, c.name) || c.isNull() || !concerns(c.name, names) {
			continue
		}
		if !fits(c.name, c) {
			return nil, &FileError{File: name, What: fmt.Sprintf("column %q is %s; it must be %s", c.name, c.describe(),
				wanted(c.name))}
		}
		pf.known[c.name] = c
		c.readAsText()
	}
	if !slices.ContainsFunc(promptNames, func(name string) bool { return pf.known[name] != nil }) &&
		pf.known[parentName] == nil {
		return nil, &FileError{File: name, What: fmt.Sprintf(noPromptColumn, strings.Join(promptNames, ", "),
			list(names))}
	}
	return pf, nil
}

const noPromptColumn = "no prompt column: it needs one of %s and has %s"

func list(names []string) string {
	if len(names) == 0 {
		return "no columns"
	}
	return strings.Join(names, ", ")
}

func openFooter(r io.ReaderAt, size int64) (file *parquet.File, root *node, err error) {
	defer guard(&err)
	// The library makes room for a footer of the size the file claims before it looks whether there is one.
	var tail [8]byte
	if size < 12 {
		return nil, nil, fmt.Errorf("%d bytes are too few for one", size)
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, nil, err
	}
	if n := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24; string(tail[4:]) == "PAR1" &&
		n > size-12 {
		return nil, nil, fmt.Errorf("its footer claims %d bytes and the file has %d; it is cut off or corrupt", n, size)
	}
	file, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(32<<10))
	if err != nil {
		return nil, nil, err
	}
	var total int64
	for i, g := range file.RowGroups() {
		n := g.NumRows()
		for _, chunk := range g.ColumnChunks() {
			if n < 0 || chunk.NumValues() < n {
				return nil, nil,
					fmt.Errorf("row group %d claims %d rows but a column of it has %d values; it is corrupt", i, n,
						chunk.NumValues())
			}
		}
		if total += n; total < 0 || total > math.MaxInt64/2 {
			return nil, nil, errors.New("its row groups claim more rows than there can be; it is corrupt")
		}
	}
	if total != file.NumRows() {
		return nil, nil, fmt.Errorf("its row groups have %d rows and its footer says %d; it is corrupt", total,
			file.NumRows())
	}
	root = groupNode("row", required)
	elements := file.Metadata().Schema[1:]
	for _, c := range file.Root().Columns() {
		var f *node
		f, elements = nodeOf(c, elements)
		root.fields = append(root.fields, f)
	}
	number(root)
	return file, root, nil
}

// rows gives rows of the file, numbered there, to yield; base is the job's index of its first. It returns false when
// yield did. An error is ctx's.
func (pf *parquetFile) rows(ctx context.Context, base, from, to int64, l *layout, yield func(*Row) bool) (bool, error) {
	var start int64
	for i, group := range pf.file.RowGroups() {
		first := start
		start += group.NumRows()
		if start <= from || first >= to {
			continue
		}
		r := groupReader{pf: pf, base: base, group: i, first: first, at: max(first, from), end: min(start, to),
			layout: l}
		err := r.read(ctx, group, yield)
		if r.stopped {
			return false, nil
		}
		// What could not be read is still there as rows, each with the reason.
		for at := r.at; at < r.end; at++ {
			if w, ok := pf.input.(*watched); ok && w.err != nil {
				return false, w.err
			}
			row := &Row{Index: base + at, File: pf.name, FileRow: at, layout: l}
			row.fail("row group %d cannot be read from here on: %v; write the file anew", i, err)
			row.finish(nil)
			if ctx.Err() != nil || !yield(row) {
				return false, nil
			}
		}
	}
	return true, nil
}

type groupReader struct {
	pf      *parquetFile
	base    int64
	group   int
	first   int64 // row of the group
	at, end int64 // next row, and the first not wanted
	layout  *layout
	stopped bool
	columns [][]parquet.Value // of the current row, by leaf
}

// read gives the rows of a group to yield up to its end or the first error, which it returns.
func (r *groupReader) read(ctx context.Context, group parquet.RowGroup, yield func(*Row) bool) (err error) {
	if err := checkPages(r.pf.input, r.pf.size, &r.pf.file.Metadata().RowGroups[r.group]); err != nil {
		return err
	}
	var rows parquet.Rows
	if rows, err = openRows(group, r.at-r.first); err != nil {
		return err
	}
	defer rows.Close()
	r.columns = make([][]parquet.Value, r.pf.root.leaves)
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

func openRows(group parquet.RowGroup, skip int64) (rows parquet.Rows, err error) {
	defer guard(&err)
	rows = group.Rows()
	if skip > 0 {
		if err := rows.SeekToRow(skip); err != nil {
			rows.Close()
			return nil, err
		}
	}
	return rows, nil
}

func readRows(rows parquet.Rows, buffer []parquet.Row) (n int, err error) {
	defer guard(&err)
	return rows.ReadRows(buffer)
}

// row makes a Row of one row's values, which it copies.
func (r *groupReader) row(values parquet.Row) (*Row, error) {
	row := &Row{Index: r.base + r.at, File: r.pf.name, FileRow: r.at, layout: r.layout, values: compact(values)}
	if err := r.place(row.values); err != nil {
		return nil, err
	}
	row.finish(r.decode(row))
	return row, nil
}

// place makes a row's values the current ones.
func (r *groupReader) place(values []parquet.Value) error {
	clear(r.columns)
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
func (r *groupReader) decode(row *Row) (given []string) {
	for _, name := range promptNames {
		if c := r.pf.known[name]; c != nil && r.present(c) {
			given = append(given, name)
		}
	}
	for _, name := range knownNames {
		if c := r.pf.known[name]; c != nil && concerns(name, given) {
			r.decodeKnown(row, name, c)
		}
	}
	row.apply(r.foreign(row), given)
	return given
}

// decodeKnown sets one known field of the row.
func (r *groupReader) decodeKnown(row *Row, name string, c *node) {
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
	case "id":
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

// idOf reads the name of a row.
func idOf(row *Row, name string, v parquet.Value, c *node) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.ByteArray:
		return row.text(name, v.ByteArray())
	}
	return numberOf(v, c.typ).String()
}

// foreign returns the values that the table of parameters judges, as JSON: so they mean the same in both formats.
func (r *groupReader) foreign(row *Row) (values []foreign) {
	var a *assembler
	for _, c := range r.pf.foreign {
		if !r.present(c) {
			continue
		}
		if a == nil {
			a = &assembler{values: row.values}
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
		return numeric{kind: parquet.Double, f: f, all: 1 << 24}
	case parquet.Double:
		return numeric{kind: parquet.Double, f: v.Double()}
	}
	signed, _ := integer(t)
	n := numeric{kind: parquet.Int64}
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

func (r *groupReader) tokens(row *Row, c *node) {
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
func (r *groupReader) parameter(row *Row, p *parameter.Parameter, c *node) {
	o := &row.Overrides
	switch p.Type() {
	case parameter.TextList:
		r.texts(row, p, c)
		return
	case parameter.Object, parameter.List:
		r.checkText(row, c)
		if raw := r.json(row, c); raw != nil && !giveJSON(o, p, raw) {
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
func (r *groupReader) json(row *Row, c *node) []byte {
	if !r.present(c) {
		return nil
	}
	a := &assembler{values: row.values, given: true}
	a.index()
	return a.column(nil, c)
}

// texts sets a parameter that is a list of text, from a column of text or of lists.
func (r *groupReader) texts(row *Row, p *parameter.Parameter, c *node) {
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
