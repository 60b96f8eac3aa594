package promptset

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var writePage = flag.Bool("write", false, "write docs/columns.md anew")

const columnsIntroduction = `# Columns of the output

This page is made from the table in package promptset, by "go test ./promptset -run TestColumnsPage -write".

A row of the output is one completion. It has the columns of the input row first, then these. An input column of one of
these names is kept as input_NAME, but for id. In JSONL files the columns are keys of the same names; numbers that JSON
does not have (infinities) are null there.

| column | Parquet type | meaning |
| --- | --- | --- |
`

func columnsPage() string {
	var b strings.Builder
	b.WriteString(columnsIntroduction)
	row := func(c *Column) { fmt.Fprintf(&b, "| `%s` | %s | %s |\n", c.Name, c.Type(), c.Doc) }
	for _, c := range written(nil) {
		row(c)
	}
	var more []*Column
	for c := range Columns() {
		if c.OnRequest {
			more = append(more, c)
		}
	}
	if len(more) > 0 {
		b.WriteString("\nThese are there with `--columns NAME`, in this order, after the others:\n\n")
		b.WriteString("| column | Parquet type | meaning |\n| --- | --- | --- |\n")
		for _, c := range more {
			row(c)
		}
	}
	return b.String()
}

// The page of the documentation is the table.
func TestColumnsPage(t *testing.T) {
	path := filepath.Join("..", "docs", "columns.md")
	if *writePage {
		if err := os.WriteFile(path, []byte(columnsPage()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != columnsPage() {
		t.Errorf("%s is not the table (%v); write it anew: go test ./promptset -run TestColumnsPage -write", path, err)
	}
}
