package sampling_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/quire/quire/ops/sampling"
)

// Goldens of Hugging Face's logits warpers, made by scripts/oracle/sampling_goldens.py.
func TestAgainstHuggingFace(t *testing.T) {
	var cases []struct {
		Settings struct {
			Temperature float64
			TopK        int      `json:"top_k"`
			TopP        *float64 `json:"top_p"`
			MinP        float64  `json:"min_p"`
		}
		Logits          []float32
		Probs, Logprobs []float64
	}
	data, err := os.ReadFile("testdata/huggingface.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	const draws = 64
	var rows []row
	for _, c := range cases {
		settings := sampling.Settings{Temperature: c.Settings.Temperature, TopP: 1, TopK: c.Settings.TopK,
			MinP: c.Settings.MinP}
		if c.Settings.TopP != nil {
			settings.TopP = *c.Settings.TopP
		}
		for i, p := range refer(c.Logits, settings).probs {
			if math.Abs(p-c.Probs[i]) > 1e-6 {
				t.Errorf("%+v: the reference gives token %d probability %v, Hugging Face %v", settings, i, p,
					c.Probs[i])
			}
		}
		for i := range draws {
			rows = append(rows, row{logits: c.Logits, settings: settings, key: sampling.RequestKey(1, 2, 3),
				position: int32(i)})
		}
	}
	onBackends(t, func(t *testing.T, s sampler) {
		for i, got := range s.draw(t, rows) {
			c := cases[i/draws]
			if p := c.Probs[got.token]; math.Abs(float64(got.processed)-math.Log(p)) > 1e-5 {
				t.Errorf("%+v: token %d has processed logprob %v, want %v", rows[i].settings, got.token, got.processed,
					math.Log(p))
			}
			if l := c.Logprobs[got.token]; math.Abs(float64(got.logprob)-l) > 1e-5 {
				t.Errorf("%+v: token %d has logprob %v, want %v", rows[i].settings, got.token, got.logprob, l)
			}
		}
	})
}
