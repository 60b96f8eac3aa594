package engine_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Completions of models whose matrices are in blocks, experts too, depend on nothing but their request: not on other
// rows, their order, clones, slots, pages, steps of prompts, or on having been moved to the host and back.
func TestSameBytesOfBlocks(t *testing.T) {
	const auto = engine.WeightsAuto
	for name, c := range map[string]struct {
		model, weights string
		dtype          dtypes.DType
		has            string // in the plan's forms of weights
		vocabulary     int    // where it is not 256
		slow           bool
	}{
		"experts in bf16":  {model: "mixtral", weights: "q8_0", dtype: dtypes.BFloat16, has: "Q8_0"},
		"4 bits in f32":    {model: "llama3", weights: "q4_0", has: "Q4_0", slow: true},
		"sinks":            {model: "gpt-oss", slow: true},
		"experts in MXFP4": {model: "../../models/testdata/gpt-oss-mxfp4", weights: auto, has: "MXFP4", slow: true},
		"4 bits, stored": {model: "../quantized/gptq-asym", weights: auto, has: "int4 with zero", vocabulary: 32,
			slow: true},
		"8 bits, stored": {model: "../quantized/ct-w8a8", weights: auto, has: "int8", vocabulary: 32, slow: true},
		"fp8, stored":    {model: "../quantized/fp8-block", weights: auto, has: "fp8", vocabulary: 32, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			with := func(change func(*engine.Config)) *engine.Engine {
				cfg := contractConfig()
				cfg.Weights, cfg.DType = c.weights, c.dtype
				change(&cfg)
				return sharedEngine(t, c.model, cfg)
			}
			e := with(func(*engine.Config) {})
			if p := e.Plan(); !strings.Contains(p.Weights, c.has) {
				t.Fatalf("the plan has weights in %q", p.Weights)
			}
			requests := func() []*engine.Request {
				return within(cmp.Or(c.vocabulary, 256), append(contractRequests(), longRequests(8)...))
			}
			want := collect(t, e, requests()...)
			sameBytesInOtherCompany(t, e, want, requests)
			for name, change := range map[string]func(*engine.Config){
				"few pages":   func(c *engine.Config) { c.KVMemory = e.Plan().KVBytesPerToken * 16 * 16 },
				"64 slots":    func(c *engine.Config) { c.MaxSeqs = 64 },
				"small steps": func(c *engine.Config) { c.PageSize, c.PrefillTokens = 8, 16 },
			} {
				t.Run(name, func(t *testing.T) {
					if name != "few pages" {
						testenv.Slow(t)
					}
					other := with(change)
					sameBytes(t, want, collect(t, other, requests()...), true)
					if name == "few pages" && other.Stats().Preemptions == 0 {
						t.Error("no row was moved to the host")
					}
				})
			}
		})
	}
}

// within makes the tokens of requests those of a vocabulary.
func within(vocab int, requests []*engine.Request) []*engine.Request {
	into := func(tokens []int32) []int32 {
		all := slices.Clone(tokens)
		for i, token := range all {
			if all[i] = token % int32(vocab); token < 0 { // ends nothing, but is barred as others are
				all[i] = -2 - (-2-token)%int32(vocab)
			}
		}
		return all
	}
	for _, r := range requests {
		r.Tokens, r.StopTokens = into(r.Tokens), into(r.StopTokens)
		for i, s := range r.StopSequences {
			r.StopSequences[i] = into(s)
		}
	}
	return requests
}

// sameBytesInOtherCompany draws requests in another order, and each completion by itself.
func sameBytesInOtherCompany(t *testing.T, e *engine.Engine, want map[string]*engine.Completion,
	requests func() []*engine.Request) {
	t.Helper()
	mixed := requests()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	sameBytes(t, want, collect(t, e, mixed...), true)
	apart := map[string]*engine.Completion{}
	for _, r := range requests() {
		for g := range r.N {
			one := *r
			one.N, one.FirstGeneration = 1, g
			maps.Copy(apart, collect(t, e, &one))
		}
	}
	sameBytes(t, want, apart, true)
}
