package promptset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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
	mapping *Mapping
	used    []*node         // columns that the template uses
	made    *node           // what it makes
	lacks   []string        // columns that it wants
	folders []parquet.Value // of the columns that the file's folders give
}

// guard turns a panic of the Parquet library, which a corrupt file can cause, into an error.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Parquet library gave up: %v", p)
	}
}

// parseParquet reads a file's footer and finds its known columns.
func parseParquet(name string, r io.ReaderAt, size int64, m *Mapping, folders ...partition) (*parquetFile,
	error) {
	file, root, err := openFooter(r, size)
	if err != nil {
		return nil, &FileError{File: name, What: "not a readable Parquet file", Err: err}
	}
	pf := &parquetFile{name: name, input: r, size: size, file: file, root: root, known: map[string]*node{}, mapping: m}
	if err := pf.partition(folders); err != nil {
		return nil, err
	}
	if err := pf.findKnown(); err != nil {
		return nil, &FileError{File: name, What: err.Error()}
	}
	return pf, nil
}

// findKnown finds the columns that have a meaning.
func (pf *parquetFile) findKnown() error {
	m, names := pf.mapping, []string{}
	for _, c := range pf.root.fields {
		names = append(names, c.name)
	}
	beside := m.forms(names)
	if m.mapped() {
		beside = m.forms([]string{"prompt"})
	}
	for _, c := range pf.root.fields {
		if m.Template != nil && slices.Contains(m.Template.Uses(), c.name) {
			pf.used = append(pf.used, c)
			c.readAsText()
		}
		if len(foreignNames(c.name)) > 0 && !c.isNull() {
			pf.foreign = append(pf.foreign, c)
			if parameter.TypeOf(c.name) == parameter.TextList {
				c.readAsText()
			}
		}
		for _, name := range m.namesOf(c.name) {
			if c.isNull() || !concerns(name, beside) {
				continue
			}
			if !fits(name, c) {
				return fmt.Errorf("column %q is %s; it must be %s", c.name, c.describe(), wanted(name))
			}
			pf.known[name] = c
			c.readAsText()
		}
	}
	if m.Template != nil {
		pf.lacks = m.lacks(names)
		pf.make()
		return nil
	}
	if err := m.mayHavePrompts(names); err != nil {
		return err
	}
	if !slices.ContainsFunc(promptNames, func(name string) bool { return pf.known[name] != nil }) &&
		pf.known[parentName] == nil {
		return fmt.Errorf(noPromptColumn, strings.Join(promptNames, ", "), list(names))
	}
	return nil
}

// make adds the column of what the template makes, in place of one of that name.
func (pf *parquetFile) make() {
	if c := pf.root.field(madeColumn); c != nil {
		c.name = ofInput
	}
	pf.made = jsonText.node(madeColumn)
	pf.root.fields = append(pf.root.fields, pf.made)
	number(pf.root)
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
