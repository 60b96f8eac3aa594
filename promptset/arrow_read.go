package promptset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/promptset/arrowfile"
)

// arrowFile is an open Arrow file or stream of prompts.
type arrowFile struct {
	table
	index  *arrowfile.Index
	reader *arrowfile.Reader
	fields []*node // of the file itself
}

// LookArrow reads a file once, for its record batches and its digest: its own metadata do not tell one content from
// another.
func LookArrow(ctx context.Context, s *Source, f File) (*Contents, error) {
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
	rows := &arrowBatches{index}
	af, err := rows.open(s, f)
	if err != nil {
		return nil, err
	}
	defer af.reader.Close()
	c := &Contents{Rows: index.NumRows(), Digest: hex.EncodeToString(digest.Sum(nil)), Columns: af.root.fields,
		Lacks: af.lacks, Reader: rows}
	if af.made != nil || af.known["prompt"] != nil || af.known["messages"] != nil {
		c.Texts = []Span{{0, math.MaxInt64}}
	}
	return c, nil
}

// arrowBatches reads the rows of a file by the places of its record batches.
type arrowBatches struct{ index *arrowfile.Index }

// open reads a file's schema and finds its known columns.
func (b *arrowBatches) open(s *Source, f io.ReaderAt) (_ *arrowFile, err error) {
	af := &arrowFile{index: b.index}
	if af.reader, err = b.index.Open(f); err != nil {
		return nil, s.Error("not a readable Arrow file", err)
	}
	root := groupNode("row", required)
	for _, field := range af.reader.Schema().Fields() {
		n, err := arrowNode(field)
		if err != nil {
			af.reader.Close()
			return nil, &FileError{File: s.Name, What: err.Error()}
		}
		root.fields = append(root.fields, n)
	}
	af.fields = root.fields[:len(root.fields):len(root.fields)]
	number(root)
	t, err := newTable(s.Name, root, s.Mapping, s.Partitions)
	if err != nil {
		af.reader.Close()
		return nil, err
	}
	af.table = *t
	return af, nil
}

func (b *arrowBatches) Read(ctx context.Context, in *Opened, from, to int64, yield func(*Row) bool) (bool, error) {
	af, err := b.open(in.Source, in.File)
	if err != nil {
		return false, err
	}
	defer af.reader.Close()
	return af.rows(ctx, in, af.groups(), from, to, yield)
}

// groups are the record batches of the file.
func (af *arrowFile) groups() (all []group) {
	for i := range af.index.NumBatches() {
		all = append(all, group{what: fmt.Sprintf("record batch %d", i), rows: af.index.Rows(i),
			open: func(from int64) (rowReader, error) {
				batch, err := af.reader.Batch(i)
				if err != nil {
					return nil, err
				}
				return &arrowRows{file: af, batch: batch, at: int(from)}, nil
			}})
	}
	return all
}

// arrowRows reads the rows of a record batch.
type arrowRows struct {
	file     *arrowFile
	batch    arrow.RecordBatch
	at       int
	shredder arrowShredder
}

// ReadRows reads rows; see [rowReader].
func (r *arrowRows) ReadRows(rows []parquet.Row) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is corrupt: %v", p)
		}
	}()
	if r.shredder.columns == nil {
		leaves := 0
		for _, f := range r.file.fields {
			leaves += f.leaves
		}
		r.shredder.columns = make([][]parquet.Value, leaves)
	}
	for ; n < len(rows); n++ {
		if r.at == int(r.batch.NumRows()) {
			return n, io.EOF
		}
		if rows[n], err = r.shredder.row(rows[n][:0], r.file.fields, r.batch, r.at); err != nil {
			return n, err
		}
		r.at++
	}
	return n, nil
}

// Close does nothing: the batch is the reader's.
func (r *arrowRows) Close() error { return nil }
