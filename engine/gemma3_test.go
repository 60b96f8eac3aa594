package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/text/tokenizer"
)

// TestGemma3GreedyEqualsTransformers draws the tokens of transformers from the file that `sample setup gemma3` fetches,
// for prompts shorter and longer than its window of 512, by text and by ids.
func TestGemma3GreedyEqualsTransformers(t *testing.T) {
	testenv.Slow(t)
	path, err := setup.FindModel("gemma3")
	if err != nil {
		t.Skip(err)
	}
	var golden struct {
		Cases []struct {
			Text   string  `json:"text"`
			Prompt []int32 `json:"prompt"`
			Tokens []int32 `json:"tokens"`
		}
	}
	testenv.ReadGolden(t, "gemma3-270m", &golden)
	tok, err := tokenizer.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	model, err := models.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	e, err := engine.New(t.Context(), engine.Config{Model: model, Backend: testenv.XLA(t),
		DType: dtypes.Float32, MaxSeqs: 32, MaxModelLen: 1024, KVMemory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var requests []*engine.Request
	for i, c := range golden.Cases {
		if c.Text != "" {
			ids, err := tok.Encode(c.Text, true)
			if err != nil || !slices.Equal(ids, c.Prompt) {
				t.Errorf("%q: ids %v, %v; want %v", c.Text, ids, err, c.Prompt)
			}
		}
		requests = append(requests, &engine.Request{ID: fmt.Sprint(i), Tokens: c.Prompt, N: 1, MaxTokens: len(c.Tokens),
			IgnoreEOS: true, Sampling: sampling.Settings{TopP: 1}})
	}
	got := collect(t, e, requests...)
	for i, c := range golden.Cases {
		d := got[fmt.Sprintf("%d/0", i)]
		if d == nil || d.Err != nil || !slices.Equal(d.Tokens, c.Tokens) {
			t.Errorf("prompt %d of %d tokens: got %+v, want %v", i, len(c.Prompt), d, c.Tokens)
		}
	}
}
