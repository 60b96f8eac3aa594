package promptset

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/parquet-go/parquet-go"
)

// arrowOf writes a record of JSON as an Arrow file.
func arrowOf(t *testing.T, name, rows string, fields ...arrow.Field) string {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := ipc.NewFileWriter(&b, ipc.WithSchema(schema))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(record); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, name, b.String())
}

// Data frames hold integers with nulls as floats: ids of such columns equal JSONL's.
func TestFloatIDs(t *testing.T) {
	type row struct {
		ID     *float64 `parquet:"id,optional"`
		Parent *float32 `parquet:"parent,optional"`
		Prompt string   `parquet:"prompt"`
	}
	number := func(f float64) *float64 { return &f }
	one := float32(1)
	path := filepath.Join(t.TempDir(), "frame.parquet")
	if err := parquet.WriteFile(path, []row{{number(1), nil, "a"}, {number(1e15), &one, "b"}, {nil, nil, "c"},
		{number(math.NaN()), nil, "d"}, {number(1.5), nil, "e"}, {number(1 << 53), nil, "f"}}); err != nil {
		t.Fatal(err)
	}
	lines := write(t, "same.jsonl", `{"id":1.0,"prompt":"a"}
{"id":1e15,"parent":1.0,"prompt":"b"}
{"id":null,"prompt":"c"}
{"prompt":"d"}
{"id":1.5,"prompt":"e"}
{"id":1e17,"prompt":"f"}
`)
	for _, path := range []string{path, lines} {
		var got []string
		for _, r := range rows(t, open(t, path)) {
			got = append(got, fmt.Sprint(r.ID, "/", r.Parent.ID, " ", r.HasID(), " ", r.Err == nil))
		}
		want(t, path, strings.Join(got[:4], ", "), "1/ true true, 1000000000000000/1 true true, 2/ false true, "+
			"3/ false true")
		for _, row := range got[4:] {
			want(t, path+" error", strings.HasSuffix(row, "false"), true)
		}
	}
	err := rows(t, open(t, path))[4].Err
	want(t, "error", strings.Contains(fmt.Sprint(err), "row 4: id is 1.5, which is not a whole number"), true)
	// The files of a job may differ in how they hold ids.
	both := rows(t, open(t, path, write(t, "ids.jsonl", `{"id":1,"prompt":"a"}`)))
	want(t, "of the second", both[6].ID, "1")
}

// A column of nulls is one that no row has.
func TestNullColumns(t *testing.T) {
	null := func(name string) arrow.Field { return arrow.Field{Name: name, Type: arrow.Null, Nullable: true} }
	nulls := func(name string) arrow.Field {
		return arrow.Field{Name: name, Type: arrow.ListOf(arrow.Null), Nullable: true}
	}
	words := arrow.Field{Name: "prompt", Type: arrow.BinaryTypes.String, Nullable: true}
	for i, c := range []struct {
		rows    string
		fields  []arrow.Field
		mapping Mapping
		want    string
	}{
		{`[{}, {}]`, []arrow.Field{null("prompt")}, Mapping{}, "no prompt; give one of prompt, messages"},
		{`[{}]`, []arrow.Field{null("messages"), null("id")}, Mapping{}, "no prompt; give one of prompt, messages"},
		{`[{}]`, []arrow.Field{null("q")}, Mapping{PromptColumn: "q"}, "no prompt; give one of q"},
		{`[{"prompt_token_ids": []}]`, []arrow.Field{nulls("prompt_token_ids")}, Mapping{},
			"prompt_token_ids is empty"},
		{`[{"messages": []}]`, []arrow.Field{nulls("messages")}, Mapping{}, "messages is empty"},
		{`[{"messages": [null]}]`, []arrow.Field{nulls("messages")}, Mapping{}, "messages[0]"},
		{`[{"prompt": "a", "stop": []}]`, []arrow.Field{words, null("id"), null("parent"), nulls("stop"), null("n"),
			null("temperature"), null("messages"), null("note"), null("tools")}, Mapping{}, "<nil>"},
		{`[{"prompt": "a"}]`, []arrow.Field{words, null("tools"), nulls("bad_words")}, Mapping{}, "<nil>"},
	} {
		path := arrowOf(t, fmt.Sprintf("%d.arrow", i), c.rows, c.fields...)
		r, err := OpenMapped(context.Background(), LocalFiles, []string{path}, c.mapping)
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		for _, row := range rows(t, r) {
			if !strings.Contains(fmt.Sprint(row.Err), c.want) {
				t.Errorf("%d: %v, want %s", i, row.Err, c.want)
			}
		}
	}
}

// Files with encrypted columns are refused by name, though their footers can be read.
func TestSignedFooter(t *testing.T) {
	var b bytes.Buffer
	w := parquet.NewGenericWriter[struct {
		Prompt string `parquet:"prompt"`
	}](&b, parquet.WithEncryption(&parquet.EncryptionConfig{FooterKey: []byte("0123456789abcdef"),
		FileIdentifier: []byte("12345678")}))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(context.Background(), []string{write(t, "signed.parquet", b.String())})
	want(t, "error", strings.HasSuffix(fmt.Sprint(err), "it is encrypted: write it without encryption"), true)
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Zeros after gzip streams, and between them, are not text.
func TestPaddedGzip(t *testing.T) {
	gz := gzipped(t, "{\"prompt\":\"a\"}\n")
	zeros := strings.Repeat("\x00", 100_000)
	for name, text := range map[string]string{"none": gz + gz, "after": gz + gz + zeros[:100],
		"between": gz + zeros + gz + zeros, "odd": gz + gz + "\x00"} {
		r := open(t, write(t, name+".jsonl.gz", text))
		want(t, name, len(rows(t, r)), 2)
	}
	for name, text := range map[string]string{"garbage": gz + "\x00\x00garbage and more", "zeros": zeros,
		"cut": gz + zeros + gz[:20]} {
		_, err := Open(context.Background(), []string{write(t, name+".jsonl.gz", text)})
		if err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
