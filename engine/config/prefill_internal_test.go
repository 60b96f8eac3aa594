package config

import (
	"errors"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// kindOnly is a backend of which only its devices are known.
type kindOnly struct {
	compute.Backend
	platform, kind string
	partitions     int
}

func (k kindOnly) Description() string         { return k.kind }
func (k kindOnly) Traits() backend.Traits      { return backend.For(k.platform) }
func (k kindOnly) Partitions() int             { return k.partitions }
func (k kindOnly) Places() []int               { return make([]int, k.partitions) }
func (k kindOnly) DeviceKind() (string, error) { return k.kind, nil }

func (k kindOnly) Member(int) (compute.Backend, error)           { return nil, errors.ErrUnsupported }
func (k kindOnly) Join([]compute.Buffer) (compute.Buffer, error) { return nil, errors.ErrUnsupported }

// A prompt step has twice as many tokens as make it wait for its arithmetic, within what its arrays may take.
func TestDefaultPrefillTokens(t *testing.T) {
	for _, c := range []struct {
		model, platform, kind string
		devices, bytes        int // of a weight
		want                  int
	}{
		{"llama-3.1-8b", "cpu", "cpu", 1, 2, 128},
		{"llama-3.1-8b", "tpu", "TPU v5 lite", 1, 2, 512}, // twice 197e12 / 819e9 = 241
		{"llama-3.1-8b", "tpu", "TPU v5 lite", 1, 1, 256}, // half of it
		{"llama-3.1-8b", "tpu", "TPU v5 lite", 1, 4, 512},
		{"llama-3.1-8b", "tpu", "TPU v6 lite", 1, 2, 1024}, // the most, of 560
		{"llama-3.1-8b", "tpu", "TPU v6 lite", 16, 2, 1024},
		{"llama-3.1-8b", "tpu", "TPU v6 lite", 32, 2, 512}, // 1,024 tokens would take 72 MB
		{"llama-3.1-70b", "tpu", "TPU v5", 4, 2, 512},      // 166
		{"qwen3-8b", "tpu", "TPU of the future", 1, 2, 512},
		{"qwen3-8b", "cuda", "NVIDIA H100 80GB HBM3", 1, 2, 1024}, // 295
		{"qwen3-8b", "cuda", "NVIDIA H200", 1, 2, 512},            // 206
		{"qwen3-30b-a3b", "tpu", "TPU v6 lite", 4, 2, 1024},       // experts in tiles
		{"qwen3-30b-a3b", "tpu", "TPU v6 lite", 64, 1, 128},       // 256 rows of all experts would take 270 MB
	} {
		model, err := models.OpenConfig(testenv.Path("configs", "models", c.model+".json"))
		if err != nil {
			t.Fatal(err)
		}
		parameters := model.NumParameters()
		cfg := Config{Model: model, Backend: kindOnly{platform: c.platform, kind: c.kind}}
		got := cfg.defaultPrefillTokens(parameters*int64(c.bytes)/int64(c.devices), parameters, c.devices)
		if got != c.want {
			t.Errorf("%s on %d %s, %d bytes a weight: %d tokens, want %d", c.model, c.devices, c.kind, c.bytes, got,
				c.want)
		}
		_ = model.Close()
	}
}
