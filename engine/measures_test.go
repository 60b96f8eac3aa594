package engine_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/schedule"
)

// The entropies of tokens are those of the whole distribution, which the likeliest tokens of a small vocabulary are.
// They change no token, and have the same bits whatever else runs.
func TestEntropiesOfTokens(t *testing.T) {
	withAll := func() []*engine.Request {
		requests := contractRequests()
		for _, r := range requests {
			r.TopLogprobs = 256
		}
		return requests
	}
	e := contractEngine(t, func(c *engine.Config) {
		c.Features = engine.FeaturesOfColumns("entropy") | engine.ScoringFeatures(256, -1)
	})
	got := collect(t, e, withAll()...)
	for key, want := range wantOfContract(t) {
		c := got[key]
		entropies := c.Measures[schedule.Entropy]
		if !slices.Equal(c.Tokens, want.Tokens) || !slices.Equal(bits(c.Logprobs), bits(want.Logprobs)) ||
			len(entropies) != len(c.Tokens) {
			t.Fatalf("%s: %d entropies of tokens %v, want %v", key, len(entropies), c.Tokens, want.Tokens)
		}
		for i, logprobs := range c.TopLogprobs {
			sum := 0.0
			for _, l := range logprobs {
				sum -= math.Exp(float64(l)) * float64(l)
			}
			if math.Abs(sum-float64(entropies[i])) > 2e-5*(1+sum) {
				t.Errorf("%s, token %d: entropy %v, want %v", key, i, entropies[i], sum)
			}
		}
	}
	shuffled := withAll()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	sameBytes(t, got, collect(t, e, shuffled...), true)
	sameBytes(t, got, collect(t, e, withAll()[11]), false)
}
