package promptset

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/jsonl"
	"github.com/quire/quire/data/vfs"
)

var writePage = flag.Bool("write", false, "write docs/columns.md")

const columnsIntroduction = `# Columns of the output

This page is made from the table in package promptset, by "go test ./data/promptset -run TestColumnsPage -write".

A row of the output is one completion. It has the columns of the input row first, then these. An input column of one of
these names is kept as input_NAME, except id. In JSONL files the columns are keys of the same names; numbers that JSON
does not have (infinities) are null there.

| column | Parquet type | meaning |
| --- | --- | --- |
`

func columnsPage() string {
	var b strings.Builder
	b.WriteString(columnsIntroduction)
	row := func(c *completion.Column) { fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, c.Type(), c.Doc) }
	for _, c := range (&completion.Shape{}).Columns() {
		row(c)
	}
	var more []*completion.Column
	byJob := map[string][]*completion.Column{}
	for c := range completion.Columns() {
		switch {
		case c.ByJob != "":
			byJob[c.ByJob] = append(byJob[c.ByJob], c)
		case c.OnRequest:
			more = append(more, c)
		}
	}
	if len(more) > 0 {
		b.WriteString("\nThese are there with `--columns NAME`, or if the job or a column of its input gives the " +
			"parameter,\nin this order, after the others:\n\n")
		b.WriteString("| column | parameter | Parquet type | meaning |\n| --- | --- | --- | --- |\n")
		for _, c := range more {
			parameter := ""
			if c.Parameter != "" {
				parameter = "`" + c.Parameter + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, parameter, c.Type(), c.Doc)
		}
	}
	for _, job := range []struct{ does, page string }{{"judges completions", "until.md"}, {"calls tools", "tools.md"}} {
		fmt.Fprintf(&b, "\nA job that %s ([%[2]s](%[2]s)) has these, after all others:\n\n"+
			"| column | Parquet type | meaning |\n| --- | --- | --- |\n", job.does, job.page)
		for _, c := range byJob[job.does] {
			row(c)
		}
	}
	return b.String()
}

// The page of the documentation is the table.
func TestColumnsPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "columns.md")
	if *writePage {
		if err := os.WriteFile(path, []byte(columnsPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != columnsPage() {
		t.Errorf("%s is not the table (%v); write it again: go test ./data/promptset -run TestColumnsPage -write", path,
			err)
	}
}

// The column is there where it is asked for, after the others, and an input column of its name makes room for it.
func TestColumnsOnRequest(t *testing.T) {
	r := open(t, write(t, "x.jsonl", `{"prompt":"a","cumulative_logprob":"mine"}`))
	var logprobs []float32
	want := 0.0
	for _, p := range []float32{-0.1, -1e-9, -20.25} {
		logprobs = append(logprobs, p)
		want += float64(p)
	}
	results := []Result{
		{Text: "x", TokenIDs: []int32{1, 2, 3}, Logprobs: logprobs, FinishReason: "stop", CompletionTokens: 3},
		{Generation: 1, FinishReason: "error", Err: "lost"},
	}
	for _, c := range []struct {
		columns []string
		format  string
		want    string
	}{
		{nil, FormatJSONL, `"cumulative_logprob":"mine","id":"0"`},
		{[]string{"cumulative_logprob"}, FormatJSONL, `"input_cumulative_logprob":"mine","id":"0"`},
		{[]string{"cumulative_logprob"}, FormatParquet, ""},
	} {
		dir := t.TempDir()
		place, err := folder.NewLocal(vfs.OS, dir)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(place, WriterOptions{Format: c.format, Schema: r.Schema(),
			Shape: completion.Shape{Requested: c.columns}, Parts: folder.Parts{Rows: 1, PartRows: 1}, Write: []int{0}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(rows(t, r)[0], results); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, folder.PartName(0, c.format))
		if c.format == FormatJSONL {
			part := text(t, path)
			lines := strings.Split(part, "\n")
			sum := fmt.Sprintf(`"error":null,"cumulative_logprob":%v}`, want)
			if !strings.Contains(lines[0], c.want) || strings.HasSuffix(lines[0], sum) != (c.columns != nil) ||
				strings.HasSuffix(lines[1], `"error":"lost","cumulative_logprob":null}`) != (c.columns != nil) {
				t.Errorf("%s", part)
			}
			continue
		}
		_, root, out := parsed(t, path)
		if names(root) != "prompt input_cumulative_logprob "+strings.Join(outputColumns(),
			" ")+" cumulative_logprob" ||
			strings.Join(column(root, out, "cumulative_logprob"), " ") != fmt.Sprintf("%v null", want) {
			t.Errorf("%s: %v", names(root), column(root, out, "cumulative_logprob"))
		}
	}
	_, err := NewWriter(nil, WriterOptions{Shape: completion.Shape{Requested: []string{"text"}},
		Parts: folder.Parts{PartRows: 1}})
	refusal := `a column of the output is "text", but must be one of cumulative_logprob, `
	if err == nil || !strings.HasPrefix(err.Error(), refusal) {
		t.Error(err)
	}
}

// A value that the row's other columns contradict is damage.
func TestDerivedColumns(t *testing.T) {
	line := func(value string) []byte {
		return []byte(`{"id":"0","generation":0,"text":"x","token_ids":[1,2],"logprobs":[-0.5,-0.25],` +
			`"finish_reason":"stop","prompt_tokens":1,"completion_tokens":2,"error":null,"cumulative_logprob":` +
			value + "}\n")
	}
	for value, want := range map[string]string{
		"-0.75": "",
		"-0.5":  "generation 0 of id \"0\" has the cumulative_logprob -0.5, and its other columns make it -0.75",
	} {
		check := NewRowCheck(0, 1, nil)
		b := line(value)
		_, err := jsonl.ReadPart(bytes.NewReader(b), int64(len(b)), 0, func(r *Completion) error {
			check.Add(r.ID, &r.Result)
			return nil
		})
		if got := check.Finish(); err != nil || got != want {
			t.Errorf("%s: %v, %q, want %q", value, err, got, want)
		}
	}
}
