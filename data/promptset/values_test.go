package promptset

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func valuesOf(t *testing.T, name string, content []byte, names ...string) (all [][]any, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	out := OpenOutputFile(context.Background(), path)
	for values, err := range out.Values(t.Context(), out.Parts[0], names) {
		if err != nil {
			return all, err
		}
		all = append(all, append([]any{}, values...))
	}
	return all, nil
}

func TestValues(t *testing.T) {
	type row struct {
		ID         string   `parquet:"id"`
		Generation int32    `parquet:"generation"`
		OK         *bool    `parquet:"ok,optional"`
		Score      float32  `parquet:"score"`
		Tags       []string `parquet:"tags,list"`
	}
	yes := true
	var file bytes.Buffer
	if err := parquet.Write(&file, []row{{"a", 0, &yes, 1, nil}, {"a", 1, nil, 0.5, []string{"x", "y"}}}); err != nil {
		t.Fatal(err)
	}
	want := [][]any{{true, "a", int64(0), 1.0}, {nil, "a", int64(1), 0.5}}
	got, err := valuesOf(t, "a.parquet", file.Bytes(), "ok", "id", "generation", "score")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	lines := "{\"id\":\"a\",\"generation\":0,\"ok\":true,\"score\":1.0}\n\n" +
		"{\"generation\":1,\"score\":5e-1,\"id\":\"a\",\"ok\":null}"
	got, err = valuesOf(t, "a.jsonl", []byte(lines), "ok", "id", "generation", "score")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	for _, c := range []struct{ name, content, column, want string }{
		{"a.parquet", file.String(), "none", "it has no column none"},
		{"a.parquet", file.String(), "tags", "its column tags is"},
		{"a.parquet", "no parquet file", "id", "it does not end as a Parquet file does"},
		{"a.jsonl", lines, "none", "line 1: it has no key none"},
		{"a.jsonl", `{"a":[1]}`, "a", "line 1: a is a list"},
		{"a.jsonl", `{"a":1e999}`, "a", "a is 1e999, which is not a number that fits"},
	} {
		got, err := valuesOf(t, c.name, []byte(c.content), c.column)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s: %v %v, want %s", c.column, c.name, got, err, c.want)
		}
	}
}
