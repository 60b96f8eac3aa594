package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// ran is how many prompt tokens the last run ran, and how many it took over.
func ran(e *engine.Engine) (tokens, hits int) { return e.Stats().PrefillTokens, e.Stats().HitTokens }

// A prefix is found again after 5,000 other requests, and in a second run.
func TestPagesLast(t *testing.T) {
	e := contractEngine(t, nil)
	requests := []*engine.Request{greedy("first", append(sharing(900, 144), 1), 1)}
	for i := range 5000 {
		requests = append(requests, greedy(fmt.Sprint(i), []int32{int32(i % 256), int32(i / 256), 3}, 1))
	}
	requests = append(requests, greedy("last", append(sharing(900, 144), 2), 1))
	collectInOrder(t, e, requests...)
	if tokens, hits := ran(e); hits != 144 || tokens != 145+5000*3+1 {
		t.Errorf("%d tokens were run and %d taken over, want %d and 144", tokens, hits, 145+5000*3+1)
	}
	collectInOrder(t, e, greedy("again", append(sharing(900, 144), 3), 1))
	if tokens, hits := ran(e); hits != 144 || tokens != 1 {
		t.Errorf("%d tokens were run and %d taken over in a second run", tokens, hits)
	}
}

// What a cancelled run computed serves the next one, with the same bytes.
func TestCancelledRunKeepsPages(t *testing.T) {
	e := contractEngine(t, nil)
	want := wantOfLong(t)
	requests := longRequests(16)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended *engine.Request
	for c, err := range e.Run(ctx, slices.Values(requests)) {
		cancel()
		if err != nil && err != context.Canceled {
			t.Fatal(err)
		}
		if c != nil {
			ended = c.Request
		}
	}
	if ended == nil {
		t.Fatal("nothing came out before the run was cancelled")
	}
	if d, err := e.Tables(); err != nil || d.Pages.Free != e.Plan().Pages {
		t.Errorf("%d pages of %d are free: %v", d.Pages.Free, e.Plan().Pages, err)
	}
	sameBytes(t, want, collectInOrder(t, e, ended), false)
	pageSize := e.Plan().PageSize
	if _, hits := ran(e); hits < (len(ended.Tokens)-1)/pageSize*pageSize {
		t.Errorf("%d prompt tokens of %d were taken over", hits, len(ended.Tokens))
	}
	sameBytes(t, want, collect(t, e, requests...), true)
}

// A job that finds the pool full of another job's pages, is killed at any moment, and goes on in the same pool or in
// another process draws what it would draw alone.
func TestSameBytesWithAReusedPool(t *testing.T) {
	want := wantOfContract(t)
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory = smallPool })
	rng := rand.New(rand.NewPCG(5, 5))
	for round := range 4 {
		var earlier []*engine.Request // the same prompts and beginnings of them, with other completions
		for i, r := range contractRequests() {
			cut := max(1, len(r.Tokens)-round*i)
			earlier = append(earlier, sampled(fmt.Sprint("earlier-", round, i), r.Tokens[:cut], 2, 20, uint64(round)))
		}
		collect(t, e, earlier...)

		got := map[string]*engine.Completion{}
		ctx, kill := context.WithCancel(t.Context())
		last := rng.IntN(len(want) - 1)
		for c, err := range e.Run(ctx, slices.Values(contractRequests())) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if c != nil {
				got[fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)] = c
			}
			if len(got) > last {
				kill()
			}
		}
		kill()
		var rest []*engine.Request
		for _, r := range contractRequests() {
			for g := range r.N {
				if got[fmt.Sprintf("%s/%d", r.ID, g)] == nil {
					one := *r
					one.N, one.FirstGeneration = 1, g
					rest = append(rest, &one)
				}
			}
		}
		if len(got) == 0 || len(rest) == 0 {
			t.Errorf("%d completions came before the end, and %d remained", len(got), len(rest))
		}
		after := e
		if round%2 == 1 {
			after = contractEngine(t, nil)
		}
		maps.Copy(got, collect(t, after, rest...))
		sameBytes(t, want, got, true)
	}
}

// Of prompts of a few shots, in any order, each shot is run once.
func TestShuffledShots(t *testing.T) {
	const kinds, each, shots = 4, 60, 96
	e := contractEngine(t, nil)
	var requests []*engine.Request
	for i := range kinds * each {
		prompt := append(sharing(uint64(910+i%kinds), shots), int32(i/kinds), 9, 9)
		requests = append(requests, greedy(fmt.Sprint(i), prompt, 3))
	}
	rand.New(rand.NewPCG(4, 4)).Shuffle(len(requests), func(i, j int) {
		requests[i], requests[j] = requests[j], requests[i]
	})
	collectInOrder(t, e, requests...)
	if tokens, _ := ran(e); tokens != kinds*shots+kinds*each*3 {
		t.Errorf("%d tokens were run, want %d", tokens, kinds*shots+kinds*each*3)
	}
}

// Each turn of a conversation begins with the last one's prompt and completion: only what no page holds is run, and the
// bytes are those of an engine that keeps nothing. Conversations take the room of others in a pool of few pages. Of
// completions that are leaves no page is kept.
func TestConversations(t *testing.T) {
	for name, c := range map[string]struct {
		family string
		change func(*engine.Config)
		few    bool
		slow   bool
	}{
		"room for all": {},
		"few pages":    {few: true},
		"bf16":         {change: func(c *engine.Config) { c.DType = dtypes.BFloat16 }, slow: true},
		"f16":          {change: func(c *engine.Config) { c.DType = dtypes.Float16 }, slow: true},
		"int8":         {change: func(c *engine.Config) { c.Weights = "int8" }, slow: true},
		"two devices": {change: func(c *engine.Config) { c.Backend = testenv.Group(t, xla.KernelsAuto, 0, 1) },
			slow: true},
		"gemma2":        {family: "gemma2", slow: true},
		"qwen3 in bf16": {family: "qwen3", change: func(c *engine.Config) { c.DType = dtypes.BFloat16 }, slow: true},
		"windows":       {family: "mistral", slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			with := func(more func(*engine.Config)) *engine.Engine {
				cfg := contractConfig()
				if c.change != nil {
					c.change(&cfg)
				}
				more(&cfg)
				return sharedEngine(t, cmp.Or(c.family, contractFamily), cfg)
			}
			cold := with(func(c *engine.Config) { c.NoPrefixCache = true })
			e := with(func(cfg *engine.Config) {
				if c.few {
					cfg.KVMemory = smallPool
				}
			})
			pageSize := e.Plan().PageSize
			prompts := map[string][]int32{}
			held := map[string]int{} // tokens of which pages have names
			for i := range 6 {
				prompts[fmt.Sprint(i)] = sharing(uint64(920+i), 20+3*i)
			}
			for turn := range 4 {
				var requests []*engine.Request
				want, all := 0, 0
				for i := range len(prompts) {
					id := fmt.Sprint(i)
					r := sampled(id, prompts[id], 1, 9+i, uint64(turn))
					r.Leaf = i%3 == 2
					requests = append(requests, r)
					want += min(held[id], len(r.Tokens)-1) / pageSize * pageSize
					all += len(r.Tokens)
				}
				expected := collect(t, cold, requests...)
				got := collectInOrder(t, e, requests...)
				sameBytes(t, expected, got, true)
				if tokens, hits := ran(e); !c.few && (hits != want || tokens != all-want) {
					t.Errorf("turn %d: %d tokens were run and %d taken over, want %d and %d", turn, tokens, hits,
						all-want, want)
				}
				for id, prompt := range prompts {
					drawn := got[id+"/0"].Tokens
					if held[id] = len(prompt); e.Plan().NameDrawn && !got[id+"/0"].Request.Leaf {
						held[id] += len(drawn) - 1 // the last one is not run
					}
					prompts[id] = slices.Concat(prompt, drawn, sharing(uint64(turn), 2+turn))
				}
			}
		})
	}
}

// With the prefix cache off nothing is shared between requests, also where pages may move to the host.
func TestPrefixCacheOff(t *testing.T) {
	for name, options := range map[string]func(*engine.Config){
		"device": func(c *engine.Config) { c.NoPrefixCache = true },
		"host":   func(c *engine.Config) { c.NoPrefixCache, c.HostKVMemory = true, 1<<20 },
	} {
		t.Run(name, func(t *testing.T) {
			e := contractEngine(t, options)
			for range 2 {
				collectInOrder(t, e, greedy("a", sharing(930, 64), 1), greedy("b", sharing(930, 64), 1))
				if tokens, hits := ran(e); hits != 0 || tokens != 128 {
					t.Errorf("%d tokens were run and %d taken over, want 128 and 0", tokens, hits)
				}
			}
		})
	}
}
