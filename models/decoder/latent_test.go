package decoder_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// The matrices of heads are cut out of kv_b_proj, the keys' transposed, and are floats regardless of how the
// checkpoint or other matrices are stored.
func TestMatricesOfLatents(t *testing.T) {
	for name, quantization := range map[string]any{"floats": nil,
		"fp8": map[string]any{"quant_method": "fp8", "weight_block_size": []int{128, 128}}} {
		t.Run(name, func(t *testing.T) {
			const heads, key, value, rank = 4, 72, 40, 128
			ckpt := models.Dummy(configWith(t, "deepseek-v3", map[string]any{"kv_lora_rank": rank,
				"qk_nope_head_dim": key, "v_head_dim": value, "hidden_size": 256, "quantization_config": quantization}),
				1)
			const tensor = "model.layers.2.self_attn.kv_b_proj.weight"
			if ckpt.Blocks(tensor).Is() != (quantization != nil) {
				t.Fatalf("%s is stored as %s", tensor, ckpt.Encoding(tensor))
			}
			read, err := ckpt.Read(tensor, dtypes.Float32)
			if err != nil {
				t.Fatal(err)
			}
			all := read.([]float32)
			var keys, values []float32 // [heads, rank, key] and [heads, value, rank]
			for head := range heads {
				rows := all[head*(key+value)*rank:]
				for i := range rank {
					for k := range key {
						keys = append(keys, rows[k*rank+i])
					}
				}
				values = append(values, rows[key*rank:][:value*rank]...)
			}
			found, backend := 0, testenv.Go(t)
			for _, a := range decoder.Arrays(ckpt.Config, decoder.Storage{Backend: backend, DType: dtypes.Float32,
				Int8: true, Blocks: ckpt.Blocks}) {
				if !strings.HasPrefix(a.Name, "layers.2.latent_up.") {
					continue
				}
				want := map[string][]float32{"layers.2.latent_up.keys.weight": keys,
					"layers.2.latent_up.values.weight": values}[a.Name]
				buffer, err := a.Load(backend, 0, ckpt)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]float32, a.Shape.Size())
				if err := buffer.ToFlatData(got); err != nil {
					t.Fatal(err)
				}
				if found++; !slices.Equal(got, want) {
					t.Errorf("%s of shape %s has other numbers than the tensor", a.Name, a.Shape)
				}
			}
			if found != 2 {
				t.Errorf("there are %d arrays", found)
			}
		})
	}
}

// configWith is a family's config with other values.
func configWith(t *testing.T, family string, change map[string]any) models.Config {
	t.Helper()
	text, err := os.ReadFile(testenv.Path("testdata", "models", family, "config.json"))
	config := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	for key, value := range change {
		if config[key] = value; value == nil {
			delete(config, key)
		}
	}
	if err == nil {
		text, err = json.Marshal(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := models.ParseConfig(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
