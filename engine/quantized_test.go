package engine_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Keys and values of 8 bits keep the contract: a completion has the same bytes whatever runs beside it, wherever its
// pages lie, and however often they move.
func TestSameBytesWithQuantizedKeys(t *testing.T) {
	for _, kv := range []dtypes.DType{dtypes.Int8, dtypes.F8E4M3FN} {
		with := func(change func(*engine.Config)) *engine.Engine {
			return contractEngine(t, func(c *engine.Config) {
				c.KVDType = kv
				if change != nil {
					change(c)
				}
			})
		}
		// Of head dim 8, 12 bytes a key or value.
		pool := int64(22 * 16 * 2 * 2 * 3 * 12)
		t.Run(kv.String(), func(t *testing.T) {
			if kv != dtypes.Int8 {
				testenv.Slow(t)
			}
			e := with(nil)
			want := collect(t, e, contractRequests()...)
			if floats := wantOfContract(t); slices.Equal(bits(floats["row-13/0"].Logprobs),
				bits(want["row-13/0"].Logprobs)) {
				t.Error("the logprobs are those of float32 keys and values")
			}
			t.Run("shuffled", func(t *testing.T) {
				r := contractRequests()
				rand.New(rand.NewPCG(1, 2)).Shuffle(len(r), func(i, j int) { r[i], r[j] = r[j], r[i] })
				sameBytes(t, want, collect(t, e, r...), true)
			})
			t.Run("alone", func(t *testing.T) { sameBytes(t, want, collect(t, e, contractRequests()[11]), false) })
			for name, change := range map[string]func(*engine.Config){
				"page size 8":   func(c *engine.Config) { c.PageSize = 8 },
				"contiguous":    func(c *engine.Config) { c.KV = "basic" },
				"other prefill": func(c *engine.Config) { c.PrefillTokens = 16 },
				"64 slots":      func(c *engine.Config) { c.MaxSeqs = 64 },
			} {
				t.Run(name, func(t *testing.T) {
					testenv.Slow(t)
					sameBytes(t, want, collect(t, with(change), contractRequests()...), true)
				})
			}
			t.Run("few pages", func(t *testing.T) {
				testenv.Slow(t)
				want := collect(t, e, longRequests(16)...)
				few := with(func(c *engine.Config) { c.KVMemory, c.Admission = pool, engine.Overcommit })
				sameBytes(t, want, collectInOrder(t, few, longRequests(16)...), true)
				if s := few.Stats(); s.Preemptions == 0 {
					t.Error("no sequence was moved: the test does not reach what it is for")
				}
			})
			t.Run("host memory and snapshots", func(t *testing.T) {
				want := collect(t, e, sharingRequests()...)
				memory := func(c *engine.Config) { c.KVMemory, c.HostKVMemory = pool, 64<<20 }
				host := with(memory)
				sameBytes(t, want, collectInOrder(t, host, sharingRequests()...), true)
				if s := host.Stats(); s.MovedBytes == 0 {
					t.Error("nothing was moved: the test does not reach what it is for")
				}
				var file bytes.Buffer
				prompt := sharingRequests()[49].Tokens // of 80
				if n, err := host.SavePrefix(t.Context(), prompt, &file); err != nil || n != 80 {
					t.Fatalf("saved %d tokens: %v", n, err)
				}
				other := with(memory)
				if tokens, err := other.LoadPrefix(&file); err != nil || len(tokens) != 80 {
					t.Fatalf("loaded %d tokens: %v", len(tokens), err)
				}
				sameBytes(t, want, collect(t, other, sharingRequests()[49]), false)
			})
		})
	}
}

// So do those beside layers that keep a state, those of several sizes, and latents.
func TestSameBytesWithQuantizedKeysAndStates(t *testing.T) {
	testenv.Slow(t)
	for _, family := range []string{"lfm2", "gemma4", "deepseek-v3"} {
		t.Run(family, func(t *testing.T) {
			int8Keys := func(c *engine.Config) { c.KVDType = dtypes.Int8 }
			e := stateEngine(t, family, 0, int8Keys)
			want := collect(t, e, contractRequests()...)
			sameBytes(t, want, collect(t, e, contractRequests()[11]), false)
			few := stateEngine(t, family, 44, func(c *engine.Config) {
				int8Keys(c)
				c.PageSize, c.PrefillTokens, c.Admission = 8, 16, engine.Overcommit
			})
			sameBytes(t, want, collectInOrder(t, few, contractRequests()...), true)
		})
	}
}
