package promptset

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// claiming makes a file of one page with the header that change makes.
func claiming(t testing.TB, codec parquet.WriterOption, change func(*format.PageHeader)) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[struct {
		Prompt string `parquet:"prompt"`
	}](&b, codec)
	rows := make([]struct {
		Prompt string `parquet:"prompt"`
	}, 10)
	for i := range rows {
		rows[i].Prompt = fmt.Sprint("prompt ", i)
	}
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	meta := file.Metadata()
	chunk := &meta.RowGroups[0].Columns[0].MetaData
	in := bytes.NewReader(b.Bytes()[chunk.DataPageOffset:])
	protocol := new(thrift.CompactProtocol)
	var header format.PageHeader
	if err := thrift.NewDecoder(protocol.NewReader(in)).Decode(&header); err != nil {
		t.Fatal(err)
	}
	start := b.Len() - in.Len()
	body := b.Bytes()[start : start+int(header.CompressedPageSize)]
	change(&header)
	encoded, err := thrift.Marshal(protocol, header)
	if err != nil {
		t.Fatal(err)
	}
	chunk.DataPageOffset, chunk.DictionaryPageOffset = 4, 0
	chunk.TotalCompressedSize = int64(len(encoded) + len(body))
	meta.RowGroups[0].FileOffset = 4
	meta.RowGroups[0].Columns[0].OffsetIndexOffset, meta.RowGroups[0].Columns[0].ColumnIndexOffset = 0, 0
	footer, err := thrift.Marshal(protocol, *meta)
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte("PAR1"), encoded...)
	out = append(append(out, body...), footer...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return string(append(out, "PAR1"...))
}

// What a page's header claims is not believed: memory goes with what the file has.
func TestPagesThatClaimTooMuch(t *testing.T) {
	for name, change := range map[string]func(*format.PageHeader){
		"nothing":      func(h *format.PageHeader) {},
		"compressed":   func(h *format.PageHeader) { h.CompressedPageSize = math.MaxInt32 },
		"uncompressed": func(h *format.PageHeader) { h.UncompressedPageSize = math.MaxInt32 },
		"both": func(h *format.PageHeader) {
			h.CompressedPageSize, h.UncompressedPageSize = math.MaxInt32, math.MaxInt32
		},
		"values": func(h *format.PageHeader) {
			h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues = math.MaxInt32, math.MaxInt32
		},
	} {
		for codec, option := range map[string]parquet.WriterOption{
			"none": parquet.Compression(&parquet.Uncompressed), "snappy": parquet.Compression(&parquet.Snappy),
			"zstd": parquet.Compression(&parquet.Zstd), "gzip": parquet.Compression(&parquet.Gzip),
			"brotli": parquet.Compression(&parquet.Brotli), "lz4": parquet.Compression(&parquet.Lz4Raw),
		} {
			path := write(t, "x.parquet", claiming(t, option, change))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := Open(context.Background(), []string{path})
			bad := 0
			if err == nil {
				for row := range r.Rows(context.Background()) {
					if row.Err != nil {
						bad++
					}
				}
				err = r.Err()
			}
			runtime.ReadMemStats(&after)
			used := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%s %s: %d MB, %d bad rows, %v", name, codec, used, bad, err)
			if used > 100 || name == "nothing" && (bad > 0 || err != nil) {
				t.Errorf("%s, %s: %d MB were allocated, %d bad rows, %v", name, codec, used, bad, err)
			}
		}
	}
}
