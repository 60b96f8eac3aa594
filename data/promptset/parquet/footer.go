package parquet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/promptset/table"
)

// footerDigest returns the digest of a Parquet file.
func footerDigest(f input.File) (string, error) {
	var tail [8]byte
	if n, err := f.ReadAt(tail[:], f.Size()-8); n < len(tail) {
		return "", err
	}
	size := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, f.Size()-8-size, size+8)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func OpenFooter(r io.ReaderAt, size int64) (file *parquet.File, root *schema.Node, err error) {
	defer table.Guard(&err)
	// Check for a footer first: the library allocates as much memory as the file claims for it.
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
	// the footer is signed, as in files with encrypted columns
	case strings.Contains(err.Error(), "DecryptionConfig"):
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
	root = schema.Group("row", schema.Required)
	elements := file.Metadata().Schema[1:]
	for _, c := range file.Root().Columns() {
		var f *schema.Node
		f, elements = schema.NodeOf(c, elements)
		root.Fields = append(root.Fields, f)
	}
	schema.Number(root)
	return file, root, nil
}
