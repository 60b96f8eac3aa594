package engine_test

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Completions of models whose matrices are in blocks, experts too, depend on nothing but their request: not on other
// rows, their order, clones, slots, pages, steps of prompts, or on having been moved to the host and back.
func TestSameBytesOfBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		family, weights string
		dtype           dtypes.DType
		slow            bool
	}{
		"experts in bf16": {family: "mixtral", weights: "q8_0", dtype: dtypes.BFloat16},
		"4 bits in f32":   {family: "llama3", weights: "q4_0", slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			with := func(change func(*engine.Config)) *engine.Engine {
				cfg := contractConfig()
				cfg.Weights, cfg.DType = c.weights, c.dtype
				change(&cfg)
				return sharedEngine(t, c.family, cfg)
			}
			e := with(func(*engine.Config) {})
			if p := e.Plan(); !strings.Contains(p.Weights, strings.ToUpper(c.weights)) {
				t.Fatalf("the plan has weights in %q", p.Weights)
			}
			sameBytesOfBlocks(t, e)
			requests := append(contractRequests(), longRequests(8)...)
			want := collect(t, e, requests...)
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
					sameBytes(t, want, collect(t, other, requests...), true)
					if name == "few pages" && other.Stats().Preemptions == 0 {
						t.Error("no row was moved to the host")
					}
				})
			}
		})
	}
}

// sameBytesOfBlocks draws requests of the contract in other company.
func sameBytesOfBlocks(t *testing.T, e *engine.Engine) {
	want := collect(t, e, contractRequests()...)
	mixed := contractRequests()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	sameBytes(t, want, collect(t, e, mixed...), true)
	apart := map[string]*engine.Completion{}
	for _, r := range contractRequests() {
		for g := range r.N {
			one := *r
			one.N, one.FirstGeneration = 1, g
			maps.Copy(apart, collect(t, e, &one))
		}
	}
	sameBytes(t, want, apart, true)
}
