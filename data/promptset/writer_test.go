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

	"github.com/quire/quire/data/promptset/folder"
	parquetfile "github.com/quire/quire/data/promptset/parquet"
	"github.com/quire/quire/data/vfs"
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

// The bytes of the output are the same for any order in which rows finish, and from one run to the next.
func TestOutputDoesNotDependOnOrder(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(500)), "testdata/passthrough.parquet")
	in := rows(t, r)
	for _, format := range []string{FormatParquet, FormatJSONL} {
		var first map[string]string
		for run := range 4 {
			dir := t.TempDir()
			w := create(t, dir, r, WriterOptions{Format: format, Parts: folder.Parts{PartRows: 200},
				Meta: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}})
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
				want(t, "parts", listing(t, dir),
					map[string]string{FormatParquet: "part-00000.parquet part-00001.parquet part-00002.parquet",
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

// A part has the rows of its range, is the same alone as among the others, and is published as soon as it is whole.
func TestParts(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(300)))
	in := rows(t, r)
	o := WriterOptions{Parts: folder.Parts{PartRows: 77}, Meta: map[string]string{"model": "m", "seed": "7"}}
	whole := complete(t, r, o, 2)
	var published []string
	dir := t.TempDir()
	o.Write = []int{1, 3}
	o.Publishing = func(s folder.PartSummary) error {
		published = append(published, fmt.Sprint(s.Part, s.Counts))
		return nil
	}
	o.Published = func(part int, next int64) error { published = append(published, fmt.Sprint(part, next)); return nil }
	w := create(t, dir, r, o)
	for _, part := range o.Write {
		from, to := folder.Parts{Rows: 300, PartRows: 77}.Range(part)
		for _, row := range in[from:to] {
			if err := w.Add(row, results(row, 2)); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "there", strings.Contains(listing(t, dir), folder.PartName(part, FormatParquet)), true)
	}
	want(t, "left", len(w.Unpublished()), 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, "parts", listing(t, whole), "part-00000.parquet part-00001.parquet part-00002.parquet part-00003.parquet")
	want(t, "these parts", listing(t, dir), "part-00001.parquet part-00003.parquet")
	want(t, "calls", strings.Join(published, " "),
		"1 {77 0 154 231 308 154 stop} 1 231 3 {69 0 138 207 276 138 stop} 3 300")
	total := 0
	for part, name := range strings.Fields(listing(t, whole)) {
		file, root, out := parsed(t, filepath.Join(whole, name))
		total += len(out)
		model, _ := file.Lookup("model")
		want(t, "footer", model, "m")
		want(t, "first row", column(root, out, "k")[0], fmt.Sprint(77*part))
		if slices.Contains(o.Write, part) {
			want(t, "alone", text(t, filepath.Join(dir, name)) == text(t, filepath.Join(whole, name)), true)
		}
	}
	want(t, "rows", total, 600)
}

func TestRowGroups(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(parquetfile.GroupRows/100+10)))
	file, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 100), "part-00000.parquet"))
	want(t, "groups", len(file.RowGroups()), 2)
	want(t, "first", file.RowGroups()[0].NumRows(), int64(parquetfile.GroupRows))
	want(t, "last row", column(root, out[len(out)-1:], "k")[0], fmt.Sprint(parquetfile.GroupRows/100+9))
}

// A column whose values are all different outgrows its dictionary and is still right.
func TestLargeDictionary(t *testing.T) {
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "{\"prompt\":\"%s %d\"}\n", strings.Repeat("x", 10_000), i)
	}
	_, root, out := parsed(t, filepath.Join(complete(t, open(t, write(t, "x.jsonl", b.String())), WriterOptions{}, 2),
		"part-00000.parquet"))
	for i, p := range column(root, out, "prompt") {
		if !strings.HasSuffix(p, fmt.Sprintf("x %d\"", i/2)) || len(p) < 10_000 {
			t.Fatalf("row %d is %.20s...%s", i, p, p[len(p)-8:])
		}
	}
}

func TestNameClashes(t *testing.T) {
	r := open(t, write(t, "x.jsonl", `{"prompt":"p","text":1,"input_text":2,"generation":5,"error":"e","id":"me"}`))
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	want(t, "columns", names(root), "prompt input_input_text input_text input_generation input_error "+
		strings.Join(outputColumns(), " "))
	want(t, "text", column(root, out, "input_input_text")[0]+column(root, out, "input_text")[0], "12")
	want(t, "id", column(root, out, "id")[0], `"me"`)
}

func TestNoRowsAndInvalidText(t *testing.T) {
	r := open(t, write(t, "x.jsonl", ""))
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	want(t, "empty", fmt.Sprint(names(root), " ", len(out)), strings.Join(outputColumns(), " ")+" 0")

	r = open(t, write(t, "x.jsonl", `{"prompt":"a"}`))
	for _, format := range []string{FormatParquet, FormatJSONL} {
		dir := t.TempDir()
		w := create(t, dir, r, WriterOptions{Format: format})
		row := rows(t, r)[0]
		// A completion that failed half way keeps what it has.
		if err := w.Add(row, []Result{{Text: "a\xffb", TokenIDs: []int32{}, Logprobs: []float32{},
			FinishReason: "error", Err: "out of luck"}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if format == FormatJSONL {
			want(t, "jsonl", strings.Contains(text(t, filepath.Join(dir, "part-00000.jsonl")),
				`"text":"a`+"\uFFFD"+`b","token_ids":[],"logprobs":[]`), true)
			continue
		}
		_, root, out := parsed(t, filepath.Join(dir, "part-00000.parquet"))
		want(t, "parquet", strings.Join(slices.Concat(column(root, out, "text"), column(root, out, "token_ids"),
			column(root, out, "error")), " "),
			"\"a\uFFFDb\" [] \"out of luck\"")
	}
}

func TestOutputFolder(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(3)))
	in := rows(t, r)
	dir := filepath.Join(t.TempDir(), "new", "out")
	w := create(t, dir, r, WriterOptions{})
	if err := w.Add(in[0], results(in[0], 1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(listing(t, dir)) {
		want(t, "hidden while it is written: "+name, name[0], '.')
	}
	for _, row := range []*Row{in[0], {Index: 3}} {
		if err := w.Add(row, nil); err == nil ||
			!strings.Contains(err.Error(), "was added twice, or is not in a part") {
			t.Errorf("row %d: %v", row.Index, err)
		}
	}
	want(t, "close", w.Close(), nil)
	want(t, "a part that is not whole", listing(t, dir), "")
	if err := w.Add(in[1], nil); err == nil {
		t.Error("added to a closed output")
	}

	// What a dead writer leaves.
	for _, name := range []string{".part-00000.parquet.tmp-123", ".part-00007.jsonl.tmp", "._meta.json.tmp-9",
		"notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	w = create(t, dir, r, WriterOptions{Format: FormatJSONL, Meta: map[string]string{"a": "b"}})
	for _, i := range []int{2, 0, 1} {
		if err := w.Add(in[i], results(in[i], 1)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "close", w.Close(), nil)
	want(t, "after close", listing(t, dir), "_meta.json notes.txt part-00000.jsonl")
	folder, err := folder.NewLocal(vfs.OS, dir)
	if err == nil {
		err = folder.Clear()
	}
	want(t, "clear", err, nil)
	want(t, "cleared", listing(t, dir), "notes.txt")
	if _, err := NewWriter(folder, WriterOptions{Format: "csv"}); err == nil ||
		!strings.Contains(err.Error(), `output format "csv" is unknown; use parquet or jsonl`) {
		t.Errorf("format: %v", err)
	}
}

// Whichever operation fails, there is no incomplete part, every later call reports the failure, and another writer
// succeeds.
func TestFailedWrites(t *testing.T) {
	r := open(t, write(t, "x.jsonl", manyLines(6)))
	in := rows(t, r)
	full := errors.New("disk full")
	for _, format := range []string{FormatParquet, FormatJSONL} {
		o := WriterOptions{Format: format, Parts: folder.Parts{Rows: 6, PartRows: 2}.In([]string{"", "a=1"}, []int64{3,
			3}),
			Schema: r.Schema(), Meta: map[string]string{"a": "b"}}
		write := func(fs vfs.FS, o WriterOptions) error {
			folder, err := folder.NewLocal(fs, "out")
			if err != nil {
				return err
			}
			names, err := folder.Names()
			if err != nil {
				return err
			}
			for _, part := range o.Parts.All() {
				if !slices.Contains(names, o.Parts.Name(part, format)) {
					o.Write = append(o.Write, part)
				}
			}
			w, err := NewWriter(folder, o)
			if err != nil {
				return err
			}
			defer w.Close()
			for _, part := range o.Write {
				from, to := o.Parts.Range(part)
				for _, row := range in[from:to] {
					if err := w.Add(row, results(row, 2)); err != nil {
						if again := w.Add(in[5], results(in[5], 1)); again != err {
							t.Errorf("after %v: %v", err, again)
						}
						return err
					}
				}
			}
			return w.Close()
		}
		content := func(m *vfs.Mem) map[string]string {
			names, err := folder.OpenLocal(m, "out").Names()
			if err != nil {
				return nil
			}
			out := map[string]string{}
			for _, name := range names {
				if base := filepath.Base(name); base[0] == '.' || base == "a=1" {
					continue
				}
				f, err := m.Open(filepath.Join("out", name))
				if err != nil {
					t.Fatal(err)
				}
				size, _ := f.Size()
				b := make([]byte, size)
				f.ReadAt(b, 0)
				out[name] = string(b)
			}
			return out
		}
		undisturbed := vfs.NewMem()
		operations := 0
		if err := write(vfs.Inject(undisturbed, func(vfs.Op) error { operations++; return nil }), o); err != nil {
			t.Fatal(err)
		}
		whole := content(undisturbed)
		for fail := range operations {
			for _, after := range []string{"error", "kill", "power"} {
				m := vfs.NewMem()
				count := 0
				err := write(vfs.Inject(m, func(op vfs.Op) error {
					if count++; count == fail+1 || count > fail && after != "error" {
						return &vfs.ShortWrite{N: op.Len / 2, Err: full}
					}
					return nil
				}), o)
				if !errors.Is(err, full) {
					t.Fatalf("operation %d fails, and: %v", fail, err)
				}
				switch after {
				case "kill":
					m = m.Killed()
				case "power":
					m = m.PowerLost(rand.New(rand.NewPCG(uint64(fail), 0)))
				}
				for name, text := range content(m) {
					if text != whole[name] {
						t.Fatalf("operation %d, %s: %s is wrong", fail, after, name)
					}
				}
				if err := write(m, o); err != nil {
					t.Fatal(err)
				}
				if got := content(m); fmt.Sprint(got) != fmt.Sprint(whole) {
					t.Fatalf("operation %d, %s: there are %d files of %d, or they differ", fail, after, len(got),
						len(whole))
				}
			}
		}
	}
}

func TestCanceledOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, []string{"testdata"}); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
}
