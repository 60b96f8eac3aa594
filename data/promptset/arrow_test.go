package promptset

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/arrow"
	"github.com/quire/quire/data/promptset/folder"
)

var arrowFiles = []string{"types_lz4.arrow", "types_zstd.arrows", "types_slices.arrow", "types.feather"}

func arrowPath(name string) string { return filepath.Join("testdata", "arrow", name) }

// What pyarrow writes as Arrow is read as what it writes as Parquet: columns, types, values, levels, and the output.
func TestArrowAsPyarrowReadsIt(t *testing.T) {
	oracle := open(t, arrowPath("types.parquet"))
	expect := rows(t, oracle)
	same := filepath.Join(t.TempDir(), "data") // errors of rows name their file
	part := func(name, format string) string {
		if err := os.WriteFile(same, []byte(text(t, arrowPath(name))), 0o666); err != nil {
			t.Fatal(err)
		}
		return text(t, filepath.Join(complete(t, open(t, same), WriterOptions{Format: format}, 2), folder.PartName(0,
			format)))
	}
	for _, name := range arrowFiles {
		r := open(t, arrowPath(name))
		want(t, name+" schema", r.Schema().String(), oracle.Schema().String())
		for i, row := range rows(t, r) {
			o := expect[i]
			if fmt.Sprint(row.Err != nil, row.ID, row.Prompt, row.Overrides) !=
				fmt.Sprint(o.Err != nil, o.ID, o.Prompt, o.Overrides) {
				t.Errorf("%s row %d is %s %q: %v; want %s %q: %v", name, i, row.ID, row.Prompt, row.Err, o.ID, o.Prompt,
					o.Err)
			}
			for j, v := range typedValues(row) {
				if w := typedValues(o)[j]; !reflect.DeepEqual(v, w) && v.GoString() != w.GoString() {
					t.Errorf("%s row %d: value %d is %#v, want %#v", name, i, j, v, w)
				}
			}
		}
		for _, format := range []string{FormatParquet, FormatJSONL} {
			if part(name, format) != part("types.parquet", format) {
				t.Errorf("%s writes another %s output than types.parquet", name, format)
			}
		}
	}
}

// Any range of rows is what all rows have there.
func TestArrowRanges(t *testing.T) {
	for _, name := range append(arrowFiles, "replaced.arrows", "deltas.arrows", "deltas.arrow") {
		r := open(t, arrowPath(name))
		all := rows(t, r)
		for from := range all {
			for to := from; to <= len(all); to++ {
				at := from
				for row := range r.Range(context.Background(), int64(from), int64(to)) {
					if fmt.Sprint(row.Index, row.ID, row.Prompt, typedValues(row)) !=
						fmt.Sprint(at, all[at].ID, all[at].Prompt, typedValues(all[at])) {
						t.Fatalf("%s rows %d to %d: row %d is %+v, want %+v", name, from, to, at, row, all[at])
					}
					at++
				}
				if r.Err() != nil || at != to {
					t.Fatalf("%s rows %d to %d: ended at %d: %v", name, from, to, at, r.Err())
				}
			}
		}
	}
}

func TestArrowDictionaries(t *testing.T) {
	for name, expect := range map[string]string{
		"replaced.arrows": "[a b a b c z]", "deltas.arrows": "[a b a b c]", "deltas.arrow": "[a b a b c]",
	} {
		var prompts []string
		for _, row := range rows(t, open(t, arrowPath(name))) {
			prompts = append(prompts, row.Prompt)
		}
		want(t, name, fmt.Sprint(prompts), expect)
	}
}

// Files are recognized by their content if their names do not tell.
func TestArrowByContent(t *testing.T) {
	for _, name := range arrowFiles {
		r := open(t, write(t, "data", text(t, arrowPath(name))))
		want(t, name, r.NumRows(), 11)
	}
}

func TestSavedDataset(t *testing.T) {
	ids := func(paths ...string) (all []string) {
		for _, row := range rows(t, open(t, paths...)) {
			if row.Err != nil || row.Kind != KindMessages {
				t.Errorf("row %s is %v: %v", row.ID, row.Kind, row.Err)
			}
			all = append(all, row.ID)
		}
		return all
	}
	want(t, "both", fmt.Sprint(ids(arrowPath("saved"))), "[test0 test1 train0 train1 train2 train3 train4]")

	dir := filepath.Join(t.TempDir(), "d")
	if err := os.CopyFS(dir, os.DirFS(arrowPath("saved/train"))); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	put("cache-1.arrow", "not its own")
	want(t, "one", fmt.Sprint(ids(dir)), "[train0 train1 train2 train3 train4]")
	state := text(t, filepath.Join(dir, "state.json"))
	put("state.json", strings.NewReplacer("00000-", "00001-", "00001-", "00000-").Replace(state))
	want(t, "order of its state", fmt.Sprint(ids(dir)), "[train3 train4 train0 train1 train2]")
	for _, c := range [][2]string{
		{`{"_data_files":[{"filename":"x.arrow"}],"_indices_files":[{"filename":"i.arrow"}]}`,
			"call flatten_indices()"},
		{`{"_data_files":[{"filename":"x.arrow"}]}`, "it names x.arrow, which is not there"},
		{`{"_data_files":[{"filename":"../x.arrow"}]}`, `"../x.arrow" is not one of the folder`},
		{`{`, "state.json: not the state of a saved data set"},
	} {
		state, what := c[0], c[1]
		put("state.json", state)
		if _, err := Open(context.Background(), []string{dir}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s:\n got %v\nwant %s", state, err, what)
		}
	}
}

// A saved data set in an object store equals a local folder's.
func TestSavedDatasetElsewhere(t *testing.T) {
	const bucket = "mem://saved/of/datasets"
	upload(t, arrowPath("saved"), bucket)
	read := func(name string) (all []string) {
		r, err := OpenFrom(t.Context(), Anywhere(), []string{name})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows(t, r) {
			all = append(all, fmt.Sprint(row.ID, row.Messages, typedValues(row)))
		}
		return all
	}
	local := read(arrowPath("saved"))
	want(t, "rows", len(local), 7)
	want(t, "elsewhere", fmt.Sprint(read(bucket)), fmt.Sprint(local))
}

func TestArrowThatIsNotRead(t *testing.T) {
	stream, file := text(t, arrowPath("types_zstd.arrows")), text(t, arrowPath("types_lz4.arrow"))
	for name, c := range map[string]struct{ text, want string }{
		"v1.feather":    {"FEA1....FEA1", "v1.feather: not a readable Arrow file: it is a Feather V1 file"},
		"empty.arrow":   {"", "it is cut off in its schema, at byte 0"},
		"cut.arrow":     {stream[:len(stream)-2000], "cut.arrow: not a readable Arrow file: record batch 2 claims "},
		"open.arrow":    {file[:len(file)-1], "it has no footer: it is cut off, or was not closed"},
		"two.arrow":     {stream + stream, "there is more data after its end: several streams in one file"},
		"lines.feather": {`{"prompt": "a"}`, "its schema claims "},
	} {
		if _, err := Open(context.Background(), []string{write(t, name, c.text)}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
}

// A damaged record batch costs its rows, each with an error, and nothing else.
func TestCorruptRecordBatch(t *testing.T) {
	b := []byte(text(t, arrowPath("types_lz4.arrow")))
	// A buffer in the middle claims to become far more than there is.
	frame := len(b)/2 + bytes.Index(b[len(b)/2:], []byte("\x04\x22\x4d\x18"))
	binary.LittleEndian.PutUint64(b[frame-8:], 1<<50)
	batches := map[int]int{}
	for i, row := range rows(t, open(t, write(t, "bad.arrow", string(b)))) {
		if row.Err == nil || strings.Contains(row.Err.Error(), "no prompt") {
			continue
		}
		batches[i/4]++
		start := fmt.Sprintf("record batch %d cannot be read from here on: it is corrupt: buffer", i/4)
		if what := row.Err.Error(); !strings.Contains(what, start) || !strings.HasSuffix(what, "write the file again") {
			t.Errorf("row %d: %v", i, row.Err)
		}
	}
	if len(batches) != 1 {
		t.Errorf("errors are in these record batches: %v", batches)
	}
}

// readArrow reads all that a file has, and returns whether the file, and how many rows, have an error.
func readArrow(t *testing.T, b []byte) (unreadable bool, bad int) {
	return readAll(t, arrow.Look, b)
}

// Damage anywhere in a file ends in an error of the file or of its rows, never in a panic.
func TestDamagedArrow(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	unreadable, bad := 0, 0
	for _, name := range append(slices.Clone(arrowFiles), "replaced.arrows", "deltas.arrow") {
		whole := []byte(text(t, arrowPath(name)))
		for range 60 {
			b := bytes.Clone(whole)
			for range 1 + random.IntN(4) {
				b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
			}
			u, n := readArrow(t, b)
			if bad += n; u {
				unreadable++
			}
		}
	}
	if unreadable == 0 || bad == 0 {
		t.Errorf("%d files and %d rows were refused: the damage does nothing", unreadable, bad)
	}
}

func FuzzArrow(f *testing.F) {
	for _, name := range append(slices.Clone(arrowFiles), "replaced.arrows", "deltas.arrows", "deltas.arrow",
		"saved/train/data-00000-of-00002.arrow") {
		b, err := os.ReadFile(arrowPath(name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { readArrow(t, b) })
}
