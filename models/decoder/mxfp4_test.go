package decoder_test

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/decoder"
)

// The experts of gpt-oss stay in the blocks of its safetensors. The plain form scores as with their floats; the kernels
// round what the experts read to 8 bits.
func TestExpertsInMXFP4(t *testing.T) {
	ckpt, err := models.Open(testenv.Path("models", "testdata", "gpt-oss-mxfp4"))
	if err != nil {
		t.Fatal(err)
	}
	defer ckpt.Close()
	var golden testenv.Golden
	testenv.ReadGolden(t, "gpt-oss", &golden)
	for name, c := range map[string]struct {
		backend compute.Backend
		most    float64 // root mean square of errors, by the spread of scores
	}{"kernels": {testenv.XLA(t), 0.05}, "plain": {testenv.XLAWithoutKernels(t), 1e-5}} {
		s := decoder.Storage{Backend: c.backend, DType: dtypes.Float32, Blocks: ckpt.Blocks}
		held := 0
		for _, a := range decoder.Arrays(ckpt.Config, s) {
			if f, ok := a.Matrix(); ok && f.Blocks == blocks.MXFP4 {
				held++
			}
		}
		if held != 2*ckpt.Config.NumLayers {
			t.Errorf("%s: %d arrays are in MXFP4, want two for each of %d layers", name, held, ckpt.Config.NumLayers)
		}
		score := scorerOf(t, ckpt, s)
		var wrong, all float64
		for _, prompt := range golden.Cases {
			got := score(prompt.Prompt)
			for i, want := range prompt.Logits {
				wrong += math.Pow(float64(got[i]-want), 2)
				all += math.Pow(float64(want), 2)
			}
		}
		if e := math.Sqrt(wrong / all); !(e <= c.most) {
			t.Errorf("%s: scores are wrong by %.2g of their spread, want at most %g", name, e, c.most)
		}
	}
}
