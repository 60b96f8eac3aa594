package promptset

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/input"
	parquetfile "github.com/quire/quire/data/promptset/parquet"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/vfs"
)

// write makes a file in a folder of its own and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, paths ...string) *Reader {
	t.Helper()
	r, err := Open(context.Background(), paths)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// rows reads everything and checks what holds for any input.
func rows(t testing.TB, r *Reader) []*Row {
	t.Helper()
	var out []*Row
	for row := range r.Rows(context.Background()) {
		if row.Index != int64(len(out)) || row.ID == "" && !row.LostID ||
			row.LostID && row.Err == nil || (row.Err == nil) != (row.Kind != KindNone) {
			t.Fatalf("row %d has index %d, id %q, kind %v, error %v", len(out), row.Index, row.ID, row.Kind, row.Err)
		}
		out = append(out, row)
	}
	if r.Err() != nil || int64(len(out)) != r.NumRows() {
		t.Fatalf("read %d of %d rows: %v", len(out), r.NumRows(), r.Err())
	}
	return out
}

// typedValues returns the values of a row of a file whose columns have types; nil for other rows.
func typedValues(row *Row) []parquet.Value {
	if v, ok := row.Source.(*record.Values); ok {
		return v.Values
	}
	return nil
}

// shareLayout makes the layouts of rows' values that are equal the same in memory.
func shareLayout(row, other *Row) {
	a, typed := row.Source.(*record.Values)
	if b, same := other.Source.(*record.Values); typed && same {
		a.Layout = b.Layout
	}
}

// complete is a job without a model: each good row gets n completions.
func complete(t testing.TB, r *Reader, o WriterOptions, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	completeIn(t, vfs.OS, dir, r, o, n)
	return dir
}

// completeIn is complete into the folder dir of fs.
func completeIn(t testing.TB, fs vfs.FS, dir string, r *Reader, o WriterOptions, n int) {
	t.Helper()
	w := createIn(t, fs, dir, r, o)
	for row := range r.Rows(context.Background()) {
		if err := w.Add(row, results(row, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// create starts an output folder for all rows of r.
func create(t rapid.TB, dir string, r *Reader, o WriterOptions) *Writer {
	t.Helper()
	return createIn(t, vfs.OS, dir, r, o)
}

func createIn(t rapid.TB, fs vfs.FS, dir string, r *Reader, o WriterOptions) *Writer {
	t.Helper()
	folder, err := folder.NewLocal(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Schema = r.Schema()
	o.Parts.Rows = r.NumRows()
	if o.Parts.PartRows == 0 {
		o.Parts.PartRows = 1_000_000
	}
	if o.Write == nil {
		o.Write = o.Parts.All()
	}
	w, err := NewWriter(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func results(row *Row, n int) []Result {
	if row.Err != nil {
		return nil
	}
	out := make([]Result, n)
	for i := range out {
		out[i] = Result{Generation: i, Text: "answer to " + row.ID, TokenIDs: []int32{int32(row.Index), 7},
			Logprobs:     []float32{-0.5, -0.25},
			FinishReason: "stop", PromptTokens: 3, CompletionTokens: 2}
	}
	return out
}

// parsed opens an output part as the input of nothing, for its rows and columns.
func parsed(t testing.TB, path string) (*parquet.File, *schema.Node, []parquet.Row) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parsedBytes(t, b)
}

func parsedBytes(t testing.TB, b []byte) (*parquet.File, *schema.Node, []parquet.Row) {
	t.Helper()
	file, root, err := parquetfile.OpenFooter(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out []parquet.Row
	for _, g := range file.RowGroups() {
		rows := g.Rows()
		buffer := make([]parquet.Row, 10)
		for {
			n, err := rows.ReadRows(buffer)
			for _, row := range buffer[:n] {
				out = append(out, row.Clone())
			}
			if err != nil || n == 0 {
				break
			}
		}
		rows.Close()
	}
	return file, root, out
}

// column gives a column of Parquet rows as JSON, one text a row.
func column(root *schema.Node, rows []parquet.Row, name string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		a := schema.Assembler{Values: row}
		a.Index()
		for _, f := range root.Fields {
			value := string(a.Append(nil, f))
			if f.Name == name {
				out[i] = value
			}
		}
	}
	return out
}

func names(root *schema.Node) string {
	var out []string
	for _, f := range root.Fields {
		out = append(out, f.Name)
	}
	return strings.Join(out, " ")
}

func text(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// bytesOf reads a file of fs.
func bytesOf(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	file, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := file.ReadAt(b, 0); err != nil && !(size == 0 && err == io.EOF) {
		t.Fatal(err)
	}
	return b
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// memoryFile is an input in memory.
type memoryFile struct{ *bytes.Reader }

func (f memoryFile) Size() int64 { return f.Reader.Size() }

func (memoryFile) Version() string { return "" }

func (memoryFile) Close() error { return nil }

// readAll reads all that a file has, and returns whether the file, and how many rows, have an error.
func readAll(t *testing.T, look func(context.Context, *Source, File) (*input.Contents, error),
	b []byte) (unreadable bool,
	bad int) {
	file := memoryFile{bytes.NewReader(b)}
	s := Source{Name: "x", Bytes: file.Size(), Mapping: &Mapping{}}
	found, err := look(context.Background(), &s, file)
	if err != nil {
		return true, 0
	}
	s.Contents = *found
	schema := schema.New()
	if schema.Add("x", s.Columns) != nil {
		return true, 0
	}
	n := 0
	in := &input.Opened{Source: &s, File: &input.Watched{File: file}, Schema: schema}
	if _, err := s.Reader.Range(context.Background(), in, 0, s.Rows, func(row *Row) bool {
		if row.Err != nil {
			bad++
		}
		n++
		return n < 1000
	}); err != nil {
		t.Fatal("a file that was looked at cannot be read:", err)
	}
	return false, bad
}

// publish writes a file to a folder.
func publish(t *testing.T, to folder.Output, name, text string) error {
	t.Helper()
	p, err := to.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p.Publish()
}

// outputColumns returns the names of the columns that every output has after its input's.
func outputColumns() (names []string) {
	for c := range completion.Columns() {
		if !c.OnRequest {
			names = append(names, c.Name)
		}
	}
	return names
}
