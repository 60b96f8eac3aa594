package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// repeatingRequests are greedy and sampled rows that repeat themselves, so that drafts are found: tiny models at
// temperature 0 go round in circles, and few of these tokens may be drawn at temperature 1.
func repeatingRequests() []*engine.Request {
	var requests []*engine.Request
	for i := range 6 {
		prompt := make([]int32, 20+9*i)
		for j := range prompt {
			prompt[j] = int32(j%(5+i)) + int32(40*i)
		}
		r := sampled(fmt.Sprint("repeats-", i), prompt, 1+i%3, 70, uint64(i))
		r.Sampling = sampling.Settings{TopP: 1}
		if i%2 == 1 {
			r.Sampling.Temperature, r.Sampling.TopK, r.Sampling.Seed = 1, 2, uint64(i)
		}
		requests = append(requests, r)
	}
	return requests
}

// Drafts change no byte, and some of them are drawn: alone and beside rows of all kinds, in pages of any size, and
// where pages run out.
func TestSameBytesWithDrafts(t *testing.T) {
	all := func() []*engine.Request { return append(repeatingRequests(), contractRequests()...) }
	for name, c := range map[string]struct {
		slow     bool
		requests func() []*engine.Request
		change   func(*engine.Config)
	}{
		"auto":           {false, all, func(c *engine.Config) {}},
		"many":           {true, all, func(c *engine.Config) { c.Speculate = 16 }},
		"one":            {true, all, func(c *engine.Config) { c.Speculate = 1 }},
		"few pages":      {false, repeatingRequests, func(c *engine.Config) { c.KVMemory = smallPool }},
		"pages of 8":     {true, all, func(c *engine.Config) { c.PageSize = 8 }},
		"contiguous":     {true, all, func(c *engine.Config) { c.KV = "basic" }},
		"one round":      {true, all, func(c *engine.Config) { c.MaxRounds = 1 }},
		"cleared memory": {true, all, func(c *engine.Config) { c.ZeroPages = true }},
		"one slot":       {true, all, func(c *engine.Config) { c.MaxSeqs = 1 }},
		"loop":           {true, all, func(c *engine.Config) { c.Layers = engine.LayersLoop }},
		"no cache":       {true, all, func(c *engine.Config) { c.NoPrefixCache = true }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			want := collect(t, contractEngine(t, nil), c.requests()...)
			e := contractEngine(t, func(cfg *engine.Config) {
				cfg.Speculate = engine.SpeculateAuto
				c.change(cfg)
			})
			sameBytes(t, want, collect(t, e, c.requests()...), true)
			checkDrafts(t, e)
			if s := e.Stats(); name == "few pages" && s.Preemptions == 0 {
				t.Error("no sequence was moved: the test does not reach what it is for")
			}
		})
	}
}

// checkDrafts fails unless some drafts were drawn and others were not.
func checkDrafts(t *testing.T, e *engine.Engine) {
	t.Helper()
	s := e.Stats()
	t.Logf("%d tokens drawn in %d steps; of %d drafts %d", s.DrawnTokens, s.DecodeSteps, s.DraftedTokens,
		s.AcceptedTokens)
	if s.AcceptedTokens == 0 || s.AcceptedTokens >= s.DraftedTokens {
		t.Errorf("of %d drafts %d were drawn", s.DraftedTokens, s.AcceptedTokens)
	}
}

// Other completions of a prompt have the tokens of the first as drafts, where their own text has none: also when it has
// ended, and its pages with it.
func TestDraftsOfOtherCompletions(t *testing.T) {
	const tokens = 40
	e := contractEngine(t, func(c *engine.Config) { c.Speculate, c.MaxSeqs = engine.MaxDrafts, 1 })
	request := func(prompt []int32, n int) *engine.Request {
		r := sampled("r", prompt, n, tokens, 1)
		r.Sampling = sampling.Settings{TopP: 1}
		return r
	}
	fewest := 1.
	for seed := range int32(4) {
		prompt := make([]int32, 24)
		for i := range prompt {
			prompt[i] = (seed*61 + int32(i*i)*7) % 256
		}
		want := collect(t, contractEngine(t, nil), request(prompt, 3))
		sameBytes(t, want, collectInOrder(t, e, request(prompt, 1)), false)
		alone := e.Stats()
		sameBytes(t, want, collectInOrder(t, e, request(prompt, 3)), true)
		s := e.Stats()
		// The one before is as the second and third are.
		if again, most := s.DecodeSteps, 3*(2+tokens/(engine.MaxDrafts+1)); again > most {
			t.Errorf("three completions take %d steps after one of %d, want at most %d", again, alone.DecodeSteps, most)
		}
		fewest = min(fewest, float64(s.DecodeSteps)/float64(3*alone.DecodeSteps))
	}
	t.Logf("at best %.2f of the steps", fewest)
}

// Nor where rows ask for features.
func TestFeaturesWithDrafts(t *testing.T) {
	for _, f := range featured {
		t.Run(f.Features.String(), func(t *testing.T) {
			if f.Features != engine.MaskedTokens {
				testenv.Slow(t)
			}
			requests := func() []*engine.Request {
				all := repeatingRequests()
				for i, r := range all {
					if i != 2 {
						f.ask(i, r)
					}
				}
				return all
			}
			change := func(c *engine.Config) { c.Features = f.Features }
			want := collect(t, contractEngine(t, change), requests()...)
			e := contractEngine(t, func(c *engine.Config) {
				change(c)
				c.Speculate = engine.SpeculateAuto
				if f.Features.Has(engine.Penalties) || f.Features.Has(engine.DRY) || f.Features.Has(engine.NoRepeat) {
					c.Speculate = 8 // one row alone has drafts, too few of which are drawn for auto to go on
				}
			})
			sameBytes(t, want, collect(t, e, requests()...), true)
			checkDrafts(t, e)
		})
	}
}

// Where drafts would change bytes they are refused.
func TestDraftsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		model  string
		change func(*engine.Config)
		want   string
	}{
		"too many": {contractFamily, func(c *engine.Config) { c.Speculate = 17 }, "must be 1 to 16, auto or off"},
		"without kernels": {contractFamily, func(c *engine.Config) {
			c.Backend = testenv.XLAWithoutKernels(t)
		}, "depend on the step"},
		"states": {"lfm2", func(c *engine.Config) {}, "keep a state of a sequence"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contractConfig()
			cfg.Model, cfg.Backend, cfg.Speculate = testenv.Model(t, c.model), testenv.XLA(t), 4
			c.change(&cfg)
			if _, err := engine.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}
