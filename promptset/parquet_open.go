package promptset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// parquetFile is an open Parquet file of prompts.
type parquetFile struct {
	table
	input io.ReaderAt
	size  int64 // bytes
	file  *parquet.File
}

// guard turns a panic of the Parquet library, which a corrupt file can cause, into an error.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Parquet library gave up: %v", p)
	}
}

// parseParquet reads a file's footer and finds its known columns.
func parseParquet(name string, r io.ReaderAt, size int64, m *Mapping, folders ...Partition) (*parquetFile,
	error) {
	file, root, err := openFooter(r, size)
	if err != nil {
		return nil, &FileError{File: name, What: "not a readable Parquet file", Err: err}
	}
	t, err := newTable(name, root, m, folders)
	if err != nil {
		return nil, err
	}
	return &parquetFile{table: *t, input: r, size: size, file: file}, nil
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
	encrypted := errors.New("it is encrypted: write it without encryption")
	switch string(tail[4:]) {
	case "PAR1":
	case "PARE":
		return nil, nil, encrypted
	default:
		return nil, nil, errors.New("it does not end as a Parquet file does: it is cut off or corrupt")
	}
	if n := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24; n > size-12 {
		return nil, nil, fmt.Errorf("its footer claims %d bytes and the file has %d; it is cut off or corrupt", n, size)
	}
	file, err = parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(32<<10))
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "DecryptionConfig"): // the footer is signed, as of files with encrypted columns
		return nil, nil, encrypted
	default:
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
