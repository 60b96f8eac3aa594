package promptset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/lines"
)

// A document has the rows, the columns and the output that its rows have as lines, both as an array and as columns,
// for any white space.
func TestDocumentsAreLines(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(rt, "rows")
		var rowsOf, values []string
		for i := range n {
			value := rapid.SampledFrom([]string{`null`, `1`, `-2.5e3`, `"a,]}\"\\"`, `[1,[2]]`, `{"k":["}"]}`, `true`,
				`"\u00e9"`}).Draw(rt, "value")
			values = append(values, value)
			rowsOf = append(rowsOf, fmt.Sprintf(`{"prompt":"p%d","id":"%d","x":%s}`, i, i*i, value))
		}
		space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n\t"}).Draw(rt, "space")
		var prompts, ids []string
		for i := range n {
			prompts, ids = append(prompts, fmt.Sprintf(`"p%d"`, i)), append(ids, fmt.Sprintf(`"%d"`, i*i))
		}
		list := func(items []string) string {
			return "[" + space + strings.Join(items, space+","+space) + space + "]"
		}
		expect := open(t, write(t, "same", strings.Join(rowsOf, "\n")+"\n"))
		for name, content := range map[string]string{
			"array": space + list(rowsOf) + space,
			"columns": space + "{" + space + `"prompt"` + space + ":" + space + list(prompts) + space + "," + space +
				`"id":` + list(ids) + `,"x":` + list(values) + space + "}" + space,
		} {
			r := open(t, write(t, "same.json", content))
			want(t, name+" schema", r.Schema().String(), expect.Schema().String())
			all := rows(t, expect)
			for i, row := range rows(t, r) {
				want(t, name+" row", fmt.Sprint(row.ID, row.Prompt, row.Kind, row.Err), fmt.Sprint(all[i].ID,
					all[i].Prompt,
					all[i].Kind, all[i].Err))
			}
			part := func(r *Reader) string {
				return text(t, filepath.Join(complete(t, r, WriterOptions{Format: FormatJSONL}, 1), "part-00000.jsonl"))
			}
			want(t, name+" output", part(r), part(expect))
		}
	})
}

// Bad rows are errors that name the file and the row, and cost no other row.
func TestRowsOfDocuments(t *testing.T) {
	got := rows(t, open(t, write(t, "x.json", `[{"prompt": "a"}, 7, {"prompt": "b", }, null, "t", [1],
		{"id": "q", "prompt": }, {"prompt":"`+"\xff"+`"}, {"prompt": "\ud800"}, {"prompt": "c", "prompt": "d"},
		{"prompt": "last"}]`)))
	for i, expect := range []string{"", `x.json row 1: the row is the number 7 and not a JSON object`,
		`x.json row 2: JSON syntax error: invalid character '}'`, `x.json row 3: the row is null and not`,
		`x.json row 4: the row is text "t" and`, `x.json row 5: the row is a list [1] and`,
		`x.json row 6: JSON syntax error`,
		`x.json row 7: the row is not valid UTF-8`, `x.json row 8: the row has an unpaired`,
		`x.json row 9: the key "prompt" is there twice`, "",
	} {
		if text := fmt.Sprint(got[i].Err); (got[i].Err == nil) != (expect == "") || !strings.Contains(text, expect) {
			t.Errorf("row %d: %s, want %s", i, text, expect)
		}
	}
	want(t, "id of a damaged row", got[6].ID, "q")
	want(t, "last", got[10].Prompt, "last")
	got = rows(t, open(t, write(t, "x.json", `{"prompt": ["a", null, nope, "d"], "id": [1, 2, 3, 4]}`)))
	want(t, "columns", fmt.Sprint(got[0].Prompt, got[3].Prompt, got[3].ID), "ad4")
	want(t, "columns", strings.Contains(fmt.Sprint(got[1].Err), "x.json row 1: no prompt"), true)
	want(t, "columns", strings.Contains(fmt.Sprint(got[2].Err), "x.json row 2: JSON syntax error"), true)
}

// Invalid documents are rejected with the place.
func TestDocumentsRefused(t *testing.T) {
	for text, expect := range map[string]string{
		`[{"prompt":"a"} {"prompt":"b"}]`: "x.json: cannot read row 1: byte 16 is '{' and not ,",
		`[{"prompt":"a"},`:                "cannot read row 1: it ends in the middle of the document: it is cut off",
		`[{"prompt":"a`:                   "cannot read row 0: it ends in the middle",
		`[{"prompt":"a"},]`:               "cannot read row 1: there is no value at byte 16",
		`[{"prompt":"a"}] x`:              "there is more after the end of the list, at byte 17",
		`[{"a":1}]`:                       "no prompt key",
		"{\n\"prompt\": \"a\"\n}":         "one JSON object over several lines, and not of columns",
		`{"prompt":["a"],"id":["b","c"]}`: `column "prompt" has 1 items and column "id" has 2`,
		`{"a":[1]}`:                       "no prompt key",
	} {
		_, err := Open(context.Background(), []string{write(t, "x.json", text)})
		if err == nil || !strings.Contains(err.Error(), expect) {
			t.Errorf("%s:\n got %v\nwant %s", text, err, expect)
		}
	}
}

// A file that is named .json and has lines of objects is read as lines, and a folder does not stand for such files.
func TestLinesNamedJSON(t *testing.T) {
	for _, text := range []string{`{"prompt":"a"}`, "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n",
		`{"messages":[{"role":"user","content":"a"}]}`, `{"prompt_token_ids":[1,2]}`} {
		r := open(t, write(t, "x.json", text))
		want(t, "line", rows(t, r)[0].Line, int64(1))
		want(t, text, rows(t, r)[0].Err, nil)
	}
	path := write(t, "x.json", `[{"prompt":"a"}]`)
	if _, err := Open(context.Background(), []string{filepath.Dir(path)}); err == nil ||
		!strings.Contains(err.Error(), "the folder has no files named .parquet") {
		t.Error(err)
	}
}

// Any range of rows is what all rows have there.
func TestRangesOfDocuments(t *testing.T) {
	const n = 2*lines.MarkEvery + 50
	var array, prompts, ids []string
	for i := range n {
		array = append(array, fmt.Sprintf(`{"id":%d,"prompt":"p%d"}`, i, i))
		prompts, ids = append(prompts, fmt.Sprintf(`"p%d"`, i)), append(ids, fmt.Sprint(i))
	}
	for _, text := range []string{"[" + strings.Join(array, ",\n") + "]",
		`{"prompt":[` + strings.Join(prompts, ", ") + `],"id":[` + strings.Join(ids, ",") + `]}`} {
		r := open(t, write(t, "x.json", text))
		want(t, "rows", r.NumRows(), n)
		for _, from := range []int64{0, 1, lines.MarkEvery - 1, lines.MarkEvery, lines.MarkEvery + 1, n - 1, n} {
			at := from
			for row := range r.Range(context.Background(), from, min(from+3, n)) {
				want(t, "row", row.Prompt+row.ID, fmt.Sprintf("p%d%d", at, at))
				at++
			}
			if r.Err() != nil || at != min(from+3, n) {
				t.Fatal(from, at, r.Err())
			}
		}
	}
}

// Documents are streams: reading one takes no memory of its size.
func TestMemoryOfDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 200 MB")
	}
	long := strings.Repeat("x", 100_000)
	for _, form := range [][3]string{{"[", `{"prompt":%q}`, "]"}, {`{"prompt":[`, `%q`, "]}"}} {
		path := filepath.Join(t.TempDir(), "x.json")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, form[0])
		for i := range 1000 {
			if i > 0 {
				fmt.Fprint(f, ",")
			}
			fmt.Fprintf(f, form[1], long)
		}
		fmt.Fprint(f, form[2])
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var most uint64
		var m runtime.MemStats
		n := 0
		for row := range open(t, path).Rows(context.Background()) {
			if n++; n%100 == 0 && row.Err == nil {
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		}
		if n != 1000 || most > 30<<20 {
			t.Errorf("%s: %d rows, %d bytes of memory", form[0], n, most)
		}
	}
}

// Damage anywhere ends in an error of the file or of its rows.
func TestDamagedDocuments(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 1))
	for _, text := range []string{`[{"prompt":"a","x":[1,{"y":null}]},{"prompt":"b"},{"id":"c","prompt":"\"d"}]`,
		`{"prompt":["a","b","c"],"x":[[1],{"y":"]"},null]}`} {
		for range 100 {
			b := []byte(text)
			for range 1 + random.IntN(3) {
				b[random.IntN(len(b))] = byte(random.IntN(128))
			}
			readDocument(t, b)
		}
	}
}

// readDocument reads a file named .json, and writes its rows; what encoding/json takes for an array has as many rows.
func readDocument(t *testing.T, b []byte) {
	r, err := Open(context.Background(), []string{write(t, "x.json", string(b))})
	var items []json.RawMessage
	isArray := json.Unmarshal(b, &items) == nil && bytes.HasPrefix(bytes.TrimSpace(b), []byte("["))
	if err != nil {
		if what := err.Error(); isArray && !strings.Contains(what, "no prompt key") && !strings.Contains(what,
			"column") {
			t.Fatalf("%q is an array and is refused: %v", b, err)
		}
		return
	}
	if isArray && r.NumRows() != int64(len(items)) {
		t.Fatalf("%q has %d rows", b, r.NumRows())
	}
	in := rows(t, r)
	for from := range r.NumRows() {
		for row := range r.Range(context.Background(), from, from+1) {
			want(t, "row alone", fmt.Sprint(row.ID, row.Prompt, row.Err), fmt.Sprint(in[from].ID, in[from].Prompt,
				in[from].Err))
		}
	}
	complete(t, r, WriterOptions{Format: FormatJSONL}, 1)
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(`[{"prompt":"a"}, {"prompt": "b\"]", "x": [1, {}]}]`))
	f.Add([]byte(`{"prompt":["a","b"],"n":[1,null]}`))
	f.Add([]byte("\xef\xbb\xbf [ {\"prompt\":\"a\"},\n7,nope]"))
	f.Add([]byte(`[`))
	f.Add([]byte(`{"prompt":[]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(readDocument)
}
