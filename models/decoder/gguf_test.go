package decoder_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
)

// GGUF files of layers with states or routers score as the folders that they are made of, but for the rounding of
// weights to float16. Heads of delta nets lie in another order there: without it scores are others.
func TestLogitsOfGGUF(t *testing.T) {
	for _, name := range []string{"glm4-moe", "lfm2", "deepseek-v2", "qwen3-next", "qwen35", "qwen35-moe"} {
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

// GGUF files score as llama.cpp computes them: what scripts/oracle/llama_gguf.py writes down. Some differ from the
// checkpoints that they are made of, where the format has no key for what those say.
func TestLogitsOfLlamaCpp(t *testing.T) {
	text, err := os.ReadFile(testenv.Path("models", "testdata", "llama-scores.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Prompt   []int32
		Logprobs map[string][]float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	for name, want := range golden.Logprobs {
		t.Run(name, func(t *testing.T) {
			ckpt, err := models.Open(testenv.Path("models", "testdata", name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer ckpt.Close()
			score, worst := scorer(t, testenv.XLA(t), ckpt), 0.0
			for i := 0; i < len(want); i += 7 {
				logits := score(golden.Prompt[:i+1])
				sum := 0.0
				for _, x := range logits {
					sum += math.Exp(float64(x))
				}
				got := float64(logits[golden.Prompt[i+1]]) - math.Log(sum)
				worst = max(worst, math.Abs(got-want[i]))
			}
			if !(worst < 1e-4) {
				t.Errorf("log-probabilities are off by up to %g", worst)
			}
			t.Logf("log-probabilities are off by up to %g", worst)
		})
	}
}
