package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
)

// A bias of 100 is a token that is drawn, one of -100 a token that is not.
func TestLogitBias(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.Biases })
	prompt := []int32{60, 70, 80, 90}
	r := greedy("r", prompt, 12)
	r.LogitBias = map[int32]float32{41: 100}
	if c := collect(t, e, r)["r/0"]; !slices.Equal(c.Tokens, slices.Repeat([]int32{41}, 12)) {
		t.Errorf("with a bias of 100 for token 41 the tokens are %v", c.Tokens)
	}
	free := collect(t, e, greedy("r", prompt, 12))["r/0"].Tokens
	r.LogitBias = map[int32]float32{}
	for _, token := range free {
		r.LogitBias[token] = -100
	}
	for _, token := range collect(t, e, r)["r/0"].Tokens {
		if slices.Contains(free, token) {
			t.Errorf("token %d is drawn with a bias of -100", token)
		}
	}
}

// More stop tokens than a row has room for are barred until min_tokens too, and end the completion behind it.
func TestMinTokensWithManyStopTokens(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.Biases })
	prompt := []int32{60, 70, 80, 90}
	for n := range 6 {
		r := sampled("r", prompt, 4, 60, uint64(n))
		for token := range int32(8 * n) {
			r.StopTokens = append(r.StopTokens, 6*token)
		}
		r.Sampling.MinTokens, r.IgnoreEOS = 30, n%2 == 0
		for key, c := range collect(t, e, r) {
			ends := func(token int32) bool { return slices.Contains(r.StopTokens, token) }
			at := slices.IndexFunc(c.Tokens, ends)
			if c.Err != nil || at >= 0 && (at < 30 || at != len(c.Tokens)-1) ||
				(c.FinishReason == engine.FinishStop) != (at >= 0) && r.IgnoreEOS {
				t.Errorf("%s with %d stop tokens: %s, %d tokens, the first that ends is %d, %v", key, len(r.StopTokens),
					c.FinishReason, len(c.Tokens), at, c.Err)
			}
			if n > 3 && c.FinishReason != engine.FinishStop {
				t.Errorf("%s with %d stop tokens ends by %s", key, len(r.StopTokens), c.FinishReason)
			}
		}
	}
}

func TestBiasesThatAreRefused(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.Biases })
	many := map[int32]float32{}
	for token := range int32(256) {
		many[token] = 1
	}
	for want, change := range map[string]func(r *engine.Request){
		"logit_bias has token 256, the vocabulary has 0 to 255":   func(r *engine.Request) { r.LogitBias[256] = 1 },
		"logit_bias has token -1, the vocabulary":                 func(r *engine.Request) { r.LogitBias[-1] = 1 },
		"logit_bias of token 7 is 100.5, but must be -100 to 100": func(r *engine.Request) { r.LogitBias[7] = 100.5 },
		"more than 8 stop tokens have a logit_bias": func(r *engine.Request) {
			r.LogitBias, r.Sampling.MinTokens = many, 2
			for token := range int32(9) {
				r.StopTokens = append(r.StopTokens, token)
			}
		},
	} {
		r := greedy("r", []int32{1, 2}, 5)
		r.LogitBias = map[int32]float32{}
		change(r)
		for _, c := range collect(t, e, r) {
			if !errors.Is(c.Err, engine.ErrInvalidRequest) || !strings.Contains(fmt.Sprint(c.Err), want) {
				t.Errorf("got %v, want %q", c.Err, want)
			}
		}
	}
}
