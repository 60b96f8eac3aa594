package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// stateful are the families whose layers keep different things of a sequence: states, of which a page has the one
// behind its last token, one of each kind of layer; keys and values of several sizes, or those of another layer;
// latents of them.
var stateful = []string{"lfm2", "qwen35", "granite4", "gemma4", "deepseek-v3"}

// stateEngine is contractEngine of another family, with memory for a number of pages if that is not 0.
func stateEngine(t testing.TB, family string, pages int64, change func(*engine.Config)) *engine.Engine {
	t.Helper()
	cfg := contractConfig()
	if change != nil {
		change(&cfg)
	}
	if pages > 0 {
		sizes := cfg
		sizes.Model = testenv.Model(t, family)
		withDefaults(t, &sizes)
		plan, err := sizes.Plan()
		if err != nil {
			t.Fatal(err)
		}
		cfg.KVMemory = pages * plan.PageBytes()
	}
	return sharedEngine(t, family, cfg)
}

// The contract with states: neither neighbours, order, clones, cuts of prompts into steps and pages, prefixes that are
// there already, nor preemption change a byte.
func TestSameBytesWithStates(t *testing.T) {
	for _, family := range append(slices.Clone(stateful), "qwen3-next") { // and experts
		t.Run(family, func(t *testing.T) {
			if family != "lfm2" && family != "deepseek-v3" {
				testenv.Slow(t)
			}
			cold := stateEngine(t, family, 0, func(c *engine.Config) { c.NoPrefixCache = true })
			requests := func() []*engine.Request { return slices.Concat(contractRequests(), sharingRequests()) }
			want := collect(t, cold, requests()...)
			t.Run("alone", func(t *testing.T) {
				for _, i := range []int{3, 11} {
					r := contractRequests()[i]
					for g := range r.N {
						one := *r
						one.N, one.FirstGeneration = 1, g
						sameBytes(t, want, collect(t, cold, &one), false)
					}
				}
			})
			t.Run("few pages, short steps", func(t *testing.T) {
				e := stateEngine(t, family, 44, func(c *engine.Config) {
					c.PageSize, c.PrefillTokens, c.Admission = 8, 16, engine.Overcommit
				})
				sameBytes(t, want, collectInOrder(t, e, requests()...), true)
				s := e.Stats()
				if s.HitTokens < 500 {
					t.Errorf("%d tokens were taken over: the prefix cache is not in use", s.HitTokens)
				}
				if !testing.Short() || family == stateful[0] {
					shuffled := requests()
					rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) {
						shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
					})
					sameBytes(t, want, collect(t, e, shuffled...), true)
				}
				long := collectInOrder(t, cold, longRequests(8)...)
				sameBytes(t, long, collectInOrder(t, e, longRequests(8)...), true)
				if s := e.Stats(); s.Preemptions == 0 {
					t.Error("no sequence was moved: the test does not reach what it is for")
				}
			})
			t.Run("contiguous", func(t *testing.T) {
				testenv.Slow(t)
				e := stateEngine(t, family, 0, func(c *engine.Config) { c.KV = "basic" })
				sameBytes(t, want, collect(t, e, requests()...), true)
			})
			t.Run("cleared memory", func(t *testing.T) {
				testenv.Slow(t)
				e := stateEngine(t, family, 0, func(c *engine.Config) { c.ZeroPages = true })
				sameBytes(t, want, collect(t, e, requests()...), true)
			})
		})
	}
}

// Contexts with states: forked, cut anywhere, saved and opened again they draw the same, and score the same tokens.
func TestContextsWithStates(t *testing.T) {
	testenv.Slow(t)
	for _, family := range stateful {
		t.Run(family, func(t *testing.T) {
			cold := stateEngine(t, family, 0, func(c *engine.Config) { c.NoPrefixCache = true })
			want := collect(t, cold, contractRequests()...)
			contexts := func(c *engine.Config) { c.Contexts, c.HostKVMemory = 8, 1<<20 }
			e := stateEngine(t, family, contextPages, contexts)
			loadsPrefix(t, e, stateEngine(t, family, contextPages, contexts), want)
			free := e.Contexts().FreePages()
			for i, r := range contractRequests() {
				tokens := r.Tokens
				parent := open(t, e, tokens[:len(tokens)*(i%4)/4]...)
				c := fork(t, parent)
				rest := *r
				rest.Tokens = nil
				// Something else comes and is cut off, within a page and at its end; then the rest.
				err := errors.Join(c.Append(1, 2, 3, 4, 5, 6, 7, 8, 9), c.Flush(t.Context()), c.TruncateCommitted(2),
					c.Flush(t.Context()), c.TruncateCommitted(7), c.Append(tokens[len(parent.Tokens()):]...),
					c.Flush(t.Context()))
				if err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 {
					name := fmt.Sprint(i)
					if err = errors.Join(c.Save(name), c.Close()); err == nil {
						c, err = e.Contexts().OpenSnapshot(name)
					}
					if err = errors.Join(err, e.Contexts().DeleteSnapshot(name)); err != nil {
						t.Fatal(err)
					}
				}
				completions, err := c.Generate(t.Context(), &rest)
				if err != nil {
					t.Fatalf("%s: %v", r.ID, err)
				}
				got := map[string]*engine.Completion{}
				for _, d := range completions {
					got[fmt.Sprintf("%s/%d", d.Request.ID, d.Generation)] = d
				}
				sameBytes(t, want, got, false)
				d := completions[0]
				logprobs, err := c.Score(t.Context(), d.Tokens)
				if err != nil || !closeTo(logprobs, d.Logprobs, 1e-4) {
					t.Errorf("%s: score %v, drawn with %v: %v", r.ID, logprobs, d.Logprobs, err)
				}
				if err := errors.Join(c.Close(), parent.Close()); err != nil {
					t.Fatal(err)
				}
				if e.Contexts().FreePages() != free {
					t.Fatalf("%s: %d pages are free, %d were", r.ID, e.Contexts().FreePages(), free)
				}
			}
		})
	}
}

// loadsPrefix says that an engine goes on from a prefix in a file of another one.
func loadsPrefix(t *testing.T, from, to *engine.Engine, want map[string]*engine.Completion) {
	t.Helper()
	var file bytes.Buffer
	r := contractRequests()[13]
	saved, err := from.SavePrefix(t.Context(), r.Tokens, &file)
	if err == nil {
		_, err = to.LoadPrefix(&file)
	}
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, want, collect(t, to, r), false)
	if hits := to.Stats().HitTokens; saved < 96 || hits < saved {
		t.Errorf("%d tokens were saved, %d were taken over", saved, hits)
	}
	if err := to.UnpinPrefix(r.Tokens[:saved]); err != nil {
		t.Error(err)
	}
}

// Latents, which are keys and values, are stored once.
func TestLatentsAreStoredOnce(t *testing.T) {
	for kv, want := range map[dtypes.DType]int64{dtypes.Float32: 3 * 24 * 4, dtypes.Int8: 3 * (24 + 4)} {
		plan, err := engine.Config{Model: testenv.Model(t, "deepseek-v3"), Backend: testenv.XLA(t), KVDType: kv}.Plan()
		if err != nil || plan.KVBytesPerToken != want {
			t.Errorf("%s: a token takes %d bytes, want %d: %v", kv, plan.KVBytesPerToken, want, err)
		}
	}
}
