package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// choosing are requests with choices that share prompts: some generate text, too.
func choosing() (requests []*engine.Request) {
	for i := range 6 {
		r := sampled(fmt.Sprint("choosing", i), nil, 1, 0, 3)
		for k := range 40 + i/2*9 {
			r.Tokens = append(r.Tokens, int32(20+(k*7+i/2)%50))
		}
		r.Choices = []engine.Choice{{{5, 9, 3}}, {{5, 9, 4}, {5, 9, 8}}, {{int32(30 + i)}},
			{slices.Repeat([]int32{7}, 10)}}
		if i%2 == 0 {
			r.N, r.MaxTokens = 3, 6
		}
		requests = append(requests, r)
	}
	return requests
}

// logprobsOf are the probabilities of choices by the scores of whole prompts, one request for each sequence.
func logprobsOf(t *testing.T, e *engine.Engine, r *engine.Request) (all []float64) {
	t.Helper()
	for _, choice := range r.Choices {
		total := 0.0
		for _, tokens := range choice {
			one := greedy("one", slices.Concat(r.Tokens, tokens), 0)
			one.ScorePrompt = true
			sum := 0.0
			for _, c := range collect(t, e, one) {
				for _, l := range c.Prompt.Logprobs[len(r.Tokens):] {
					sum += float64(l)
				}
			}
			total += math.Exp(sum)
		}
		all = append(all, math.Log(total))
	}
	return all
}

// The probabilities of choices are those of their tokens after the prompt, alone and together, in any order, next to
// text whose bytes are the same without them. The prompt is run once.
func TestChoices(t *testing.T) {
	kernels := func(c *engine.Config) { c.Features = engine.PromptLogprobs }
	alone := contractEngine(t, func(c *engine.Config) { kernels(c); c.NoPrefixCache = true })
	plain := contractEngine(t, func(c *engine.Config) { kernels(c); c.Backend = testenv.XLAWithoutKernels(t) })
	want, texts := map[string][]float64{}, map[string]*engine.Completion{}
	for _, r := range choosing() {
		want[r.ID] = logprobsOf(t, alone, r)
		if r.Choices = nil; r.MaxTokens > 0 {
			for key, c := range collect(t, alone, r) {
				texts[key] = c
			}
		}
	}
	e := contractEngine(t, kernels)
	for name, run := range map[string]func(requests []*engine.Request) map[string]*engine.Completion{
		"alone": func(requests []*engine.Request) map[string]*engine.Completion {
			all := map[string]*engine.Completion{}
			for _, r := range requests {
				for key, c := range collect(t, alone, r) {
					all[key] = c
				}
			}
			return all
		},
		"together": func(requests []*engine.Request) map[string]*engine.Completion {
			return collect(t, e, requests...)
		},
		"backwards": func(requests []*engine.Request) map[string]*engine.Completion {
			slices.Reverse(requests)
			return collect(t, e, requests...)
		},
		"without kernels": func(requests []*engine.Request) map[string]*engine.Completion {
			return collect(t, plain, requests...)
		},
	} {
		got, n := run(choosing()), 0
		for key, c := range got {
			if c.Err != nil || len(c.ChoiceLogprobs) != len(c.Request.Choices) ||
				c.PromptTokens != len(c.Request.Tokens) {
				t.Fatalf("%s, %s: %+v", name, key, c)
			}
			for i, l := range c.ChoiceLogprobs {
				if d := math.Abs(l - want[c.Request.ID][i]); d > 1e-12 && name != "without kernels" || d > 1e-3 {
					t.Errorf("%s, %s: choice %d has %v, want %v", name, key, i, l, want[c.Request.ID][i])
				}
			}
			if text := texts[key]; text != nil && name != "without kernels" {
				n++
				sameBytes(t, map[string]*engine.Completion{key: text}, map[string]*engine.Completion{key: c}, true)
			} else if text == nil && (len(c.Tokens) > 0 || c.FinishReason != engine.FinishLength) {
				t.Errorf("%s, %s: it generated %v", name, key, c)
			}
		}
		if len(got) != 12 || name != "without kernels" && n != 9 {
			t.Errorf("%s: %d completions, %d of them with text", name, len(got), n)
		}
	}
	r := choosing()[4]
	for i := range r.Tokens {
		r.Tokens[i] += 50 // which no engine has run
	}
	collectInOrder(t, e, r)
	scored := r.N
	for _, part := range r.Scored() {
		scored += e.Plan().PageSize + part.ScoreEnd
	}
	if ran, most := e.Stats().PrefillTokens, len(r.Tokens)+scored; ran > most {
		t.Errorf("%d tokens of prompts were run, and %d are enough", ran, most)
	}
}

// What is wrong with a choice is an error of its request, and of no other.
func TestWrongChoices(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.PromptLogprobs })
	limit := e.Plan().MaxModelLen
	for name, c := range map[string]struct {
		change func(r *engine.Request)
		want   string
		reason error
	}{
		"too long": {func(r *engine.Request) { r.Choices[2] = engine.Choice{slices.Repeat([]int32{5}, limit)} },
			"choice 3: the prompt is too long", engine.ErrPromptTooLong},
		"no such token": {func(r *engine.Request) { r.Choices[1][1][0] = 1 << 20 }, "choice 2: invalid request", nil},
		"no tokens": {func(r *engine.Request) { r.Choices[0] = engine.Choice{{}} },
			"choice 1: invalid request: it has no tokens", nil},
		"no sequences": {func(r *engine.Request) { r.Choices[3] = nil },
			"choice 4: invalid request: it has no tokens", nil},
		"no prompt": {func(r *engine.Request) { r.Tokens = nil }, "the prompt has no tokens",
			engine.ErrEmptyPrompt},
		"no choices": {func(r *engine.Request) { r.Choices = nil }, "max_tokens is 0", engine.ErrInvalidRequest},
	} {
		for _, tokens := range []int{0, 4} {
			if name == "no choices" && tokens > 0 {
				continue
			}
			r, good := choosing()[1], choosing()[3]
			r.MaxTokens = tokens
			c.change(r)
			n := 0
			for one, err := range e.Run(t.Context(), slices.Values([]*engine.Request{r, good})) {
				n++
				switch {
				case err != nil:
					t.Fatal(err)
				case one.Request == good && one.Err == nil && len(one.ChoiceLogprobs) == 4:
				case one.Request != r || one.Err == nil || !strings.Contains(one.Err.Error(), c.want) || !one.Refused ||
					c.reason != nil && !errors.Is(one.Err, c.reason):
					t.Errorf("%s, %d tokens: %+v, want %s", name, tokens, one, c.want)
				}
			}
			if n != 2 {
				t.Errorf("%s, %d tokens: %d completions", name, tokens, n)
			}
		}
	}
}
