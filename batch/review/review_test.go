package review

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/promptset"
)

// output is a JSONL part with rows of the form id, generation, text; an empty text is an error.
func output(t *testing.T, rows ...[3]any) *Output {
	t.Helper()
	out, err := writeRows(t.TempDir(), rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeRows(folder string, rows [][3]any) (*Output, error) {
	var b strings.Builder
	for _, r := range rows {
		text := r[2].(string)
		reason, wrong, tokens := "stop", "", len(strings.Fields(text))
		if text == "" {
			reason, wrong = "error", "it is bad"
		}
		ids := strings.Trim(strings.Repeat("7,", tokens), ",")
		fmt.Fprintf(&b, `{"id":%q,"prompt":"p","generation":%d,"text":%q,"token_ids":[%s],"logprobs":null,`+
			`"finish_reason":%q,`+
			`"prompt_tokens":3,"completion_tokens":%d,"error":%q}`+"\n", r[0], r[1], text, ids, reason, tokens, wrong)
	}
	path := filepath.Join(folder, "part-00000.jsonl")
	err := os.WriteFile(path, []byte(strings.ReplaceAll(b.String(), `"error":""`, `"error":null`)), 0o666)
	return &Output{Output: promptset.OpenOutputFile(context.Background(), path)}, err
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

func TestFactsOf(t *testing.T) {
	var parameters map[string]json.RawMessage
	err := json.Unmarshal([]byte(`{"seed":18446744073709551615,`+
		`"stop":["\n",", "],"top_k":null,"model":"m.gguf","greedy":false,"logit_bias":{"5":-1.5},"stop_token_ids":[]}`), &parameters)
	if err != nil {
		t.Fatal(err)
	}
	facts := factsOf(map[string]string{"quire.model": "m"}, parameters)
	want := [][2]string{{"model", "m"}, {"greedy", "no"}, {"logit bias", "5 -1.5"}, {"model", "m.gguf"},
		{"seed", "18446744073709551615"}, {"stop", `"\n", ", "`}}
	if !slices.Equal(facts, want) {
		t.Errorf("%q", facts)
	}
}
