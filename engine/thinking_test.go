package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine"
)

// A completion whose reasoning has a bound is the one without it up to there. Then comes the token that ends the
// reasoning, which is scored as any other is; behind it the completion is free again.
func TestThinkingIsBounded(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.Thinking | engine.PromptLogprobs })
	const start, end = 60, 61
	forced := 0
	for _, most := range []int{0, 1, 5, 12, 100} {
		for i, prompt := range [][]int32{{7, start, 8, 9}, {7, 8, start}, {start, end, 9}, {7, 8}} {
			free := sampled(fmt.Sprint("r", i), prompt, 3, 30, 5)
			bounded := *free
			bounded.Thinking = &engine.Thought{Start: start, End: end, Most: most, Open: i < 2}
			want, got := collect(t, e, free), collect(t, e, &bounded)
			for key, c := range got {
				thought, open := len(prompt)-1-slices.Index(prompt, start), i < 2
				if !open {
					thought = 0
				}
				same := true
				for k, token := range c.Tokens {
					atEnd := open && thought >= most
					switch {
					case atEnd && token != end:
						t.Fatalf("%s, at most %d: token %d is %d, not the end: %v", key, most, k, token, c.Tokens)
					case atEnd:
						forced++
						scored := forcedScore(t, e, append(slices.Clone(prompt), c.Tokens[:k+1]...))
						if math.Float32bits(scored) != math.Float32bits(c.Logprobs[k]) || c.ProcessedLogprobs[k] != 0 {
							t.Errorf("%s: the forced token has logprobs %v and %v, want %v and 0", key, c.Logprobs[k],
								c.ProcessedLogprobs[k], scored)
						}
						same = false
					case same && token != want[key].Tokens[k]:
						t.Fatalf("%s, at most %d: the tokens are %v, without a bound %v", key, most, c.Tokens,
							want[key].Tokens)
					}
					if open {
						thought, open = thought+1, token != end
					} else {
						open = token == start
					}
				}
			}
		}
	}
	if forced < 20 {
		t.Errorf("only %d tokens were forced: the test does not reach what it is for", forced)
	}
}

// forcedScore is the log-probability of the last of tokens.
func forcedScore(t *testing.T, e *engine.Engine, tokens []int32) float32 {
	t.Helper()
	r := greedy("score", tokens, 0)
	r.ScorePrompt = true
	c := collect(t, e, r)["score/0"]
	if c == nil || c.Err != nil {
		t.Fatalf("scoring: %+v", c)
	}
	return c.Prompt.Logprobs[len(tokens)-1]
}

func TestThinkingThatIsRefused(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.Thinking })
	for want, change := range map[string]func(r *engine.Request){
		"max_thinking_tokens is -1":              func(r *engine.Request) { r.Thinking.Most = -1 },
		"reasoning is between the tokens 60 and": func(r *engine.Request) { r.Thinking.End = 256 },
		"reasoning is between the tokens -1 and": func(r *engine.Request) { r.Thinking.Start = -1 },
		"with a structure is not supported": func(r *engine.Request) {
			r.Structure = parameter.Structure{Kind: parameter.RegexStructure, Text: "a"}
		},
		"needs the token 61, which ends the reasoning, among allowed_token_ids": func(r *engine.Request) {
			r.AllowedTokens = []int32{60}
		},
		"and the token 61 that ends the reasoning among the stop tokens": func(r *engine.Request) {
			r.StopTokens, r.Sampling.MinTokens = []int32{61}, 2
		},
		"bad_words[1] has the token 61": func(r *engine.Request) { r.BadWords = [][]int32{{61, 2}, {2, 61}} },
	} {
		r := greedy("r", []int32{1, 2}, 5)
		r.Thinking = &engine.Thought{Start: 60, End: 61, Most: 3}
		change(r)
		for _, c := range collect(t, e, r) {
			if !errors.Is(c.Err, engine.ErrInvalidRequest) || !strings.Contains(fmt.Sprint(c.Err), want) {
				t.Errorf("got %v, want %q", c.Err, want)
			}
		}
	}
}
