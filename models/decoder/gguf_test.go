package decoder_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
)

// scoresOfFiles are a prompt, and for each GGUF file of models/testdata the log-probabilities of its tokens, except
// the first, given the tokens before.
type scoresOfFiles struct {
	Prompt   []int32
	Logprobs map[string][]float64
}

func readScores(t *testing.T, name string) (s scoresOfFiles) {
	t.Helper()
	text, err := os.ReadFile(testenv.Path("models", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func openGGUF(t *testing.T, name string) *models.Checkpoint {
	t.Helper()
	ckpt, err := models.Open(testenv.Path("models", "testdata", name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ckpt.Close() })
	return ckpt
}

// offBy returns how much log-probabilities of ckpt differ from a file's, for every seventh token.
func (s scoresOfFiles) offBy(t *testing.T, name string, ckpt *models.Checkpoint) float64 {
	t.Helper()
	score, worst := scorer(t, testenv.XLA(t), ckpt), 0.0
	for i, want := range s.Logprobs[name] {
		if i%7 != 0 {
			continue
		}
		logits := score(s.Prompt[:i+1])
		sum := 0.0
		for _, x := range logits {
			sum += math.Exp(float64(x))
		}
		worst = max(worst, math.Abs(float64(logits[s.Prompt[i+1]])-math.Log(sum)-want))
	}
	return worst
}

// GGUF files of layers with states or routers score as transformers does with the weights that they hold: the
// checkpoints that they were made from, rounded to float16 if the file has them so. scripts/oracle/rounded_goldens.py
// writes the scores. Heads of delta nets are in a different order in some files: without it scores differ.
func TestLogitsOfGGUF(t *testing.T) {
	scores := readScores(t, "rounded-scores.json")
	for name := range scores.Logprobs {
		t.Run(name, func(t *testing.T) {
			ckpt := openGGUF(t, name)
			off := scores.offBy(t, name, ckpt)
			if !(off < 1e-4) {
				t.Errorf("log-probabilities are off by up to %.2g", off)
			}
			t.Logf("log-probabilities are off by up to %.2g", off)
			tiled := false
			for i := range ckpt.Config.Layers {
				net := &ckpt.Config.Layers[i].Delta
				tiled, net.Tiled = tiled || net.Tiled, false
			}
			if tiled {
				if off := scores.offBy(t, name, ckpt); !(off > 0.1) {
					t.Errorf("with heads in another order log-probabilities are off by %.2g only", off)
				}
			}
		})
	}
}

// GGUF files score as llama.cpp computes them: scripts/oracle/llama_gguf.py writes the scores. Some differ from the
// checkpoints that they were made from, if the format has no key for a value.
func TestLogitsOfLlamaCpp(t *testing.T) {
	scores := readScores(t, "llama-scores.json")
	for name := range scores.Logprobs {
		t.Run(name, func(t *testing.T) {
			ckpt, most := openGGUF(t, name), 1e-4
			if ckpt.Config.Layers[0].Activation == arch.GELUTanh { // llama.cpp has a table of it in float16
				most = 2e-3
			}
			off := scores.offBy(t, name, ckpt)
			if !(off < most) {
				t.Errorf("log-probabilities are off by up to %g", off)
			}
			t.Logf("log-probabilities are off by up to %g", off)
		})
	}
}
