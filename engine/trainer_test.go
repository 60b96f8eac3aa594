package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// The log-probabilities of tokens are those of the reference for trainers in float32: see docs/rl.md and
// scripts/oracle/trainer_goldens.py.
func TestLogprobsOfTheTrainer(t *testing.T) {
	var cases []struct {
		Model          string
		Prompt, Tokens []int32
		Logprobs       []float64
	}
	testenv.ReadGolden(t, "trainer", &cases)
	requests := map[string][]*engine.Request{}
	for i, c := range cases {
		all := append(append([]int32{}, c.Prompt...), c.Tokens...)
		requests[c.Model] = append(requests[c.Model], &engine.Request{ID: fmt.Sprint(i), N: 1, Tokens: all,
			ScorePrompt: true})
	}
	for name, list := range requests {
		t.Run(name, func(t *testing.T) {
			if name != "qwen2" && name != "mistral" {
				testenv.Slow(t)
			}
			cfg := contractConfig()
			cfg.Features = engine.ScoringFeatures(0, 0)
			most := 0.0
			for key, got := range collect(t, sharedEngine(t, name, cfg), list...) {
				var i int
				if _, err := fmt.Sscanf(key, "%d/", &i); err != nil || got.Err != nil {
					t.Fatal(key, err, got.Err)
				}
				for k, want := range cases[i].Logprobs {
					off := math.Abs(float64(got.Prompt.Logprobs[len(cases[i].Prompt)+k]) - want)
					if most = max(most, off); !(off <= 1e-5) {
						t.Errorf("case %s, token %d: off by %g", key, k, off)
					}
				}
			}
			t.Logf("off by %.2g at most", most)
		})
	}
}
