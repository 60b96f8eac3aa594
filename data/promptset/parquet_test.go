package promptset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	parquetfile "github.com/quire/quire/data/promptset/parquet"
)

// The fixtures are files that pyarrow wrote: see scripts/oracle/parquet_fixtures.py.

func TestReadsEveryCodecPageVersionAndEncoding(t *testing.T) {
	for _, name := range []string{"snappy_v1", "zstd_v2", "gzip_v1_plain", "none_v2_plain", "brotli_v2_delta"} {
		t.Run(name, func(t *testing.T) {
			got := rows(t, open(t, "testdata/"+name+".parquet"))
			want(t, "rows", len(got), 40)
			for i, row := range got {
				if i == 7 {
					want(t, "error", fmt.Sprint(row.Err),
						"testdata/"+name+".parquet row 7: no prompt; give one of prompt, messages, prompt_token_ids")
					want(t, "id", row.ID, "row-7")
					continue
				}
				want(t, "prompt", row.Prompt, fmt.Sprintf("Prompt %d: what is %d + %d? \u00e9\u4e2d\U0001f600", i, i,
					i))
				want(t, "id", row.ID, fmt.Sprintf("row-%d", i))
				if i%3 == 0 {
					want(t, "temperature", row.Overrides.Values().Temperature, float64(i)/10)
				} else if row.Overrides.Text("temperature") != "" {
					t.Errorf("row %d has a temperature", i)
				}
				if i%2 == 0 {
					want(t, "n", row.Overrides.Values().N, 1+i%4)
				}
			}
		})
	}
}

func TestReadsMessagesInEveryForm(t *testing.T) {
	bad := map[int]string{
		3: "no prompt", 4: "messages is empty", 5: "messages[0] has no content", 6: `unknown role "wizard"`,
		8: "messages[0] has no role",
	}
	for _, name := range []string{"messages", "messages_item", "messages_wide"} {
		for i, row := range rows(t, open(t, "testdata/"+name+".parquet")) {
			if what, ok := bad[i]; ok {
				if row.Err == nil || !strings.Contains(row.Err.Error(), what) {
					t.Errorf("%s row %d: error %v, want %s", name, i, row.Err, what)
				}
				continue
			}
			expect := []Message{{Role: "system", Content: "Be brief.", Object: ""}, {Role: "user",
				Content: fmt.Sprintf("Question %d", i), Object: ""}}
			for range i % 3 {
				expect = append(expect, Message{Role: "assistant", Content: "Yes.", Object: ""}, Message{Role: "user",
					Content: "Why?", Object: ""})
			}
			if name == "messages_wide" { // its messages have names
				for k := range row.Messages {
					if m := &row.Messages[k]; !strings.Contains(m.Object, `"name":`) {
						t.Errorf("%s row %d has no name in %+v", name, i, m)
					} else {
						m.Object = ""
					}
				}
			}
			if row.Err != nil || !slices.Equal(row.Messages, expect) {
				t.Errorf("%s row %d: %v %v, want %v", name, i, row.Messages, row.Err, expect)
			}
			if name != "messages" {
				continue
			}
			want(t, "id", row.ID, fmt.Sprint(100+i))
			want(t, "seed", row.Overrides.Values().Seed, 1<<63+uint64(i))
			if i%2 == 0 {
				want(t, "stop", fmt.Sprintf("%q", row.Overrides.Values().Stop),
					fmt.Sprintf("%q", []string{"\n\n", "END"}[:i%3]))
			}
			want(t, "ignore_eos", row.Overrides.Text("ignore_eos"), []string{"", "true", "false"}[i%3])
		}
	}
	split := rows(t, open(t, "testdata/messages_split.parquet"))
	want(t, "split", fmt.Sprint(split[2].Messages), "[{user a } {assistant b } {user c2 }]")
	want(t, "split null", strings.Contains(split[4].Err.Error(), "no prompt"), true)
	want(t, "split uneven", strings.Contains(split[5].Err.Error(), "1 roles and 0 contents"), true)
}

func TestReadsTokens(t *testing.T) {
	for _, name := range []string{"tokens32", "tokens64"} {
		got := rows(t, open(t, "testdata/"+name+".parquet"))
		want(t, "first", fmt.Sprint(got[0].TokenIDs, got[0].Kind), "[1 2 3] prompt_token_ids")
		for i, what := range map[int]string{1: "no prompt", 2: "is empty", 4: "prompt_token_ids[1] is null"} {
			if got[i].Err == nil || !strings.Contains(got[i].Err.Error(), what) {
				t.Errorf("%s row %d: %v", name, i, got[i].Err)
			}
		}
		want(t, "too large", got[5].Err != nil, name == "tokens64")
		want(t, "last", len(got[24].TokenIDs), 19)
	}
}

func TestReadsBareRepeatedFields(t *testing.T) {
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type bare struct {
		Messages []message `parquet:"messages"`
		Stop     []string  `parquet:"stop"`
		Tokens   []int32   `parquet:"numbers"`
	}
	path := filepath.Join(t.TempDir(), "bare.parquet")
	err := parquet.WriteFile(path, []bare{
		{Messages: []message{{"user", "a"}, {"assistant", "b"}}, Stop: []string{"x", "y"}, Tokens: []int32{1, 2}},
		{Stop: []string{"x"}},
		{Messages: []message{{"user", "c"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, path)
	got := rows(t, r)
	want(t, "messages", fmt.Sprint(got[0].Messages, got[0].Overrides.Values().Stop), "[{user a } {assistant b }] [x y]")
	want(t, "none", strings.Contains(fmt.Sprint(got[1].Err), "no prompt"), true)
	want(t, "no stop", got[2].Overrides.Text("stop") == "", true)
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	want(t, "passed through", strings.Join(column(root, out, "messages"), " "),
		`[{"role":"user","content":"a"},{"role":"assistant","content":"b"}] [] [{"role":"user","content":"c"}]`)
	want(t, "numbers", strings.Join(column(root, out, "numbers"), " "), "[1,2] [] []")
}

func TestPassesEveryTypeThrough(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(fixtures) < 10 {
		t.Fatal("fixtures are missing", err)
	}
	for _, fixture := range fixtures {
		const n = 2
		_, in, inRows := parsed(t, fixture)
		file, out, outRows := parsed(t, filepath.Join(complete(t, open(t, fixture), WriterOptions{}, n),
			"part-00000.parquet"))
		generation := column(out, outRows, "generation")
		var first []parquet.Row
		for i, g := range generation {
			if g == "0" {
				first = append(first, outRows[i])
			}
		}
		if len(first) != len(inRows) {
			t.Fatalf("%s: %d rows became %d", fixture, len(inRows), len(first))
		}
		for _, f := range in.Fields {
			name := f.Name
			if out.Field("input_"+name) != nil {
				name = "input_" + name
			}
			if before, after := column(in, inRows, f.Name), column(out, first, name); name != "id" &&
				!slices.Equal(before, after) {
				t.Errorf("%s column %s:\n got %v\nwant %v", fixture, name, after, before)
			}
			if a, b := f, out.Field(name); name != "id" && a.Describe() != b.Describe() {
				t.Errorf("%s column %s is now %s, was %s", fixture, name, b.Describe(), a.Describe())
			}
		}
		if !strings.HasSuffix(names(out), strings.Join(outputColumns(), " ")) {
			t.Errorf("%s: columns %s", fixture, names(out))
		}
		want(t, "codec", file.Metadata().RowGroups[0].Columns[0].MetaData.Codec.String(), "ZSTD")
	}
}

func TestParquetErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, rows any) string {
		path := filepath.Join(dir, name)
		var err error
		switch rows := rows.(type) {
		case string:
			err = os.WriteFile(path, []byte(rows), 0o666)
		case func(string) error:
			err = rows(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.parquet", func(p string) error {
		return parquet.WriteFile(p, []struct {
			Prompt string `parquet:"prompt"`
			Topic  string `parquet:"topic"`
		}{{"a", "b"}})
	})
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{file("none.parquet", func(p string) error {
			return parquet.WriteFile(p, []struct {
				Question string `parquet:"question"`
				Answer   int    `parquet:"answer"`
			}{{}})
		})},
			"none.parquet: no prompt column: it needs one of prompt, messages, prompt_token_ids and has question, " +
				"answer"},
		{[]string{file("type.parquet", func(p string) error {
			return parquet.WriteFile(p, []struct {
				Prompt string `parquet:"prompt"`
				N      string `parquet:"n"`
			}{{}})
		})}, `type.parquet: column "n" is text; it must be an integer`},
		{[]string{file("messages.parquet", func(p string) error {
			return parquet.WriteFile(p, []struct {
				Messages []string `parquet:"messages,list"`
			}{{}})
		})}, `messages.parquet: column "messages" is list of text; it must be list of struct{role text, content text}`},
		{[]string{good, file("other.parquet", func(p string) error {
			return parquet.WriteFile(p, []struct {
				Prompt string `parquet:"prompt"`
				Topic  bool   `parquet:"topic"`
			}{{}})
		})}, `other.parquet: column "topic" is boolean here and text in ` + good},
		{[]string{file("short.parquet", "PAR1")},
			"short.parquet: not a readable Parquet file: 4 bytes are too few for one"},
		{[]string{file("cut.parquet", text(t, good)[:100])},
			"not a readable Parquet file: it does not end as a Parquet file does: it is cut off or corrupt"},
		{[]string{file("secret.parquet", "PAR1and more PARE")}, "it is encrypted: write it without encryption"},
		{[]string{file("liar.parquet", "PAR1PAR1\xff\xff\xff\x7fPAR1")},
			"its footer claims 2147483647 bytes and the file has 16"},
		{[]string{filepath.Join(dir, "absent.parquet")}, "absent.parquet: there is no such file or folder"},
		{[]string{filepath.Join(dir, "*.nothing")}, "*.nothing: no file matches"},
		{[]string{file("x.txt", "a,b")},
			"x.txt: neither a Parquet file nor an Arrow file nor JSONL, which begins with an object on a line, " +
				"nor named .parquet, .arrow, "},
		{[]string{file("list.json", ` [{"prompt": "a"}`)}, "cannot read row 1: it ends in the middle of the document"},
		{[]string{file("object", "\xef\xbb\xbf{\n \"prompt\": \"a\"}")}, "write an object on each line"},
		{[]string{t.TempDir()}, "the folder has no files named .parquet"},
		{nil, "no input files"},
	} {
		_, err := Open(context.Background(), c.paths)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v:\n got %v\nwant %s", c.paths, err, c.want)
		}
		if fe := new(FileError); c.paths != nil && !errors.As(err, &fe) {
			t.Errorf("%v is no FileError", err)
		}
	}
}

// A damaged page costs the rest of its row group, each row with an error, and nothing else.
func TestCorruptRowGroup(t *testing.T) {
	b := []byte(text(t, "testdata/none_v2_plain.parquet"))
	file, _, _ := parsed(t, "testdata/none_v2_plain.parquet")
	chunk := file.Metadata().RowGroups[1].Columns[1].MetaData
	for i := range 30 { // the page's header
		b[chunk.DataPageOffset+int64(i)] = 0xff
	}
	path := write(t, "bad.parquet", string(b))
	r := open(t, path)
	got := rows(t, r)
	for i, row := range got {
		if bad := i >= 16 && i < 32; bad != (row.Err != nil &&
			strings.Contains(row.Err.Error(), "row group 1 cannot be read from here on")) {
			t.Errorf("row %d: %v", i, row.Err)
		}
	}
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	want(t, "rows", len(out), 40)
	want(t, "lost", column(root, out, "topic")[20], "null")
	want(t, "kept", column(root, out, "topic")[33], `"physics"`)
}

func TestUnionOfSchemas(t *testing.T) {
	dir := t.TempDir()
	type nested struct {
		X int32 `parquet:"x"`
	}
	a, b := filepath.Join(dir, "a.parquet"), filepath.Join(dir, "b.parquet")
	err := parquet.WriteFile(a, []struct {
		Prompt string   `parquet:"prompt"`
		Score  int32    `parquet:"score"`
		S      nested   `parquet:"s"`
		L      []nested `parquet:"l,list"`
		OnlyA  string   `parquet:"only_a"`
	}{{"p", 1, nested{5}, []nested{{6}, {7}}, "x"}})
	if err != nil {
		t.Fatal(err)
	}
	type wide struct {
		X *int64 `parquet:"x,optional"`
	}
	err = parquet.WriteFile(b, []struct {
		L      []wide  `parquet:"l,list"`
		Score  *int64  `parquet:"score,optional"`
		S      *wide   `parquet:"s,optional"`
		Prompt *string `parquet:"prompt,optional"`
		OnlyB  float64 `parquet:"only_b"`
	}{{OnlyB: 2}})
	if err != nil {
		t.Fatal(err)
	}
	c := write(t, "c.jsonl", `{"prompt":"q","score":9,"only_b":0.5,"only_c":[true]}`)
	r := open(t, a, b, c)
	want(t, "schema", r.Schema().String(),
		"prompt text, score int64, s struct{x int64}, l list of struct{x int64}, only_a text, only_b double, only_c "+
			"list of boolean")
	_, root, out := parsed(t, filepath.Join(complete(t, r, WriterOptions{}, 1), "part-00000.parquet"))
	for name, expect := range map[string]string{
		"prompt": `"p" null "q"`, "score": "1 null 9", "s": `{"x":5} null null`, "l": `[{"x":6},{"x":7}] [] null`,
		"only_a": `"x" null null`, "only_b": "null 2 0.5", "only_c": "null null [true]",
	} {
		want(t, name, strings.Join(column(root, out, name), " "), expect)
	}
}

func FuzzParquetOpen(f *testing.F) {
	for _, name := range []string{"messages", "snappy_v1", "passthrough", "tokens32"} {
		b, err := os.ReadFile("testdata/" + name + ".parquet")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		readAll(t, parquetfile.Look, b)
	})
}

// Damage anywhere in a file ends in an error of the file or of its rows, never in a panic.
func TestDamagedFiles(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	unreadable, badRows := 0, 0
	for _, name := range []string{"passthrough", "snappy_v1", "zstd_v2", "messages"} {
		whole := []byte(text(t, "testdata/"+name+".parquet"))
		for range 50 {
			b := bytes.Clone(whole)
			for range 1 + random.IntN(4) {
				b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
			}
			u, n := readAll(t, parquetfile.Look, b)
			if badRows += n; u {
				unreadable++
			}
		}
	}
	if unreadable == 0 || badRows == 0 {
		t.Errorf("%d files and %d rows were refused: the damage does nothing", unreadable, badRows)
	}
}
