package config_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// A token of Qwen3-8B in bfloat16 takes 2 * 8 KV heads * 128 numbers * 36 layers * 2 bytes = 144 KiB, so 14 GiB hold
// about 100,000 tokens, in pages of 16 unless the config gives another size.
func TestBytesOfTokens(t *testing.T) {
	model, err := models.OpenConfig(testenv.Path("configs", "models", "qwen3-8b.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	if got := config.KVBytesPerToken(model.Config, dtypes.BFloat16); got != 144<<10 {
		t.Errorf("a token takes %d bytes, want 144 KiB", got)
	}
	plan, err := config.Config{Model: model, Backend: testenv.Go(t), DType: dtypes.BFloat16,
		KVMemory: 14 << 30}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if plan.PageSize != 16 {
		t.Errorf("a page has %d tokens, want 16", plan.PageSize)
	}
	if tokens := plan.Pages * plan.PageSize; plan.KVBytesPerToken != 144<<10 || tokens != 101_936 {
		t.Errorf("%d bytes a token, and 14 GiB hold %d tokens, want 144 KiB and 101,936", plan.KVBytesPerToken, tokens)
	}
}
