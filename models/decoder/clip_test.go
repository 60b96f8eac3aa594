package decoder_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/quire/quire/internal/testenv"
)

// TestClippedHeads compares the tiny OLMoE, its queries, keys and values kept within a limit, with the numpy form of
// transformers' formulas (scripts/oracle/clip_goldens.py).
func TestClippedHeads(t *testing.T) {
	testenv.Slow(t)
	data, err := os.ReadFile("../testdata/olmoe-clip.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Clip  float64 `json:"clip_qkv"`
		Cases []struct {
			Prompt []int32
			Logits []float32
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	ckpt := testenv.Model(t, "olmoe")
	ckpt.Config.Layers = slices.Clone(ckpt.Config.Layers)
	for i := range ckpt.Config.Layers {
		ckpt.Config.Layers[i].QKVClip = golden.Clip
	}
	score := allScores(t, ckpt)
	for _, c := range golden.Cases {
		row := score(c.Prompt)[(len(c.Prompt)-1)*len(c.Logits):][:len(c.Logits)]
		for k := range row {
			if diff := math.Abs(float64(row[k] - c.Logits[k])); diff > 1e-4 {
				t.Fatalf("a prompt of %d tokens: logit %d is %g, want %g", len(c.Prompt), k, row[k], c.Logits[k])
			}
		}
	}
}
