package promptset

import (
	"reflect"
	"testing"
)

// The demo's prompt set is the same in the form that people edit and the form that the demo reads.
func TestDemoPrompts(t *testing.T) {
	parquet := rows(t, open(t, "../../testdata/prompts/demo.parquet"))
	jsonl := rows(t, open(t, "../../testdata/prompts/demo.jsonl"))
	if len(parquet) < 60 || len(parquet) != len(jsonl) {
		t.Fatalf("%d and %d prompts, want 60 or more of both; run go run ./scripts/prompts", len(parquet), len(jsonl))
	}
	for i, p := range parquet {
		j := jsonl[i]
		if p.Err != nil || p.ID != j.ID || !reflect.DeepEqual(p.Messages, j.Messages) ||
			!reflect.DeepEqual(p.Overrides, j.Overrides) {
			t.Errorf("row %d differs (%v); run go run ./scripts/prompts", i, p.Err)
		}
	}
}
