package engine_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// otherFamily is a model of other layers and heads than contractFamily, with the same tokens.
const otherFamily = "llama3"

// A draft model changes no byte: neither one that knows nothing of what the model draws, nor the model itself. The
// tokens of the latter are the ones that are drawn, at any temperature.
func TestSameBytesWithADraftModel(t *testing.T) {
	all := func() []*engine.Request { return append(repeatingRequests(), contractRequests()...) }
	for name, c := range map[string]struct {
		slow     bool
		drafter  string
		requests func() []*engine.Request
		change   func(*engine.Config)
	}{
		"another":        {false, otherFamily, all, func(c *engine.Config) {}},
		"itself":         {true, contractFamily, repeatingRequests, func(c *engine.Config) {}},
		"beside others":  {true, contractFamily, all, func(c *engine.Config) {}},
		"few pages":      {false, otherFamily, repeatingRequests, func(c *engine.Config) { c.KVMemory = pagesOf(33) }},
		"many":           {true, contractFamily, all, func(c *engine.Config) { c.Speculate = 16 }},
		"one":            {true, otherFamily, all, func(c *engine.Config) { c.Speculate = 1 }},
		"pages of 8":     {true, contractFamily, all, func(c *engine.Config) { c.PageSize = 8 }},
		"contiguous":     {true, contractFamily, all, func(c *engine.Config) { c.KV = "basic" }},
		"one round":      {true, contractFamily, all, func(c *engine.Config) { c.MaxRounds = 1 }},
		"cleared memory": {true, contractFamily, all, func(c *engine.Config) { c.ZeroPages = true }},
		"one slot":       {true, contractFamily, all, func(c *engine.Config) { c.MaxSeqs = 1 }},
		"8-bit keys":     {true, contractFamily, all, func(c *engine.Config) { c.KVDType = dtypes.Int8 }},
		"no cache":       {true, contractFamily, all, func(c *engine.Config) { c.NoPrefixCache = true }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			cfg := contractConfig()
			cfg.Speculate, cfg.DraftModel = engine.SpeculateAuto, testenv.Model(t, c.drafter)
			c.change(&cfg)
			same := func(c *engine.Config) { c.KVDType = cfg.KVDType }
			want := collect(t, contractEngine(t, same), c.requests()...)
			e := newEngine(t, contractFamily, cfg)
			sameBytes(t, want, collect(t, e, c.requests()...), true)
			sameBytes(t, want, collect(t, e, c.requests()...), true) // from pages that the first ones left
			s := e.Stats()
			t.Logf("%d tokens drawn in %d steps; of %d drafts %d", s.DrawnTokens, s.DecodeSteps, s.DraftedTokens,
				s.AcceptedTokens)
			if s.DraftedTokens == 0 {
				t.Error("nothing was drafted")
			}
			if name == "itself" && s.AcceptedTokens < s.DraftedTokens*99/100 {
				t.Errorf("of %d drafts of the model itself %d were drawn", s.DraftedTokens, s.AcceptedTokens)
			}
			if name == "few pages" && s.Preemptions == 0 {
				t.Error("no sequence was moved: the test does not reach what it is for")
			}
		})
	}
}

// Nor where rows ask for features: tokens that a structure forbids are no drafts.
func TestFeaturesWithADraftModel(t *testing.T) {
	testenv.Slow(t)
	for _, f := range featured {
		t.Run(f.Features.String(), func(t *testing.T) {
			requests := func() []*engine.Request {
				all := repeatingRequests()
				for i, r := range all {
					if i != 2 {
						f.ask(i, r)
					}
				}
				return all
			}
			want := collect(t, contractEngine(t, func(c *engine.Config) { c.Features = f.Features }), requests()...)
			cfg := contractConfig()
			cfg.Speculate, cfg.DraftModel = 3, testenv.Model(t, contractFamily)
			// The features come with the first row: the drafter's keys and values stay.
			e := newEngine(t, contractFamily, cfg)
			sameBytes(t, want, collect(t, e, requests()...), true)
			// Where no feature of a row with drafts changes what is drawn, the model draws all that it drafted.
			if s := e.Stats(); s.AcceptedTokens == 0 {
				t.Errorf("of %d drafts none was drawn", s.DraftedTokens)
			}
		})
	}
}

// What a draft model needs that is not there is refused, and what it takes is in the plan.
func TestDraftModelsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		model, drafter string
		change         func(*engine.Config)
		want           string
	}{
		"off":    {contractFamily, otherFamily, func(c *engine.Config) { c.Speculate = 0 }, "speculate is off"},
		"states": {contractFamily, "lfm2", func(c *engine.Config) {}, "the draft model, .* keep a state"},
		"model with states": {"lfm2", otherFamily, func(c *engine.Config) {},
			"there is a draft model, but .* keep a state of a sequence.*: leave it out"},
		"without kernels": {contractFamily, otherFamily, func(c *engine.Config) {
			c.Backend = testenv.XLAWithoutKernels(t)
		}, "there is a draft model, but .* depend on the step.*: leave it out"},
		"loop": {contractFamily, otherFamily, func(c *engine.Config) { c.Layers = engine.LayersLoop },
			"layers is loop, which a draft model has none of"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := contractConfig()
			cfg.Model, cfg.Backend, cfg.Speculate = testenv.Model(t, c.model), testenv.XLA(t), engine.SpeculateAuto
			cfg.DraftModel = testenv.Model(t, c.drafter)
			c.change(&cfg)
			if _, err := cfg.Plan(); err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestPlanOfADraftModel(t *testing.T) {
	cfg := contractConfig()
	cfg.Model, cfg.Backend, cfg.KVMemory = testenv.Model(t, contractFamily), testenv.XLA(t), smallPool
	alone, err := cfg.Plan()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Speculate, cfg.DraftModel = engine.SpeculateAuto, testenv.Model(t, contractFamily)
	with, err := cfg.Plan()
	if err != nil {
		t.Fatal(err)
	}
	d := with.Drafter
	if d == nil || d.WeightBytes != alone.WeightBytes || d.KVBytesPerToken != alone.KVBytesPerToken {
		t.Fatalf("the drafter is %+v, and alone it would be %+v", d, alone)
	}
	if with.PageBytes() != 2*alone.PageBytes() || with.Pages != alone.Pages/2 || with.KVBytes > smallPool {
		t.Errorf("%d pages of %d bytes, and %d of %d without the drafter", with.Pages, with.PageBytes(), alone.Pages,
			alone.PageBytes())
	}
	if text := with.String(); !strings.Contains(text, "\ndraft model    ") {
		t.Errorf("the plan does not show the draft model:\n%s", text)
	}
}
