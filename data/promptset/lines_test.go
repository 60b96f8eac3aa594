package promptset_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset"
)

// Rows come in any order: in order they are written as in the input, otherwise as they come, each once.
func TestLineWriterOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		n := rapid.IntRange(1, 20).Draw(t, "rows")
		for i := range n {
			fmt.Fprintf(&text, `{"prompt":"p","text":"mine","number":%d}`+"\n", i)
		}
		var rows []*promptset.Row
		lines := promptset.NewLines("stream", strings.NewReader(text.String()), promptset.Mapping{})
		for row := range lines.Rows(t.Context()) {
			rows = append(rows, row)
		}
		if err := lines.Err(); err != nil || len(rows) != n {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		order := rapid.Permutation(rows).Draw(t, "order")
		inOrder := rapid.Bool().Draw(t, "in order")
		var out bytes.Buffer
		w, err := promptset.NewLineWriter(&out, promptset.WriterOptions{Format: promptset.FormatJSONL}, inOrder)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range order {
			if err := w.Add(row, []promptset.Result{{Text: "drawn", FinishReason: "stop"}}); err != nil {
				t.Fatal(err)
			}
		}
		if waiting, size := w.Pending(); waiting != 0 || size != 0 || w.Rows() != int64(n) {
			t.Fatalf("%d rows of %d bytes wait, %d were written", waiting, size, w.Rows())
		}
		want := order
		if inOrder {
			want = rows
		}
		got := slices.Collect(strings.Lines(out.String()))
		if len(got) != n {
			t.Fatalf("%d lines of %d rows", len(got), n)
		}
		for i, row := range want {
			begin := fmt.Sprintf(`{"prompt":"p","input_text":"mine","number":%d,"id":"%[1]d"`, row.Index)
			if !strings.HasPrefix(got[i], begin) {
				t.Fatalf("line %d is %s, not %s", i, got[i], begin)
			}
		}
	})
}

// A stream that breaks off is an error, after the rows before; bad lines are errors of their rows.
func TestLinesOfBrokenStream(t *testing.T) {
	broken := errors.New("broken")
	from := io.MultiReader(strings.NewReader("\n{\"prompt\": 1}\n\n[]\n{\"prompt\": \"a\"}\n"), failing{broken})
	lines := promptset.NewLines("stream", from, promptset.Mapping{})
	var got []string
	for row := range lines.Rows(t.Context()) {
		got = append(got, fmt.Sprint(row.Line, " ", row.ID, " ", row.Err != nil))
	}
	if want := []string{"2 0 true", "4  true", "5 2 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := lines.Err(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "stream: cannot read it") {
		t.Error(err)
	}
}

// failing fails to be read.
type failing struct{ error }

func (e failing) Read([]byte) (int, error) { return 0, e.error }
