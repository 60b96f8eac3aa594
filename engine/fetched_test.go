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

// The real models that `sample setup` fetches generate the tokens of transformers: for prompts shorter and longer than
// Gemma's window of 512, by text and by ids, and for conversations by Qwen's chat template, with tools too.
func TestFetchedModelsGreedyEqualTransformers(t *testing.T) {
	testenv.Slow(t)
	for name, golden := range map[string]string{"gemma3": "gemma3-270m", "qwen": "qwen25-coder-05b"} {
		t.Run(name, func(t *testing.T) {
			path, err := setup.FindModel(name)
			if err != nil {
				t.Skip(err)
			}
			testGreedyTokens(t, path, golden)
		})
	}
}

func testGreedyTokens(t *testing.T, path, goldens string) {
	var golden struct {
		Cases []struct {
			Text   string  `json:"text"`
			Prompt []int32 `json:"prompt"`
			Tokens []int32 `json:"tokens"`
		}
	}
	testenv.ReadGolden(t, goldens, &golden)
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
