package promptset

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/vfs"
)

// openLinesOf opens a reader of a JSONL file with these lines.
func openLinesOf(t testing.TB, name string, lines ...string) (*Reader, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return Open(context.Background(), []string{path})
}

// A line means what a row means that has its prompt and parameters as columns, and its custom_id as id.
func TestRequestsAreRows(t *testing.T) {
	const line = `{"custom_id":"a","method":"POST","url":"/v1/%s","body":{%s}}`
	for _, c := range []struct{ url, body, row string }{
		{"completions", `"prompt":"p","max_tokens":3,"temperature":0.5,"stop":"x","seed":18446744073709551615`,
			`"prompt":"p","max_tokens":3,"temperature":0.5,"stop":["x"],"seed":18446744073709551615`},
		{"completions", `"prompt":[1,2],"model":"m","n":2,"top_p":0.5`, `"prompt_token_ids":[1,2],"n":2,"top_p":0.5`},
		{"chat/completions", `"messages":[{"role":"user","content":"p"}],"max_completion_tokens":7,"user":"u"`,
			`"messages":[{"role":"user","content":"p"}],"max_tokens":7`},
		{"chat/completions", `"messages":[{"role":"user","content":"p"}],"response_format":{"type":"json_object"}`,
			`"messages":[{"role":"user","content":"p"}],"response_format":{"type":"json_object"}`},
		{"chat/completions", `"messages":[{"role":"user","content":"p"}],"logprobs":true,"top_logprobs":2`,
			`"messages":[{"role":"user","content":"p"}],"top_logprobs":2`},
		{"completions", `"prompt":"p","logprobs":2,"frequency_penalty":0.5`,
			`"prompt":"p","top_logprobs":2,"frequency_penalty":0.5`},
		{"chat/completions", `"messages":[{"role":"user","content":"p"}],"ignore_eos":true,"top_k":4,"min_p":null`,
			`"messages":[{"role":"user","content":"p"}],"ignore_eos":true,"top_k":4`},
	} {
		text := strings.Replace(strings.Replace(line, "%s", c.url, 1), "%s", c.body, 1)
		requests, err := openLinesOf(t, "batch.jsonl", text)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := openLinesOf(t, "rows.jsonl", `{"id":"a",`+c.row+`}`)
		if err != nil {
			t.Fatal(err)
		}
		var got, want *Row
		for got = range requests.Rows(context.Background()) {
		}
		for want = range rows.Rows(context.Background()) {
		}
		if got.Err != nil || want.Err != nil {
			t.Fatal(got.Err, want.Err)
		}
		same := func(r *Row) string {
			b, _ := json.Marshal([]any{r.ID, r.Kind, r.Prompt, r.Messages, r.TokenIDs, r.Overrides.Values()})
			return string(b)
		}
		if same(got) != same(want) {
			t.Errorf("%s: %s, want %s", c.body, same(got), same(want))
		}
	}
}

// A line may have several prompts; the completions of each come one after another.
func TestSeveralPrompts(t *testing.T) {
	r, err := openLinesOf(t, "batch.jsonl",
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":["p","q","r"],"n":2}}`,
		`{"custom_id":"b","method":"POST","url":"/v1/completions","body":{"prompt":[[1,2],[3]]}}`,
		`{"custom_id":"c","method":"POST","url":"/v1/completions","body":{"prompt":[[1,2],[]]}}`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row := range r.Rows(context.Background()) {
		if row.Err != nil {
			text := row.Err.Error()
			got = append(got, row.Err.(*RowError).Param+": "+text[strings.Index(text, "batch.jsonl"):])
			continue
		}
		for _, one := range row.Each() {
			got = append(got, fmt.Sprintf("%s %s %s%v %d", one.ID, one.Kind, one.Prompt, one.TokenIDs,
				len(one.More)))
		}
		if row.ID == "a" {
			results := []Result{{PromptTokens: 1}, {PromptTokens: 1}, {PromptTokens: 20}, {PromptTokens: 20},
				{PromptTokens: 300}, {PromptTokens: 300}}
			if n := completion.PromptTokens(row, results); n != 321 {
				t.Errorf("the prompts have %d tokens", n)
			}
			if n := completion.PromptTokens(row, []Result{{Err: "bad"}}); n != 0 {
				t.Errorf("the prompts of an error have %d tokens", n)
			}
		}
	}
	want := []string{"a prompt p[] 0", "a prompt q[] 0", "a prompt r[] 0", "b prompt_token_ids [1 2] 0",
		"b prompt_token_ids [3] 0",
		"prompt: batch.jsonl line 3: prompt[1] is empty; give at least one token"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The parameters of an input are its columns, and the members of bodies that the table of parameters has.
func TestParametersOfRequests(t *testing.T) {
	r, err := openLinesOf(t, "batch.jsonl",
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"p","n":2,"logprobs":null}}`,
		`{"custom_id":"b","method":"POST","url":"/v1/completions","body":{"prompt":"p","top_logprobs":2,"mine":1,"n":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"custom_id", "method", "url", "body", "n", "top_logprobs"}
	if got := r.Schema().Parameters(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A file is a batch file by the content of its lines, whichever of them are complete.
func TestRequestFiles(t *testing.T) {
	const good = `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"p"}}`
	for _, c := range []struct {
		lines []string
		is    bool
	}{
		{[]string{good}, true},
		{[]string{`{"custom_id":`, `{"custom_id":"b"}`, good}, true},
		{[]string{`{"prompt":"p","custom_id":"a","method":"m","url":"u","body":"b"}`}, false},
		{[]string{`{"prompt":"p","url":"u"}`}, false},
	} {
		r, err := openLinesOf(t, "x.jsonl", c.lines...)
		if err != nil {
			t.Errorf("%s: %v", c.lines, err)
			continue
		}
		if is := r.NoRequests() == ""; is != c.is {
			t.Errorf("%s: %v", c.lines, is)
		}
	}
	if _, err := openLinesOf(t, "x.jsonl", `{"custom_id":"a","url":"u"}`); err == nil {
		t.Error("lines without a prompt, none of which is of a batch, are no error")
	}
}

// For any lines, each becomes a row, and all rows can be written in each format and read back.
func FuzzRequests(f *testing.F) {
	f.Add(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":[[1,2]],"logprobs":2,"n":3}}`)
	f.Add(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":` +
		`[{"type":"text","text":"a"}]}],"stream":true,"logprobs":true}}`)
	f.Add(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":[[1,2],[3],[]],"n":2}}`)
	f.Add(`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":["a","b"],"prompt_logprobs":1}}`)
	f.Add(`{"custom_id":1,"method":null,"url":[],"body":{}}`)
	f.Add("{\"custom_id\":\"a\",\"url\":\"\"}\n{\"custom_id\":\"a\",\"body\":{\"model\":7}}\nnull")
	const good = `{"custom_id":"good","method":"POST","url":"/v1/completions","body":{"prompt":"p"}}`
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte(good+"\n"+text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), []string{path})
		if err != nil {
			return
		}
		for _, format := range Formats() {
			writeAndRead(t, r, format)
		}
	})
}

// writeAndRead writes an output with two completions for each row, and reads it back.
func writeAndRead(t *testing.T, r *Reader, format string) {
	t.Helper()
	place := t.TempDir()
	d, err := folder.NewLocal(vfs.OS, place)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(d, WriterOptions{Format: format, Schema: r.Schema(),
		Parts: folder.Parts{Rows: r.NumRows(), PartRows: 1 << 20}, Write: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	var wanted []WantedRow
	for row := range r.Rows(context.Background()) {
		wanted = append(wanted, WantedRow{Row: row, N: 2})
		var results []Result
		for i := range 2 {
			if row.Err == nil {
				results = append(results, Result{Generation: i, Text: "ab", TokenIDs: []int32{7, 8},
					Logprobs: []float32{-1, -2}, FinishReason: "stop", PromptTokens: 3, CompletionTokens: 2})
			}
		}
		if err := w.Add(row, results); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := OpenOutput(d)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	check := NewRowCheck(0, r.NumRows(), func() (WantedRow, bool) {
		if i == len(wanted) {
			return WantedRow{}, false
		}
		i++
		return wanted[i-1], true
	})
	content, err := out.Read(context.Background(), out.Parts[0], func(c *Completion) error {
		check.Add(c.ID, &c.Result)
		c.Prompt()
		return nil
	})
	if what := check.Finish(); err != nil || content.Damage != "" || what != "" {
		t.Fatalf("%s: %v, %s, %s", format, err, content.Damage, what)
	}
}
