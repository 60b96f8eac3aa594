// Package arrow reads prompts from Arrow files and streams, as if they were the Parquet files that pyarrow writes for
// the same table.
package arrow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/arrowfile"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/promptset/table"
)

// file is an open Arrow file or stream of prompts.
type file struct {
	table.Table
	index  *arrowfile.Index
	reader *arrowfile.Reader
	fields []*schema.Node // fields of the file itself
}

// Look reads a file once, for its record batches and its digest, because the metadata alone do not identify the
// content.
func Look(ctx context.Context, s *input.Source, f input.File) (*input.Contents, error) {
	digest := sha256.New()
	in := io.TeeReader(io.NewSectionReader(f, 0, f.Size()), digest)
	index, err := arrowfile.Scan(ctx, in, f.Size())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, s.Error("not a readable Arrow file", err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, s.Error("cannot read it", err)
	}
	rows := &batches{index}
	af, err := rows.open(s, f)
	if err != nil {
		return nil, err
	}
	defer af.reader.Close()
	c := &input.Contents{Rows: index.NumRows(), Digest: hex.EncodeToString(digest.Sum(nil)), Columns: af.Root.Fields,
		Lacks: af.Lacks, Reader: rows}
	if af.Made != nil || af.Known["prompt"] != nil || af.Known["messages"] != nil {
		c.Texts = []input.Span{{From: 0, To: math.MaxInt64}}
	}
	return c, nil
}

// batches reads the rows of a file, given the positions of its record batches.
type batches struct{ index *arrowfile.Index }

// open reads a file's schema and finds its known columns.
func (b *batches) open(s *input.Source, f io.ReaderAt) (_ *file, err error) {
	af := &file{index: b.index}
	if af.reader, err = b.index.Open(f); err != nil {
		return nil, s.Error("not a readable Arrow file", err)
	}
	root := schema.Group("row", schema.Required)
	for _, field := range af.reader.Schema().Fields() {
		n, err := nodeOf(field)
		if err != nil {
			af.reader.Close()
			return nil, &record.FileError{File: s.Name, What: err.Error()}
		}
		root.Fields = append(root.Fields, n)
	}
	af.fields = root.Fields[:len(root.Fields):len(root.Fields)]
	schema.Number(root)
	t, err := table.New(s.Name, root, s.Mapping, s.Partitions)
	if err != nil {
		af.reader.Close()
		return nil, err
	}
	af.Table = *t
	return af, nil
}

func (b *batches) Range(ctx context.Context, in *input.Opened, from, to int64, yield func(*record.Row) bool) (bool,
	error) {
	af, err := b.open(in.Source, in.File)
	if err != nil {
		return false, err
	}
	defer af.reader.Close()
	return af.Rows(ctx, in, af.groups(), from, to, yield)
}

// groups returns the record batches of the file.
func (af *file) groups() (all []table.Group) {
	for i := range af.index.NumBatches() {
		all = append(all, table.Group{What: fmt.Sprintf("record batch %d", i), Rows: af.index.Rows(i),
			Open: func(from int64) (table.RowReader, error) {
				batch, err := af.reader.Batch(i)
				if err != nil {
					return nil, err
				}
				return &rows{file: af, batch: batch, index: int(from)}, nil
			}})
	}
	return all
}

// rows reads the rows of a record batch.
type rows struct {
	file     *file
	batch    arrow.RecordBatch
	index    int
	shredder shredder
}

// ReadRows reads rows; see [table.RowReader].
func (r *rows) ReadRows(rows []parquet.Row) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is corrupt: %v", p)
		}
	}()
	if r.shredder.columns == nil {
		leaves := 0
		for _, f := range r.file.fields {
			leaves += f.Leaves
		}
		r.shredder.columns = make([][]parquet.Value, leaves)
	}
	for ; n < len(rows); n++ {
		if r.index == int(r.batch.NumRows()) {
			return n, io.EOF
		}
		if rows[n], err = r.shredder.row(rows[n][:0], r.file.fields, r.batch, r.index); err != nil {
			return n, err
		}
		r.index++
	}
	return n, nil
}

// Close does nothing, because the reader owns the batch.
func (r *rows) Close() error { return nil }
