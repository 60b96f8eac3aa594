package promptset

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/lines"
)

// counted counts the bytes that are read.
type counted struct {
	Files
	bytes int64
	fail  error // of reads, once set
}

type countedFile struct {
	File
	c *counted
}

func (c *counted) Open(ctx context.Context, name string) (File, error) {
	f, err := c.Files.Open(ctx, name)
	return countedFile{f, c}, err
}

func (f countedFile) ReadAt(b []byte, at int64) (int, error) {
	if f.c.fail != nil {
		return 0, f.c.fail
	}
	n, err := f.File.ReadAt(b, at)
	f.c.bytes += int64(n)
	return n, err
}

// manyRows makes inputs of all kinds: row groups, marks, a byte order mark, blank lines, rows that are wrong,
// compression.
func manyRows(t testing.TB) (paths []string) {
	dir := t.TempDir()
	type row struct {
		Prompt string   `parquet:"prompt"`
		Tags   []string `parquet:"tags,list"`
	}
	f, err := os.Create(filepath.Join(dir, "a.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[row](f, parquet.MaxRowsPerRowGroup(1000), parquet.PageBufferSize(2000))
	for i := range 5500 {
		if _, err := w.Write([]row{{fmt.Sprint("parquet ", i), []string{"x", fmt.Sprint(i)}[:i%3]}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\xef\xbb\xbf")
	for i := range 3*lines.MarkEvery + 100 {
		switch {
		case i%50 == 7:
			b.WriteString("\n  \n")
		case i%333 == 5:
			b.WriteString("{broken\n")
		}
		fmt.Fprintf(&b, "{\"prompt\":\"jsonl %d\"}\r\n", i)
	}
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	z.Write([]byte(manyLines(700)))
	z.Close()
	for name, text := range map[string]string{"b.jsonl": b.String(), "c.jsonl.gz": gz.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return []string{dir}
}

// A range gives the very rows that reading everything gives.
func TestRange(t *testing.T) {
	r := open(t, manyRows(t)...)
	all := rows(t, r)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(-1, r.NumRows()).Draw(t, "from")
		to := min(from+rapid.Int64Range(0, 3000).Draw(t, "rows"), r.NumRows()+1)
		at := max(from, 0)
		for row := range r.Range(context.Background(), from, to) {
			want := all[at]
			shareLayout(row, want)
			if !reflect.DeepEqual(row, want) {
				t.Fatalf("row %d of [%d, %d) is\n%+v; want\n%+v", at, from, to, row, want)
			}
			at++
		}
		if r.Err() != nil || at != max(0, from, min(to, r.NumRows())) {
			t.Fatalf("[%d, %d) ended at %d: %v", from, to, at, r.Err())
		}
	})
}

// What is before a range is not read, but for the rest of a row group or of the rows between two marks.
func TestRangeReadsLittle(t *testing.T) {
	files := &counted{Files: LocalFiles}
	r, err := OpenFrom(context.Background(), files, manyRows(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Sources()[:2] {
		files.bytes = 0
		for range r.Range(context.Background(), s.Base+s.Rows-50, s.Base+s.Rows) {
		}
		if r.Err() != nil || files.bytes > s.Bytes/2 {
			t.Errorf("source %d: read %d bytes of %d for the last 50 rows of %d: %v", i, files.bytes, s.Bytes, s.Rows,
				r.Err())
		}
	}
}

// A file that cannot be read ends the reading; it is not taken for one that holds nonsense.
func TestUnreadable(t *testing.T) {
	files := &counted{Files: LocalFiles}
	r, err := OpenFrom(context.Background(), files, manyRows(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 1500, 5500, 5500 + 2*lines.MarkEvery, r.NumRows() - 10} {
		files.fail = nil
		n := at
		for row := range r.Range(context.Background(), at, r.NumRows()) {
			if row.Err != nil && !strings.Contains(row.Err.Error(), "JSON") {
				t.Errorf("row %d: %v", row.Index, row.Err)
			}
			if n++; n == at+3 {
				files.fail = errors.New("the network is away")
			}
		}
		small := at == r.NumRows()-10 // was in the buffer already
		if fe := (*FileError)(nil); !small && (!errors.As(r.Err(), &fe) || !errors.Is(r.Err(), files.fail)) {
			t.Errorf("from row %d: read up to %d, %v", at, n, r.Err())
		}
	}
}

// The digest distinguishes files.
func TestSources(t *testing.T) {
	digest := func(name, content string) string {
		s := open(t, write(t, name, content)).Sources()[0]
		if s.Bytes != int64(len(content)) || len(s.Digest) != 64 {
			t.Errorf("%+v", s)
		}
		return s.Digest
	}
	a, b := `{"prompt":"a"}`, `{"prompt":"b"}`
	want(t, "same", digest("x.jsonl", a) == digest("y.jsonl", a), true)
	want(t, "other", digest("x.jsonl", a) == digest("x.jsonl", b), false)
	p1, p2 := text(t, "testdata/tokens32.parquet"), text(t, "testdata/tokens64.parquet")
	want(t, "same Parquet", digest("x.parquet", p1) == digest("y.parquet", p1), true)
	want(t, "other Parquet", digest("x.parquet", p1) == digest("x.parquet", p2), false)
}
