package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// scoresOf is what a completion tells of likely tokens, bit by bit.
func scoresOf(c *engine.Completion) string {
	all := func(ids [][]int32, logprobs [][]float32) (s string) {
		for i := range ids {
			s += fmt.Sprint(ids[i], bits(logprobs[i]))
		}
		return s
	}
	s := all(c.TopIDs, c.TopLogprobs)
	for _, values := range c.Measures {
		s += fmt.Sprint(bits(values))
	}
	if c.Prompt != nil {
		s += fmt.Sprint(bits(c.Prompt.Logprobs[1:])) + all(c.Prompt.TopIDs, c.Prompt.TopLogprobs)
	}
	return s
}

// scoredAgain are requests that score what completions drew behind their prompts.
func scoredAgain(of map[string]*engine.Completion, tops int) (requests []*engine.Request) {
	for key, c := range of {
		requests = append(requests, &engine.Request{ID: key, N: 1, ScorePrompt: true, PromptTopLogprobs: tops,
			Tokens: slices.Concat(c.Request.Tokens, c.Tokens)})
	}
	return requests
}

// What was drawn is scored with the bits that it was drawn with, where the model has the same bytes in both forms; also
// behind pages that are there already. Elsewhere it differs by rounding.
func TestScoredAsDrawn(t *testing.T) {
	for _, name := range append([]string{"smollm2-like", "plain"}, stateful...) {
		t.Run(name, func(t *testing.T) {
			family, kernels := name, name != "plain"
			if name != contractFamily && name != "deepseek-v3" {
				testenv.Slow(t)
			}
			if !kernels {
				family = "smollm2-like"
			}
			const tops = 4
			e := stateEngine(t, family, 0, func(c *engine.Config) {
				c.Features = engine.TopLogprobs | engine.PromptLogprobs
				if !kernels {
					c.Backend = testenv.XLAWithoutKernels(t)
				}
			})
			requests := contractRequests()
			for _, r := range requests {
				r.TopLogprobs = tops
			}
			drawn := collect(t, e, requests...)
			before := ""
			for range 2 {
				again := ""
				got := collect(t, e, scoredAgain(drawn, tops)...)
				for _, key := range slices.Sorted(keysOf(drawn)) {
					c, d := got[key+"/0"], drawn[key]
					again += scoresOf(c)
					n := len(d.Request.Tokens)
					if c.Err != nil || len(c.Tokens) > 0 || c.FinishReason != engine.FinishLength ||
						len(c.Prompt.Logprobs) != n+len(d.Tokens) || len(c.Prompt.TopIDs[0]) > 0 {
						t.Fatalf("%s: %+v", key, c)
					}
					if kernels {
						scored := engine.Completion{Generated: engine.Generated{TopIDs: c.Prompt.TopIDs[n:],
							TopLogprobs: c.Prompt.TopLogprobs[n:]}}
						if !slices.Equal(bits(c.Prompt.Logprobs[n:]), bits(d.Logprobs)) ||
							scoresOf(&scored) != scoresOf(d) {
							t.Errorf("%s: scored with %v, drawn with %v", key, c.Prompt.Logprobs[n:], d.Logprobs)
						}
						continue
					}
					for i, want := range d.Logprobs {
						if diff := math.Abs(float64(c.Prompt.Logprobs[n+i] - want)); !(diff < 1e-4) {
							t.Errorf("%s: token %d is scored %g off", key, i, diff)
						}
					}
				}
				if before != "" && kernels && before != again {
					t.Error("scores are others where pages are there already")
				}
				before = again
			}
		})
	}
}

func keysOf(m map[string]*engine.Completion) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// All likeliest tokens, as many as there may be, add up to all there is; the lists begin with the shorter ones.
func TestTopLogprobsOfAll(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.TopLogprobs | engine.WideLogprobs })
	requests := contractRequests()[:6]
	for i, r := range requests {
		r.TopLogprobs = []int{256, 3, 1}[i%3]
	}
	for key, c := range collect(t, e, requests...) {
		for i, ids := range c.TopIDs {
			if len(ids) != min(c.Request.TopLogprobs, testenv.Model(t, contractFamily).Config.VocabSize) {
				t.Fatalf("%s: %d of the likeliest tokens", key, len(ids))
			}
			sum := 0.0
			for k, l := range c.TopLogprobs[i] {
				sum += math.Exp(float64(l))
				if k > 0 && l > c.TopLogprobs[i][k-1] {
					t.Errorf("%s: %v are out of order", key, c.TopLogprobs[i])
				}
				if ids[k] == c.Tokens[i] && math.Float32bits(l) != math.Float32bits(c.Logprobs[i]) {
					t.Errorf("%s: token %d has %v, and %v in the list", key, ids[k], c.Logprobs[i], l)
				}
			}
			if sum > 1+1e-4 {
				t.Errorf("%s: the probabilities of the likeliest add up to %v", key, sum)
			}
		}
	}
}

// Prefixes that prompts share are scored once: the tokens run are those of one prompt, and the ends of the others.
func TestSharedPrefixesAreScoredOnce(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.PromptLogprobs })
	const prefix, n = 96, 8
	var requests []*engine.Request
	for i := range n {
		r := greedy(fmt.Sprint("choice", i), nil, 0)
		for k := range prefix {
			r.Tokens = append(r.Tokens, int32(20+k%50))
		}
		r.Tokens, r.ScorePrompt, r.MaxTokens = append(r.Tokens, int32(i+5), int32(i+90)), true, 0
		requests = append(requests, r)
	}
	alone := map[string]*engine.Completion{}
	for _, r := range requests {
		one := *r
		plain := contractEngine(t, func(c *engine.Config) { c.Features, c.NoPrefixCache = engine.PromptLogprobs, true })
		for key, c := range collect(t, plain, &one) {
			alone[key] = c
		}
	}
	got := collectInOrder(t, e, requests...)
	sameBytes(t, alone, got, true)
	if ran, most := e.Stats().PrefillTokens, prefix+n*(2+e.Plan().PageSize); ran > most {
		t.Errorf("%d tokens of prompts were run, and %d are enough", ran, most)
	}
	got = collectInOrder(t, e, requests...)
	sameBytes(t, alone, got, true)
}

func TestRequestsForScoresAreChecked(t *testing.T) {
	e := contractEngine(t, nil)
	for name, change := range map[string]func(r *engine.Request){
		"too many":         func(r *engine.Request) { r.TopLogprobs = 257 },
		"negative":         func(r *engine.Request) { r.PromptTopLogprobs = -1 },
		"nothing to be do": func(r *engine.Request) { r.MaxTokens = 0 },
	} {
		r := greedy(name, []int32{1, 2, 3}, 4)
		change(r)
		for _, c := range collect(t, e, r) {
			if !errors.Is(c.Err, engine.ErrInvalidRequest) {
				t.Errorf("%s: %v", name, c.Err)
			}
		}
	}
}

// The scores of prompts are transformers', for families with something of their own.
func TestPromptLogprobsEqualTransformers(t *testing.T) {
	for _, family := range features {
		t.Run(family, func(t *testing.T) {
			if family != contractFamily && family != "gemma2" {
				testenv.Slow(t)
			}
			var golden testenv.Golden
			testenv.ReadGolden(t, family, &golden)
			cfg := engine.Config{Model: testenv.Model(t, family), Backend: testenv.XLA(t), MaxSeqs: 8, PageSize: 16,
				PrefillTokens: 32, MaxModelLen: 160, MaxRounds: 8, KVMemory: 32 << 20, Features: engine.PromptLogprobs}
			e := newEngine(t, family, cfg)
			var requests []*engine.Request
			logitsOf := map[string][]float32{}
			for i, c := range golden.Cases {
				for k, next := range []int32{c.Tokens[0], 1, 7} {
					r := &engine.Request{ID: fmt.Sprint(i, "-", k), N: 1, ScorePrompt: true, PromptTopLogprobs: 20,
						Tokens: append(slices.Clone(c.Prompt), next)}
					requests, logitsOf[r.ID] = append(requests, r), c.Logits
				}
			}
			for key, c := range collect(t, e, requests...) {
				logits := logitsOf[c.Request.ID]
				sum, top := 0.0, float64(slices.Max(logits))
				for _, l := range logits {
					sum += math.Exp(float64(l) - top)
				}
				last := len(c.Request.Tokens) - 1
				check := func(token int32, got float32) {
					if want := float64(logits[token]) - top - math.Log(sum); !(math.Abs(float64(got)-want) < 1e-4) {
						t.Errorf("%s: token %d has %v, and in transformers %v", key, token, got, want)
					}
				}
				check(c.Request.Tokens[last], c.Prompt.Logprobs[last])
				for k, id := range c.Prompt.TopIDs[last] {
					check(id, c.Prompt.TopLogprobs[last][k])
				}
			}
		})
	}
}
