package review

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/promptset"
)

// output is a JSONL part with rows of the form id, generation, text; an empty text is an error.
func output(t *testing.T, rows ...[3]any) *promptset.Output {
	t.Helper()
	var b strings.Builder
	for _, r := range rows {
		text := r[2].(string)
		reason, wrong, tokens := "stop", "", len(strings.Fields(text))
		if text == "" {
			reason, wrong = "error", "it is bad"
		}
		ids := strings.Trim(strings.Repeat("7,", tokens), ",")
		fmt.Fprintf(&b, `{"id":%q,"prompt":"p","generation":%d,"text":%q,"token_ids":[%s],"logprobs":null,"finish_reason":%q,`+
			`"prompt_tokens":3,"completion_tokens":%d,"error":%q}`+"\n", r[0], r[1], text, ids, reason, tokens, wrong)
	}
	path := filepath.Join(t.TempDir(), "part-00000.jsonl")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(b.String(), `"error":""`, `"error":null`)), 0o666); err != nil {
		t.Fatal(err)
	}
	return promptset.OpenOutputFile(context.Background(), path)
}

func TestLongest(t *testing.T) {
	out := output(t, [3]any{"a", 0, "x y"}, [3]any{"b", 0, "x"}, [3]any{"b", 1, "x y z"}, [3]any{"c", 0, "x y z"},
		[3]any{"d", 0, "x y"}, [3]any{"e", 0, ""})
	rows, err := Longest(Rows(t.Context(), out), 3)
	var ids []string
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	if err != nil || !slices.Equal(ids, []string{"b", "c", "a"}) {
		t.Error(ids, err)
	}
}

// Rows with one id twice are told apart by their order, and completions that moved are the same.
func TestCompare(t *testing.T) {
	a := output(t, [3]any{"a", 0, "x"}, [3]any{"a", 0, "y"}, [3]any{"b", 0, "z"}, [3]any{"b", 1, "z2"},
		[3]any{"c", 0, ""})
	b := output(t, [3]any{"c", 0, ""}, [3]any{"a", 0, "x"}, [3]any{"b", 0, "z"}, [3]any{"a", 0, "Y"},
		[3]any{"d", 0, "new"})
	c, err := Compare(t.Context(), a, b, 0)
	if err != nil || c.Same != 3 || c.Different != 1 || c.OnlyA != 1 || c.OnlyB != 1 || len(c.Differences) != 3 {
		t.Fatalf("%+v %v", c, err)
	}
	if d := c.Differences[0]; d.ID != "a" || d.A.Text != "y" || d.B.Text != "Y" {
		t.Errorf("%+v", d)
	}
	if d := c.Differences[1]; d.ID != "b" || d.Generation != 1 || d.A.Text != "z2" || d.B != nil {
		t.Errorf("%+v", d)
	}
	if d := c.Differences[2]; d.ID != "d" || d.A != nil || d.B.Text != "new" {
		t.Errorf("%+v", d)
	}
	if few, err := Compare(t.Context(), a, b, 1); err != nil || len(few.Differences) != 1 || few.OnlyB != 1 {
		t.Errorf("%+v %v", few, err)
	}
}

func TestStatsOf(t *testing.T) {
	s, err := StatsOf(t.Context(), output(t, [3]any{"a", 0, "x y x"}, [3]any{"a", 1, "x y x"}, [3]any{"b", 0, "w"},
		[3]any{"c", 0, ""}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 3 || s.RowsWithErrors != 1 || s.Completions != 3 || s.RepeatedTexts != 1 || s.DistinctOf != 7 {
		t.Errorf("%+v", s)
	}
	if want := [3]float64{3. / 7, 2. / 4, 1. / 2}; s.Distinct != want {
		t.Errorf("distinct %v, want %v", s.Distinct, want)
	}
	l := s.CompletionLengths
	if l.Count != 3 || l.Least != 1 || l.Median != 3 || l.Most != 3 || len(l.Bins) != 3 || l.Bins[2].Count != 2 {
		t.Errorf("%+v", l)
	}
	if s.Logprobs != nil {
		t.Error("log-probabilities without any")
	}
}
