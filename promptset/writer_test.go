package promptset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func manyLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"prompt\":\"prompt %d\",\"k\":%d}\n", i, i)
	}
	return b.String()
}

// The bytes of the output are the same whatever the order in which rows finish, and from one run to the next.
func TestOutputDoesNotDependOnOrder(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(500)), "testdata/passthrough.parquet")
	in := rows(t, r)
	for _, format := range []string{FormatParquet, FormatJSONL} {
		var first map[string]string
		for run := range 4 {
			dir := t.TempDir()
			w, err := Create(dir, WriterOptions{Format: format, Schema: r.Schema(), MaxPartRows: 600,
				Meta: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}})
			if err != nil {
				t.Fatal(err)
			}
			order := rand.New(rand.NewPCG(1, uint64(run))).Perm(len(in))
			if run == 0 {
				slices.Sort(order)
			}
			for i, j := range order {
				if err := w.Add(in[j], results(in[j], 3)); err != nil {
					t.Fatal(err)
				}
				held, bytes := w.Pending()
				if run == 0 && held != 0 || held > i+1 || held == 0 != (bytes == 0) {
					t.Fatalf("%d rows of %d bytes are held after %d in order", held, bytes, i)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			want(t, "rows", w.Rows(), int64(3*len(in)))
			got := map[string]string{}
			for _, name := range strings.Fields(listing(t, dir)) {
				got[name] = text(t, filepath.Join(dir, name))
			}
			if run == 0 {
				first = got
				want(t, "parts", listing(t, dir), map[string]string{FormatParquet: "part-00000.parquet part-00001.parquet part-00002.parquet",
					FormatJSONL: "_meta.json part-00000.jsonl part-00001.jsonl part-00002.jsonl"}[format])
			}
			for name, b := range first {
				if got[name] != b || len(got) != len(first) {
					t.Errorf("%s run %d: %s differs", format, run, name)
				}
			}
		}
	}
}

func TestPartsByBytesAndFooter(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(300)))
	dir := complete(t, r, WriterOptions{MaxPartBytes: 10_000, Meta: map[string]string{"model": "m", "seed": "7"}}, 2)
	parts := strings.Fields(listing(t, dir))
	if len(parts) < 3 {
		t.Fatal("parts", parts)
	}
	total := 0
	for _, name := range parts {
		file, root, out := parsed(t, filepath.Join(dir, name))
		total += len(out)
		model, _ := file.Lookup("model")
		want(t, "footer", model, "m")
		generation := column(root, out, "generation")
		want(t, "whole rows", generation[0]+generation[len(generation)-1], "01")
	}
	want(t, "rows", total, 600)
}

func TestRowGroups(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(groupRows/100+10)))
	file, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 100), "part-00000.parquet"))
	want(t, "groups", len(file.RowGroups()), 2)
	want(t, "first", file.RowGroups()[0].NumRows(), int64(groupRows))
	want(t, "last row", column(root, out[len(out)-1:], "k")[0], fmt.Sprint(groupRows/100+9))
}

// A column whose values are all different outgrows its dictionary and is still right.
func TestLargeDictionary(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "{\"prompt\":\"%s %d\"}\n", strings.Repeat("x", 10_000), i)
	}
	_, root, out := parsed(t, filepath.Join(complete(t, open(t, write(t, "x.jsonl", b.String())), WriterOptions{}, 2), "part-00000.parquet"))
	for i, p := range column(root, out, "prompt") {
		if !strings.HasSuffix(p, fmt.Sprintf("x %d\"", i/2)) || len(p) < 10_000 {
			t.Fatalf("row %d is %.20s...%s", i, p, p[len(p)-8:])
		}
	}
}

func TestNameClashes(t *testing.T) {
	r := open(t, write(t, "x.jsonl", `{"prompt":"p","text":1,"input_text":2,"generation":5,"error":"e","id":"me"}`))
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	want(t, "columns", names(root), "prompt input_input_text input_text input_generation input_error "+strings.Join(OutputColumns, " "))
	want(t, "text", column(root, out, "input_input_text")[0]+column(root, out, "input_text")[0], "12")
	want(t, "id", column(root, out, "id")[0], `"me"`)
}

func TestNoRowsAndInvalidText(t *testing.T) {
	r := open(t, write(t, "x.jsonl", ""))
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	want(t, "empty", fmt.Sprint(names(root), " ", len(out)), strings.Join(OutputColumns, " ")+" 0")

	r = open(t, write(t, "x.jsonl", `{"prompt":"a"}`))
	for _, format := range []string{FormatParquet, FormatJSONL} {
		dir := t.TempDir()
		w, err := Create(dir, WriterOptions{Format: format, Schema: r.Schema()})
		if err != nil {
			t.Fatal(err)
		}
		row := rows(t, r)[0]
		// A completion that failed half way keeps what it has.
		if err := w.Add(row, []Result{{Text: "a\xffb", TokenIDs: []int32{}, Logprobs: []float32{}, FinishReason: "error", Err: "out of luck"}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if format == FormatJSONL {
			want(t, "jsonl", strings.Contains(text(t, filepath.Join(dir, "part-00000.jsonl")), `"text":"a`+"\uFFFD"+`b","token_ids":[],"logprobs":[]`), true)
			continue
		}
		_, root, out := parsed(t, filepath.Join(dir, "part-00000.parquet"))
		want(t, "parquet", strings.Join(slices.Concat(column(root, out, "text"), column(root, out, "token_ids"), column(root, out, "error")), " "),
			"\"a\uFFFDb\" [] \"out of luck\"")
	}
}

func TestOutputFolder(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(3)))
	in := rows(t, r)
	dir := filepath.Join(t.TempDir(), "new", "out")
	o := WriterOptions{Schema: r.Schema()}
	create := func(o WriterOptions) *Writer {
		t.Helper()
		w, err := Create(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	add := func(w *Writer, i int) {
		t.Helper()
		if err := w.Add(in[i], results(in[i], 1)); err != nil {
			t.Fatal(err)
		}
	}

	w := create(o)
	add(w, 0)
	for _, name := range strings.Fields(listing(t, dir)) {
		want(t, "hidden while it is written: "+name, name[0], '.')
	}
	if _, err := Create(dir, o); err == nil || !strings.Contains(err.Error(), "another process is writing to "+dir) {
		t.Errorf("two writers: %v", err)
	}
	if err := w.Add(in[0], nil); err == nil || !strings.Contains(err.Error(), "row 0 was added twice") {
		t.Errorf("twice: %v", err)
	}
	w.Abort()
	want(t, "after abort", listing(t, dir), "")

	// What a writer that died leaves behind.
	for _, name := range []string{".part-00000.parquet.tmp-123", "._meta.json.tmp-9", "notes.txt", ".writing.lock"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	w = create(o)
	add(w, 2)
	err := w.Close()
	var missing *MissingRowsError
	if !errors.As(err, &missing) || *missing != (MissingRowsError{First: 0, Count: 2}) {
		t.Errorf("missing rows: %v", err)
	}
	want(t, "after close", listing(t, dir), "notes.txt part-00000.parquet")
	_, root, out := parsed(t, filepath.Join(dir, "part-00000.parquet"))
	want(t, "held row", column(root, out, "id")[0], `"2"`)
	if err := w.Add(in[1], nil); err == nil {
		t.Error("added to a closed output")
	}
	w.Abort() // nothing
	want(t, "closed again", w.Close(), nil)

	_, err = Create(dir, o)
	if !errors.Is(err, ErrOutputExists) || !strings.Contains(err.Error(), "choose another folder, remove them, or ask to overwrite") {
		t.Errorf("exists: %v", err)
	}
	w = create(WriterOptions{Schema: r.Schema(), Overwrite: true, Format: FormatJSONL})
	add(w, 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "overwritten", listing(t, dir), "notes.txt part-00000.jsonl")
	if _, err := Create(dir, WriterOptions{Format: "csv"}); err == nil || !strings.Contains(err.Error(), `output format "csv" is unknown; use parquet or jsonl`) {
		t.Errorf("format: %v", err)
	}
}

// A disk that fails leaves no part behind and every later call says why.
func TestFailedWrites(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(2)))
	in := rows(t, r)
	dir := t.TempDir()
	w, err := Create(dir, WriterOptions{Schema: r.Schema(), MaxPartRows: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(in[0], results(in[0], 1)); err != nil {
		t.Fatal(err)
	}
	w.part.file.Close()
	err = w.Add(in[1], results(in[1], 1))
	if err == nil || !strings.Contains(err.Error(), "writing "+filepath.Join(dir, "part-00000.parquet")+": ") {
		t.Errorf("add: %v", err)
	}
	if err2 := w.Close(); !errors.Is(err2, err) {
		t.Errorf("close: %v", err2)
	}
	want(t, "left", listing(t, dir), "")
}

func TestCanceledOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, []string{"testdata"}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
}
