package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/text/tokenizer"
)

// A thousand requests of all lengths through 8 slots end with all pages free: Run fails with ErrPagesLost otherwise,
// and in debug mode every rule of the tables is checked after each step.
func TestNoPageIsLost(t *testing.T) {
	e := contractEngine(t, nil)
	rng := rand.New(rand.NewPCG(3, 3))
	var requests []*engine.Request
	total := 0
	for i := range 1000 {
		prompt := make([]int32, 1+rng.IntN(40))
		for j := range prompt {
			prompt[j] = int32(rng.IntN(256))
		}
		r := sampled(fmt.Sprint(i), prompt, 1+rng.IntN(3)*rng.IntN(2), 1+rng.IntN(6), 1)
		requests = append(requests, r)
		total += r.N
	}
	got := collect(t, e, requests...)
	if len(got) != total {
		t.Errorf("got %d completions, want %d", len(got), total)
	}
	for key, c := range got {
		if c.Err != nil || len(c.Tokens) != c.Request.MaxTokens || c.FinishReason != engine.FinishLength {
			t.Errorf("%s: %+v", key, c)
		}
	}
	if s := e.Stats(); s.PeakPages == 0 || s.PeakPages > s.Pages {
		t.Errorf("peak of %d pages of %d", s.PeakPages, s.Pages)
	}
}

// A request that can't be run says why, and the others are run.
func TestBadRequests(t *testing.T) {
	e := contractEngine(t, nil)
	good := greedy("good", []int32{1, 2, 3}, 4)
	bad := map[string]struct {
		change func(*engine.Request)
		is     error
		says   string
	}{
		"empty": {func(r *engine.Request) { r.Tokens = nil }, engine.ErrEmptyPrompt, "no tokens"},
		"long": {func(r *engine.Request) { r.Tokens = make([]int32, 160) }, engine.ErrPromptTooLong,
			"160 tokens"},
		"n": {func(r *engine.Request) { r.N = 0 }, engine.ErrInvalidRequest, "n is 0"},
		"generation": {func(r *engine.Request) { r.FirstGeneration = -1 }, engine.ErrInvalidRequest,
			"generation is -1"},
		"max tokens": {func(r *engine.Request) { r.MaxTokens = 0 }, engine.ErrInvalidRequest, "max_tokens is 0"},
		"token": {func(r *engine.Request) { r.Tokens = []int32{1, 256} }, engine.ErrInvalidRequest,
			"token 1 of the prompt is 256"},
		"temperature": {func(r *engine.Request) { r.Sampling.Temperature = -1 }, engine.ErrInvalidRequest,
			"temperature"},
		"stop sequence": {func(r *engine.Request) { r.StopSequences = [][]int32{{1}, {}} }, engine.ErrInvalidRequest,
			"has no tokens"},
		"long sequence": {func(r *engine.Request) { r.StopSequences = [][]int32{make([]int32, 200)} },
			engine.ErrInvalidRequest, "give fewer"},
	}
	requests := []*engine.Request{good}
	for name, c := range bad {
		r := *good
		r.ID = name
		c.change(&r)
		requests = append(requests, &r)
	}
	got := collect(t, e, requests...)
	if c := got["good/0"]; c == nil || c.Err != nil || len(c.Tokens) != 4 {
		t.Errorf("the good one: %+v", c)
	}
	checker := engine.NewChecker(engine.Config{Model: &models.Checkpoint{Config: models.Config{VocabSize: 256}},
		MaxModelLen: 160, StopStates: 256})
	if err := checker.Check(good); err != nil {
		t.Errorf("the checker refuses the good one: %v", err)
	}
	for name, c := range bad {
		var d *engine.Completion
		for _, g := range got {
			if g.Request.ID == name {
				d = g
			}
		}
		if d == nil || !errors.Is(d.Err, c.is) || !strings.Contains(d.Err.Error(), c.says) ||
			d.FinishReason != engine.FinishError {
			t.Errorf("%s: got %+v, want an error with %q", name, d, c.says)
		} else if err := checker.Check(d.Request); err == nil || err.Error() != d.Err.Error() {
			t.Errorf("%s: the checker says %v, and the engine %v", name, err, d.Err)
		}
	}
}

// Prompt and completion together end at the model's length.
func TestEndsAtMaxModelLen(t *testing.T) {
	e := contractEngine(t, nil)
	prompt := slices.Repeat([]int32{7, 9, 11}, 50) // 150 tokens
	c := collect(t, e, greedy("a", prompt, 1000))["a/0"]
	if len(c.Tokens) != 10 || c.FinishReason != engine.FinishLength {
		t.Errorf("got %d tokens and %s, want 10 and length", len(c.Tokens), c.FinishReason)
	}
	longest := slices.Repeat([]int32{5}, 159)
	if c := collect(t, e, greedy("b", longest, 5))["b/0"]; c.Err != nil || len(c.Tokens) != 1 {
		t.Errorf("a prompt of 159 tokens of 160: %+v", c)
	}
}

func TestStops(t *testing.T) {
	model, err := setup.FindModel("smollm2")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	e := contractEngine(t, func(c *engine.Config) { c.Tokenizer = tok })
	prompt := []int32{60, 70, 80, 90}
	free := collect(t, e, sampled("r", prompt, 1, 40, 11))["r/0"]
	if free.FinishReason != engine.FinishLength || len(free.Tokens) != 40 || free.Text == "" {
		t.Fatalf("without stops: %+v", free)
	}
	t.Run("token", func(t *testing.T) {
		r := sampled("r", prompt, 1, 40, 11)
		r.StopTokens = []int32{free.Tokens[17]}
		at := slices.Index(free.Tokens, free.Tokens[17])
		c := collect(t, e, r)["r/0"]
		if !slices.Equal(c.Tokens, free.Tokens[:at+1]) || c.FinishReason != engine.FinishStop {
			t.Errorf("got %+v, want the first %d tokens of %v", c, at+1, free.Tokens)
		}
	})
	t.Run("string", func(t *testing.T) {
		// A stop string that spans tokens: the end of one and the begin of the next.
		stop := free.Text[len(free.Text)/2 : len(free.Text)/2+4]
		at := strings.Index(free.Text, stop)
		r := sampled("r", prompt, 1, 40, 11)
		r.Stop = []string{"never there", stop}
		others := sampled("others", prompt, 5, 60, 4)
		all := collect(t, e, r, others)
		kept := 0
		for _, c := range all {
			kept += len(c.Tokens)
		}
		if s := e.Stats(); s.GeneratedTokens != kept || s.DrawnTokens != kept {
			t.Errorf("%d tokens are in completions; counted are %d of %d drawn", kept, s.GeneratedTokens, s.DrawnTokens)
		}
		c := all["r/0"]
		if c.Text != free.Text[:at] || c.FinishReason != engine.FinishStop {
			t.Errorf("got text %q (%s), want %q", c.Text, c.FinishReason, free.Text[:at])
		}
		if n := len(c.Tokens); n == 0 || n >= 40 || !slices.Equal(c.Tokens, free.Tokens[:n]) {
			t.Errorf("got tokens %v of %v", c.Tokens, free.Tokens)
		}
		if got := tok.Decode(c.Tokens, true); !strings.HasPrefix(got, free.Text[:at]+stop[:1]) {
			t.Errorf("the tokens stand for %q, which does not reach the stop string %q", got, stop)
		}
	})
}

func TestCancel(t *testing.T) {
	e := contractEngine(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	n := 0
	for _, err := range e.Run(ctx, func(yield func(*engine.Request) bool) {
		for i := 0; yield(sampled(fmt.Sprint(i), []int32{1, 2, 3}, 2, 8, 1)); i++ {
		}
	}) {
		last = err
		if n++; n == 5 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("an endless job that was cancelled ended with %v after %d completions", last, n)
	}
	t.Run("break", func(t *testing.T) {
		for c, err := range e.Run(context.Background(), func(yield func(*engine.Request) bool) {
			for i := 0; yield(greedy(fmt.Sprint(i), []int32{1, 2, 3}, 8)); i++ {
			}
		}) {
			if err != nil || c.Err != nil {
				t.Error(err, c)
			}
			break
		}
	})
	if c := collect(t, e, greedy("after", []int32{1, 2, 3}, 3))["after/0"]; c.Err != nil || len(c.Tokens) != 3 {
		t.Errorf("the run after: %+v", c)
	}
}

// After the engine is made, nothing is compiled any more, whatever is asked of it.
func TestNoCompilationAfterWarmUp(t *testing.T) {
	e := contractEngine(t, nil)
	b := testenv.XLA(t)
	compiles, loads := b.Compiles(), b.CacheLoads()
	collect(t, e, contractRequests()...)
	collect(t, e, &engine.Request{ID: "all", Tokens: []int32{1, 2}, N: 9, MaxTokens: 50, Stop: []string{"x"},
		StopTokens: []int32{3},
		Sampling:   sampling.Settings{Temperature: 2, TopP: 0.5, TopK: 3, MinP: 0.1, Seed: 9}})
	if b.Compiles() != compiles || b.CacheLoads() != loads {
		t.Errorf("%d programs were compiled and %d loaded while the engine ran", b.Compiles()-compiles,
			b.CacheLoads()-loads)
	}
}

func TestPlanRefuses(t *testing.T) {
	for says, change := range map[string]func(*engine.Config){
		"`page-size` is 12":          func(c *engine.Config) { c.PageSize = 12 },
		"`page-size` is 48":          func(c *engine.Config) { c.PageSize = 48 },
		"`max-model-len` is 161":     func(c *engine.Config) { c.MaxModelLen = 161 },
		"does not hold one page":     func(c *engine.Config) { c.KVMemory = 100 },
		"max-seqs is -1":             func(c *engine.Config) { c.MaxSeqs = -1 },
		"of memory: give ":           func(c *engine.Config) { c.MaxSeqs = 1 << 34 },
		`kv is "ring"`:               func(c *engine.Config) { c.KV = "ring" },
		"`kv` basic keeps 16 rows":   func(c *engine.Config) { c.KV, c.KVMemory = "basic", 1<<10 },
		"Config.Model and Config.Ba": func(c *engine.Config) { c.Model = nil },
	} {
		cfg := engine.Config{Model: testenv.Model(t, contractFamily), Backend: testenv.XLA(t), MaxSeqs: 8, PageSize: 16,
			MaxModelLen: 160, KVMemory: 8 << 20}
		change(&cfg)
		e, err := engine.New(context.Background(), cfg)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error with %q", err, says)
		}
		if e != nil {
			e.Close()
		}
	}
}

// A plan says what is less than was asked for, and only that.
func TestPlanSaysWhatItLowers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*engine.Config)
		want   string // a pattern; "" for nothing
	}{
		"as asked":    {func(c *engine.Config) { c.KVMemory = smallPool }, ""},
		"the default": {func(c *engine.Config) { c.KVMemory = 0 }, ""},
		"more memory": {func(c *engine.Config) { c.KVMemory = 1 << 30 },
			`^KV memory from 1\.0 GiB to .* at their longest$`},
		"fewer slots": {func(c *engine.Config) { c.KV, c.MaxSeqs, c.KVMemory = "basic", 0, 1<<20 },
			`^slots from 64 to \d+: `},
		"slots enough": {func(c *engine.Config) { c.KV, c.MaxSeqs, c.KVMemory = "basic", 0, 1<<30 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contractConfig()
			cfg.Model, cfg.Backend = testenv.Model(t, contractFamily), testenv.XLA(t)
			c.change(&cfg)
			p, err := cfg.Plan()
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(p.Lowered, "; ")
			if (got == "") != (c.want == "") || !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("the plan lowered %q, want %q", got, c.want)
			}
		})
	}
}

// Half precision gives the same distribution, nearly: first tokens under the f32 model's logprobs, within what rounding
// to 8 (bf16) or 11 (f16) bits does to a small model.
func TestHalfPrecision(t *testing.T) {
	testenv.Slow(t)
	want := collect(t, contractEngine(t, nil), contractRequests()...)
	for _, c := range []struct {
		dtype     dtypes.DType
		tolerance float64
	}{{dtypes.BFloat16, 0.3}, {dtypes.Float16, 0.04}} {
		t.Run(c.dtype.String(), func(t *testing.T) {
			e := contractEngine(t, func(cfg *engine.Config) { cfg.DType = c.dtype })
			if p := e.Plan(); p.DType != c.dtype.String() || p.KVDType != c.dtype.String() {
				t.Errorf("the plan has weights in %s and KV in %s", p.DType, p.KVDType)
			}
			compared := 0
			for key, g := range collect(t, e, contractRequests()...) {
				w := want[key]
				stopped := g.FinishReason == engine.FinishStop || w.FinishReason == engine.FinishStop
				if g.Err != nil || len(g.Tokens) != len(w.Tokens) && !stopped {
					t.Fatalf("%s: %+v", key, g)
				}
				if g.Tokens[0] != w.Tokens[0] {
					continue // another token was drawn, whose f32 logprob is not known
				}
				compared++
				if d := math.Abs(float64(g.Logprobs[0] - w.Logprobs[0])); d > c.tolerance {
					t.Errorf("%s: first logprob %g, in float32 %g", key, g.Logprobs[0], w.Logprobs[0])
				}
			}
			if compared < len(want)/2 {
				t.Errorf("only %d of %d first tokens are the same", compared, len(want))
			}
		})
	}
}
