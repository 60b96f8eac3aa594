package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// The reproducibility contract: a completion depends on the model, the request, its generation and its seed, and on
// nothing else.

// contractRequests are of all kinds: greedy and sampled, with each filter, short and long, with clones and without.
func contractRequests() []*engine.Request {
	rng := rand.New(rand.NewPCG(7, 7))
	var requests []*engine.Request
	for i, length := range []int{1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100} {
		prompt := make([]int32, length)
		for j := range prompt {
			prompt[j] = int32(rng.IntN(256))
		}
		r := sampled(fmt.Sprintf("row-%d", i), prompt, 1+i%4, 5+rng.IntN(30), uint64(i))
		switch i % 5 {
		case 1:
			r.Sampling = sampling.Settings{TopP: 1}
		case 2:
			r.Sampling.TopK, r.Sampling.Temperature = 20, 0.8
		case 3:
			r.Sampling.TopP = 0.9
		case 4:
			r.Sampling.MinP = 0.05
		}
		requests = append(requests, r)
	}
	// Rows that may not draw some tokens until they have so many.
	for i, settings := range []sampling.Settings{{TopP: 1}, {TopP: 0.9, Temperature: 1, Seed: 3}} {
		r := sampled(fmt.Sprintf("barred-%d", i), requests[7].Tokens, 1+i, 24, 0)
		r.Sampling, r.StopTokens = settings, []int32{3, 77, 131, 200, 201, 202}
		r.Sampling.MinTokens = 11
		requests = append(requests, r)
	}
	// Rows that end behind one of several sequences of tokens, or at one of many tokens.
	for i, sequences := range [][][]int32{{{3, 77}, {200}, {131, 9, 4}}, {{77}, {78, 79}}} {
		r := sampled(fmt.Sprintf("sequences-%d", i), requests[8].Tokens, 3, 60, uint64(i))
		r.StopSequences = sequences
		for token := range int32(20 * i) {
			r.StopTokens = append(r.StopTokens, 5*token)
		}
		requests = append(requests, r)
	}
	return requests
}

const contractFamily = "smollm2-like"

// contractConfig is what the contract's tests vary.
func contractConfig() engine.Config {
	return engine.Config{MaxSeqs: 8, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, Debug: true,
		StopStates: 256}
}

// contractEngine is an engine of that configuration, changed, which other tests may have used.
func contractEngine(t testing.TB, change func(*engine.Config)) *engine.Engine {
	t.Helper()
	cfg := contractConfig()
	if change != nil {
		change(&cfg)
	}
	return sharedEngine(t, contractFamily, cfg)
}

func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

// sameBytes fails unless got has the completions of want, bit for bit; all of them, or those that got has.
func sameBytes(t *testing.T, want, got map[string]*engine.Completion, all bool) {
	t.Helper()
	if all && len(got) != len(want) {
		t.Errorf("got %d completions, want %d", len(got), len(want))
	}
	for key, g := range got {
		w := want[key]
		switch {
		case w == nil || w.Err != nil || g.Err != nil:
			t.Errorf("%s: got %+v, want %+v", key, g, w)
		case !slices.Equal(g.Tokens, w.Tokens):
			t.Errorf("%s: tokens %v, want %v", key, g.Tokens, w.Tokens)
		case !slices.Equal(bits(g.Logprobs), bits(w.Logprobs)) ||
			!slices.Equal(bits(g.ProcessedLogprobs), bits(w.ProcessedLogprobs)):
			t.Errorf("%s: the same tokens, but other bits of logprobs", key)
		case scoresOf(g) != scoresOf(w):
			t.Errorf("%s: the same tokens, but other bits of the likeliest ones or of the prompt", key)
		case !slices.Equal(g.Experts, w.Experts):
			t.Errorf("%s: the same tokens, but other experts", key)
		case !slices.Equal(g.Hidden, w.Hidden):
			t.Errorf("%s: the same tokens, but other hidden states", key)
		case g.FinishReason != w.FinishReason:
			t.Errorf("%s: finish reason %s, want %s", key, g.FinishReason, w.FinishReason)
		}
	}
}

func TestSameBytesWhateverElseRuns(t *testing.T) {
	e, want := contractEngine(t, nil), wantOfContract(t)
	t.Run("again", func(t *testing.T) { sameBytes(t, want, collect(t, e, contractRequests()...), true) })
	t.Run("another engine", func(t *testing.T) {
		sameBytes(t, want, collect(t, newEngine(t, contractFamily, contractConfig()), contractRequests()...), true)
	})
	t.Run("shuffled", func(t *testing.T) {
		r := contractRequests()
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(r), func(i, j int) { r[i], r[j] = r[j], r[i] })
		sameBytes(t, want, collect(t, e, r...), true)
	})
	t.Run("fewer rows", func(t *testing.T) {
		r := contractRequests()
		sameBytes(t, want, collect(t, e, r[3], r[10], r[6]), false)
	})
	t.Run("alone", func(t *testing.T) { sameBytes(t, want, collect(t, e, contractRequests()[11]), false) })
	t.Run("clones as separate requests", func(t *testing.T) {
		var single []*engine.Request
		for _, r := range contractRequests() {
			for g := range r.N {
				one := *r
				one.N, one.FirstGeneration = 1, g
				single = append(single, &one)
			}
		}
		sameBytes(t, want, collect(t, e, single...), true)
	})
}

func TestSameBytesWhateverTheCache(t *testing.T) {
	want := wantOfContract(t)
	for name, change := range map[string]func(*engine.Config){
		"page size 8":    func(c *engine.Config) { c.PageSize = 8 },
		"page size 32":   func(c *engine.Config) { c.PageSize = 32 },
		"contiguous":     func(c *engine.Config) { c.KV = "basic" },
		"few pages":      func(c *engine.Config) { c.KVMemory = 26 * 16 * 2 * 2 * 3 * 8 * 4 }, // 26 pages
		"one round":      func(c *engine.Config) { c.MaxRounds = 1 },
		"cleared memory": func(c *engine.Config) { c.ZeroPages = true },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "page size 8" && name != "contiguous" {
				testenv.Slow(t)
			}
			e := contractEngine(t, change)
			sameBytes(t, want, collect(t, e, contractRequests()...), true)
		})
	}
}

// With kernels a row's results do not depend on how many rows there are.
func TestSameBytesWhateverTheSlots(t *testing.T) {
	want := wantOfContract(t)
	for _, slots := range []int{1, 7, 64, 256} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			if slots != 64 {
				testenv.Slow(t)
			}
			sameBytes(t, want, collect(t, contractEngine(t, func(c *engine.Config) { c.MaxSeqs = slots }),
				contractRequests()...), true)
		})
	}
	t.Run("other prefill steps", func(t *testing.T) {
		testenv.Slow(t)
		sameBytes(t, want, collect(t, contractEngine(t, func(c *engine.Config) { c.PrefillTokens = 16 }),
			contractRequests()...), true)
	})
}

// Nor does it matter how many threads share a kernel's work: at most one a processor.
func TestSameBytesWhateverTheThreads(t *testing.T) {
	want := wantOfContract(t)
	t.Cleanup(func() { cpukernel.SetThreads(0) })
	for _, threads := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			if threads > runtime.NumCPU() {
				t.Skipf("%d processors: a kernel uses no more threads", runtime.NumCPU())
			}
			e := contractEngine(t, nil)
			cpukernel.SetThreads(threads)
			sameBytes(t, want, collect(t, e, contractRequests()...), true)
		})
	}
	// As where other processes come and go, from one kernel to the next.
	t.Run("changing", func(t *testing.T) {
		e := contractEngine(t, nil)
		done := make(chan struct{})
		var changes sync.WaitGroup
		changes.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
					cpukernel.SetThreads(1 + n%2)
				}
			}
		})
		got := collect(t, e, contractRequests()...)
		close(done)
		changes.Wait()
		sameBytes(t, want, got, true)
	})
}

// Without kernels other numbers of slots are other programs, whose products may round otherwise: tokens are equal,
// logprobs close. So are those with kernels.
func TestSameTokensWithoutKernels(t *testing.T) {
	want := wantOfContract(t)
	for _, slots := range []int{8, 1, 64} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			if slots != 8 {
				testenv.Slow(t)
			}
			got := collect(t, contractEngine(t, func(c *engine.Config) {
				c.MaxSeqs, c.Backend = slots,
					testenv.XLAWithoutKernels(t)
			}), contractRequests()...)
			for key, w := range want {
				g := got[key]
				if g == nil || !slices.Equal(g.Tokens, w.Tokens) {
					t.Errorf("%s: got %+v, want %v", key, g, w.Tokens)
					continue
				}
				for i := range w.Logprobs {
					if d := math.Abs(float64(g.Logprobs[i] - w.Logprobs[i])); d > 1e-4 {
						t.Errorf("%s: logprob %d differs by %g", key, i, d)
					}
				}
			}
		})
	}
}

// n may exceed the slots, and the pool may be so small that completions wait for each other.
func TestMoreCompletionsThanSlots(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory = smallPool })
	prompt := contractRequests()[9].Tokens
	want := map[string]*engine.Completion{}
	for g := range 20 {
		one := sampled("many", prompt, 1, 12, 3)
		one.FirstGeneration = g
		for k, c := range collect(t, e, one) {
			want[k] = c
		}
	}
	got := collect(t, e, sampled("many", prompt, 20, 12, 3))
	sameBytes(t, want, got, true)
	different := map[string]bool{}
	for _, c := range got {
		different[fmt.Sprint(c.Tokens)] = true
	}
	if len(different) < 15 {
		t.Errorf("20 completions at temperature 1 are only %d different ones", len(different))
	}
}

// The engine's graphs on GoMLX's backend in pure Go give the same tokens.
func TestSameTokensOnTheGoBackend(t *testing.T) {
	want := collect(t, contractEngine(t, nil), contractRequests()[:6]...)
	got := collect(t, contractEngine(t, func(c *engine.Config) { c.Backend = testenv.Go(t) }),
		contractRequests()[:6]...)
	for key, w := range want {
		if g := got[key]; g == nil || !slices.Equal(g.Tokens, w.Tokens) {
			t.Errorf("%s: got %+v, want %v", key, g, w.Tokens)
		}
	}
}
