package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/sampling"
)

// SmolLM2's greedy tokens are transformers': 20 prompts of 1 to 600 tokens, 64 tokens each, in float32.
func TestSmolLM2GreedyEqualsTransformers(t *testing.T) {
	testenv.Slow(t)
	var golden struct {
		Cases []struct {
			Prompt []int32 `json:"prompt"`
			Tokens []int32 `json:"tokens"`
		}
	}
	testenv.ReadGolden(t, "smollm2", &golden)
	e, err := engine.New(context.Background(), engine.Config{
		Model: testenv.SmolLM2(t), Backend: testenv.XLA(t), MaxSeqs: 32, MaxModelLen: 1024, KVMemory: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	t.Log("\n" + e.Plan().String())
	var requests []*engine.Request
	for i, c := range golden.Cases {
		requests = append(requests, &engine.Request{ID: fmt.Sprint(i), Tokens: c.Prompt, N: 1, MaxTokens: len(c.Tokens), IgnoreEOS: true,
			Sampling: sampling.Settings{TopP: 1}})
	}
	got := collect(t, e, requests...)
	for i, c := range golden.Cases {
		d := got[fmt.Sprintf("%d/0", i)]
		if d == nil || d.Err != nil || !slices.Equal(d.Tokens, c.Tokens) {
			t.Errorf("prompt %d of %d tokens: got %+v, want %v", i, len(c.Prompt), d, c.Tokens)
		}
	}
	t.Logf("%+v", e.Stats())
}
