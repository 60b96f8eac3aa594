package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// SmolLM2's greedy tokens are transformers': 20 prompts of 1 to 600 tokens, 64 tokens each, in float32; on one device,
// and on several together, for which 9 heads and 3 KV heads do not divide.
func TestSmolLM2GreedyEqualsTransformers(t *testing.T) {
	testenv.Slow(t)
	for _, n := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprintf("%d devices", n), func(t *testing.T) {
			backend := testenv.XLA(t)
			if n > 1 {
				backend = testenv.Group(t, xla.KernelsAuto, firstDevices(n)...)
			}
			smolLM2GreedyEqualsTransformers(t, backend, 1<<30/int64(n))
		})
	}
}

func smolLM2GreedyEqualsTransformers(t *testing.T, backend compute.Backend, kvMemory int64) {
	var golden struct {
		Cases []struct {
			Prompt []int32 `json:"prompt"`
			Tokens []int32 `json:"tokens"`
		}
	}
	testenv.ReadGolden(t, "smollm2", &golden)
	e, err := engine.New(context.Background(), engine.Config{
		Model: testenv.SmolLM2(t), Backend: backend, DType: dtypes.Float32, MaxSeqs: 32, MaxModelLen: 1024,
		KVMemory: kvMemory,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	t.Log("\n" + e.Plan().String())
	var requests []*engine.Request
	for i, c := range golden.Cases {
		requests = append(requests, &engine.Request{ID: fmt.Sprint(i), Tokens: c.Prompt, N: 1, MaxTokens: len(c.Tokens),
			IgnoreEOS: true,
			Sampling:  sampling.Settings{TopP: 1}})
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
