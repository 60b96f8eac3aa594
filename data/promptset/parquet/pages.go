package parquet

import (
	"bytes"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/promptset/table"
)

// Bounds of a page, because the Parquet library allocates memory before it checks how much data there is. Pages of
// real files have about a megabyte and some 20,000 values; pages of all-null columns may cover a whole row group.
const (
	maxPageBytes  = 256 << 20 // uncompressed; larger pages are accepted if they are hardly compressed
	maxPageRatio  = 16
	maxPageValues = 16 << 20
	maxPageHeader = 16 << 20
)

// checkPages checks the header of each page of a row group, and returns an error for one that claims more than there
// can be.
func checkPages(in io.ReaderAt, size int64, group *format.RowGroup) (err error) {
	defer table.Guard(&err)
	for i := range group.Columns {
		meta := &group.Columns[i].MetaData
		offset := meta.DataPageOffset
		if d := meta.DictionaryPageOffset; d > 0 && d < offset {
			offset = d
		}
		if offset < 0 || offset > size { // a read there would fail as one of a broken disk does
			return fmt.Errorf("column %d claims to start at byte %d of %d", i, offset, size)
		}
		for values := int64(0); values < meta.NumValues; {
			header, length, err := pageHeader(in, offset, size)
			if err != nil {
				return fmt.Errorf("the page at byte %d has no header: %w", offset, err)
			}
			offset += length
			compressed, uncompressed := int64(header.CompressedPageSize), int64(header.UncompressedPageSize)
			n := int64(max(header.DataPageHeader.V.NumValues, header.DataPageHeaderV2.V.NumValues,
				header.DictionaryPageHeader.V.NumValues))
			switch {
			case compressed < 0 || uncompressed < 0 || compressed > size-offset:
				return fmt.Errorf("the page at byte %d claims %d bytes, and the file has %d more", offset, compressed,
					size-offset)
			case uncompressed > max(maxPageBytes, maxPageRatio*compressed):
				return fmt.Errorf("the page at byte %d claims to become %d bytes of %d", offset, uncompressed,
					compressed)
			case n < 0 || n > maxPageValues:
				return fmt.Errorf("the page at byte %d claims %d values, at most %d are read", offset, n, maxPageValues)
			}
			offset += compressed
			if header.Type != format.DictionaryPage {
				// A page that claims no values would make the loop endless.
				values += max(n, 1)
			}
		}
	}
	return nil
}

// pageHeader reads a page's header and returns the header's length.
func pageHeader(in io.ReaderAt, offset, size int64) (h *format.PageHeader, length int64, err error) {
	for window := int64(512); ; window *= 8 {
		b := make([]byte, max(0, min(window, size-offset)))
		n, err := in.ReadAt(b, offset)
		if n < len(b) || len(b) == 0 {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, 0, err
		}
		// The library must not be asked for single bytes, hence a new reader for each attempt.
		r := bytes.NewReader(b)
		h = new(format.PageHeader)
		if err = thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r)).Decode(h); err == nil {
			return h, int64(len(b) - r.Len()), nil
		}
		if int64(len(b)) < window || window > maxPageHeader {
			return nil, 0, err
		}
	}
}
