package decoder_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// blockModel has rows of whole blocks, also where two devices share them.
func blockModel(t *testing.T) *models.Checkpoint {
	cfg := testenv.Model(t, "llama3").Config
	cfg.HiddenSize, cfg.IntermediateSize, cfg.NumHeads, cfg.NumKVHeads, cfg.HeadDim = 512, 512, 4, 2, 128
	return models.Dummy(cfg, 1)
}

// mixtureModel is one of experts of whole blocks.
func mixtureModel(t *testing.T) *models.Checkpoint {
	cfg := testenv.Model(t, "mixtral").Config
	cfg.HiddenSize, cfg.NumHeads, cfg.NumKVHeads, cfg.HeadDim = 256, 4, 2, 64
	cfg.Layers = slices.Clone(cfg.Layers)
	for i := range cfg.Layers {
		cfg.Layers[i].Experts.Size = 512
	}
	return models.Dummy(cfg, 1)
}

// Matrices in blocks score alike on one device and on two, with kernels and without, and to the bit in a loop over the
// layers.
func TestLogitsOfBlocks(t *testing.T) {
	for name, ckpt := range map[string]*models.Checkpoint{"layers": blockModel(t), "experts": mixtureModel(t)} {
		t.Run(name, func(t *testing.T) { logitsOfBlocks(t, ckpt) })
	}
}

func logitsOfBlocks(t *testing.T, ckpt *models.Checkpoint) {
	prompt := []int32{1, 5, 9, 2, 6}
	storage := func(b compute.Backend) decoder.Storage {
		return decoder.Storage{Backend: b, DType: dtypes.Float32, Blocks: func(name string) blocks.Format {
			if name == "model.layers.0.self_attn.v_proj.weight" || name == "model.layers.1.self_attn.v_proj.weight" {
				return blocks.Q4_0 // so that q, k and v are an array in parts
			}
			return blocks.Q8_0
		}}
	}
	want := scorerOf(t, ckpt, storage(testenv.XLA(t)))(prompt)
	loop := storage(testenv.XLA(t))
	loop.LayerLoop = true
	if got := scorerOf(t, ckpt, loop)(prompt); ckpt.Config.NumLayers == 2 && !slices.Equal(got, want) {
		t.Error("in a loop over the layers the scores are others")
	}
	for name, b := range map[string]compute.Backend{"without kernels": testenv.XLAWithoutKernels(t),
		"two devices": testenv.Group(t, xla.KernelsAuto, 0, 1)} {
		got := scorerOf(t, ckpt, storage(b))(prompt)
		var wrong, all float64
		for i := range want {
			wrong += math.Pow(float64(got[i]-want[i]), 2)
			all += math.Pow(float64(want[i]), 2)
		}
		if off := math.Sqrt(wrong / all); !(off < 0.03) {
			t.Errorf("%s: scores are off by %.4f of their size", name, off)
		}
	}
}

// Matrices whose rows are not whole blocks are held as floats, and so are those whose formats differ in a loop over the
// layers.
func TestFormsOfMatrices(t *testing.T) {
	ckpt := blockModel(t)
	forms := func(s decoder.Storage, change func(c *models.Config)) map[string]string {
		cfg := ckpt.Config
		change(&cfg)
		got := map[string]string{}
		for _, a := range decoder.Arrays(cfg, s) {
			if f, ok := a.Matrix(); ok {
				got[a.Name] = f.Form()
			}
		}
		return got
	}
	s := decoder.Storage{Backend: testenv.XLA(t), DType: dtypes.BFloat16, Blocks: func(name string) blocks.Format {
		if name == "model.layers.1.mlp.down_proj.weight" {
			return blocks.Q6_K
		}
		return blocks.Q4_K
	}}
	got := forms(s, func(c *models.Config) {})
	if got["layers.0.down.weight"] != "Q4_K" || got["layers.1.down.weight"] != "Q6_K" {
		t.Errorf("as stored the forms are %v", got)
	}
	got = forms(s, func(c *models.Config) { c.IntermediateSize = 288 })
	if got["layers.0.down.weight"] != "BFloat16" || got["layers.0.gate_up.weight"] != "Q4_K" {
		t.Errorf("with rows of 288 the forms are %v", got)
	}
	s.LayerLoop = true
	got = forms(s, func(c *models.Config) {})
	if got["layers.0.down.weight"] != "BFloat16" || got["layers.0.gate_up.weight"] != "Q4_K" {
		t.Errorf("in a loop the forms are %v", got)
	}
}

// Experts of a layer are in blocks if all of them have the same format, and gates have the ups' format.
func TestFormsOfExperts(t *testing.T) {
	cfg := mixtureModel(t).Config
	forms := func(of func(tensor string) blocks.Format) map[string]string {
		got := map[string]string{}
		for _, a := range decoder.Arrays(cfg, decoder.Storage{Backend: testenv.XLA(t), DType: dtypes.BFloat16,
			Blocks: of}) {
			if f, ok := a.Matrix(); ok {
				got[a.Name] = f.Form()
			}
		}
		return got
	}
	got := forms(func(tensor string) blocks.Format {
		switch {
		case strings.Contains(tensor, ".w2."):
			return blocks.Q6_K
		case strings.Contains(tensor, "layers.1.") && strings.Contains(tensor, ".w3."):
			return blocks.Q8_0
		}
		return blocks.Q4_K
	})
	for name, want := range map[string]string{"layers.0.experts.gate_up.weight": "Q4_K",
		"layers.0.experts.down.weight": "Q6_K", "layers.1.experts.gate_up.weight": "BFloat16",
		"layers.1.experts.down.weight": "Q6_K", "layers.0.router.weight": "BFloat16"} {
		if got[name] != want {
			t.Errorf("%s is held in %s, want %s", name, got[name], want)
		}
	}
}
