package promptset_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset"
)

// FirstText finds the row that reading them all finds, in files of both formats, for any statistics of their writers.
func TestFirstText(t *testing.T) {
	type message struct {
		Role    string `parquet:"role" json:"role"`
		Content string `parquet:"content" json:"content"`
	}
	type row struct {
		Prompt   *string   `parquet:"prompt,optional" json:"prompt"`
		Messages []message `parquet:"messages,list,optional" json:"messages"`
		Tokens   []int32   `parquet:"prompt_token_ids,list,optional" json:"prompt_token_ids"`
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var paths []string
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			var rows []row
			for range rapid.IntRange(1, 12).Draw(t, "rows") {
				var r row
				if rapid.IntRange(0, 5).Draw(t, "tokens") > 0 {
					r.Tokens = []int32{1}
				}
				if rapid.IntRange(0, 12).Draw(t, "prompt") == 0 { // with tokens too, it is a bad row
					text := "text"
					r.Prompt = &text
				}
				if rapid.IntRange(0, 12).Draw(t, "messages") == 0 {
					r.Messages = []message{{"user", "text"}}
				}
				rows = append(rows, r)
			}
			name := filepath.Join(dir, string(rune('a'+i)))
			if rapid.Bool().Draw(t, "parquet") {
				name += ".parquet"
				if err := parquet.WriteFile(name, rows, parquet.MaxRowsPerRowGroup(3)); err != nil {
					t.Fatal(err)
				}
			} else {
				name += ".jsonl"
				var text strings.Builder
				for _, r := range rows {
					if err := json.NewEncoder(&text).Encode(r); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			paths = append(paths, name)
		}
		r, err := promptset.Open(t.Context(), paths)
		if err != nil {
			t.Fatal(err)
		}
		limit := rapid.Int64Range(0, r.NumRows()).Draw(t, "limit")
		want := int64(-1)
		for row := range r.Range(t.Context(), 0, limit) {
			if row.Kind == promptset.KindText || row.Kind == promptset.KindMessages {
				want = row.Index
				break
			}
		}
		got, err := r.FirstText(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (want < 0) || got != nil && got.Index != want {
			t.Errorf("%v, want row %d", got, want)
		}
	})
}
