// Package parquet reads prompts from Parquet files, and writes and reads parts of completions. It checks the sizes
// that files claim before the library allocates memory for them.
package parquet

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/promptset/table"
)

// Look reads the footer of a file.
func Look(_ context.Context, s *input.Source, f input.File) (*input.Contents, error) {
	pf, err := parse(s.Name, f, f.Size(), s.Mapping, s.Partitions...)
	if err != nil {
		return nil, err
	}
	digest, err := footerDigest(f)
	if err != nil {
		return nil, s.Error("cannot read it", err)
	}
	return &input.Contents{Rows: pf.footer.NumRows(), Digest: digest, Columns: pf.Root.Fields, Texts: pf.texts(),
		Lacks: pf.Lacks, Reader: rows{}}, nil
}

// rows reads the rows of files, given only their footers.
type rows struct{}

func (rows) Range(ctx context.Context, in *input.Opened, from, to int64, yield func(*record.Row) bool) (bool, error) {
	pf, err := parse(in.Name, in.File, in.File.Size(), in.Mapping, in.Partitions...)
	if err != nil {
		return false, err
	}
	if pf.footer.NumRows() != in.Rows {
		return false, in.ChangedRows(pf.footer.NumRows())
	}
	return pf.Rows(ctx, in, pf.groups(), from, to, yield)
}

// file is an open Parquet file of prompts.
type file struct {
	table.Table
	input  io.ReaderAt
	size   int64 // size in bytes
	footer *parquet.File
}

// parse reads a file's footer and finds its known columns.
func parse(name string, r io.ReaderAt, size int64, m *record.Mapping, folders ...input.Partition) (*file,
	error) {
	footer, root, err := OpenFooter(r, size)
	if err != nil {
		return nil, &record.FileError{File: name, What: "not a readable Parquet file", Err: err}
	}
	t, err := table.New(name, root, m, folders)
	if err != nil {
		return nil, err
	}
	return &file{Table: *t, input: r, size: size, footer: footer}, nil
}

// groups returns the row groups of the file.
func (pf *file) groups() (all []table.Group) {
	for i, g := range pf.footer.RowGroups() {
		all = append(all, table.Group{What: fmt.Sprintf("row group %d", i), Rows: g.NumRows(),
			Open: func(from int64) (table.RowReader, error) {
				if err := checkPages(pf.input, pf.size, &pf.footer.Metadata().RowGroups[i]); err != nil {
					return nil, err
				}
				return openRows(g, from)
			}})
	}
	return all
}

func openRows(group parquet.RowGroup, skip int64) (rows parquet.Rows, err error) {
	defer table.Guard(&err)
	rows = group.Rows()
	if skip > 0 {
		if err := rows.SeekToRow(skip); err != nil {
			rows.Close()
			return nil, err
		}
	}
	return rows, nil
}

// texts returns the row groups that may contain text.
func (pf *file) texts() (all []input.Span) {
	if pf.Made != nil {
		return []input.Span{{From: 0, To: math.MaxInt64}}
	}
	var start int64
	for i, group := range pf.footer.RowGroups() {
		end := start + group.NumRows()
		columns := pf.footer.Metadata().RowGroups[i].Columns
		for _, name := range schema.TextNames {
			c := pf.Known[name]
			if c == nil || c.Column+c.Leaves <= len(columns) && allNull(columns[c.Column:c.Column+c.Leaves]) {
				continue
			}
			if n := len(all); n > 0 && all[n-1].To == start {
				all[n-1].To = end
			} else if n == 0 || all[n-1].To < end {
				all = append(all, input.Span{From: start, To: end})
			}
		}
		start = end
	}
	return all
}

// allNull reports whether chunks are all null according to the writer's statistics. Without statistics they may have
// values.
func allNull(chunks []format.ColumnChunk) bool {
	for _, c := range chunks {
		if m := &c.MetaData; m.NumValues == 0 || m.Statistics.NullCount != m.NumValues {
			return false
		}
	}
	return true
}
