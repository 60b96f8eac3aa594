package decoder_test

import (
	"testing"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// GGUF files whose layers keep states score as the folders that they are made of, but for the rounding of weights to
// float16. Heads of delta nets lie in another order there: without it scores are others.
func TestLogitsOfGGUF(t *testing.T) {
	for _, name := range []string{"lfm2", "qwen3-next", "qwen35", "qwen35-moe"} {
		t.Run(name, func(t *testing.T) {
			ckpt, err := models.Open(testenv.Path("models", "testdata", name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer ckpt.Close()
			var golden testenv.Golden
			testenv.ReadGolden(t, name, &golden)
			worst := func() (off float64) {
				score := scorer(t, testenv.XLA(t), ckpt)
				for _, c := range golden.Cases {
					off = max(off, offBy(score(c.Prompt), c.Logits))
				}
				return off
			}
			if off := worst(); !(off < 0.03) {
				t.Errorf("scores are off by %.2g of their size", off)
			} else {
				t.Logf("scores are off by %.2g of their size", off)
			}
			tiled := false
			for i := range ckpt.Config.Layers {
				net := &ckpt.Config.Layers[i].Delta
				tiled, net.Tiled = tiled || net.Tiled, false
			}
			if tiled {
				if off := worst(); !(off > 0.1) {
					t.Errorf("with heads in another order scores are off by %.2g only", off)
				}
			}
		})
	}
}
