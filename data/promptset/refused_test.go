package promptset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// A parameter of other engines that is not supported makes its row an error where it is given, and nothing where it is
// null.
func TestParametersNotSupportedAreRefused(t *testing.T) {
	check := func(t *testing.T, r *Reader) {
		t.Helper()
		got := rows(t, r)
		if len(got) != 3 || got[0].Err != nil || got[2].Err != nil {
			t.Fatalf("got %d rows, errors %v and %v", len(got), got[0].Err, got[2].Err)
		}
		if err := got[1].Err; err == nil ||
			!strings.Contains(err.Error(), "parameter length_penalty is not supported") {
			t.Errorf("got error %v", err)
		}
	}
	t.Run("jsonl", func(t *testing.T) {
		check(t, open(t, write(t, "p.jsonl", `{"prompt": "a"}
{"prompt": "b", "length_penalty": 1.1, "mine": 1}
{"prompt": "c", "length_penalty": null, "mine": 2}
`)))
	})
	t.Run("parquet", func(t *testing.T) {
		type row struct {
			Prompt  string   `parquet:"prompt"`
			Penalty *float64 `parquet:"length_penalty,optional"`
		}
		penalty := 1.1
		path := filepath.Join(t.TempDir(), "p.parquet")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := parquet.Write(f, []row{{"a", nil}, {"b", &penalty}, {"c", nil}}); err != nil {
			t.Fatal(err)
		}
		check(t, open(t, path))
	})
}

// Others name a row by the line of its file as the reader does.
func TestRowsAreNamedByLine(t *testing.T) {
	got := rows(t, open(t, write(t, "p.jsonl", "{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\"}\n")))
	if err := got[1].Error("odd"); !strings.HasSuffix(err.Error(), "p.jsonl line 3: odd") {
		t.Errorf("got %q", err)
	}
}
