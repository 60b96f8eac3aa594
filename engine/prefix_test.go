package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// sharingRequests have prefixes in common that end around the borders of pages (16) and of prefill steps (64), some
// within one another.
func sharingRequests() []*engine.Request {
	rng := rand.New(rand.NewPCG(5, 5))
	tokens := func(n int) []int32 {
		x := make([]int32, n)
		for i := range x {
			x[i] = int32(rng.IntN(256))
		}
		return x
	}
	var requests []*engine.Request
	for i, length := range []int{15, 16, 17, 31, 32, 33, 63, 64, 65, 80} {
		base := tokens(length)
		for j := range 4 {
			prompt := append(append([]int32{}, base[:length-(j%2)*(length/2)]...), tokens(1+rng.IntN(20))...)
			requests = append(requests, sampled(fmt.Sprintf("p%d-%d", i, j), prompt, 1+(i+j)%3, 4+rng.IntN(12),
				uint64(i)))
		}
		requests = append(requests, sampled(fmt.Sprintf("p%d-whole", i), base, 1, 6, 1))
	}
	return requests
}

// Whether a prefix is there already, is run for others too, or was given up for room, does not change a bit of what is
// drawn.
func TestSameBytesWithPrefixCache(t *testing.T) {
	cold := contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true })
	want := collectInOrder(t, cold, sharingRequests()...)
	without := cold.Stats()
	t.Run("on", func(t *testing.T) {
		e := contractEngine(t, nil)
		sameBytes(t, want, collectInOrder(t, e, sharingRequests()...), true)
		s := e.Stats()
		t.Logf("prefill tokens %d, %d without the cache; %d hits", s.PrefillTokens, without.PrefillTokens, s.HitTokens)
		if s.PrefillTokens >= without.PrefillTokens*3/4 {
			t.Errorf("%d prompt tokens were run, %d without the cache", s.PrefillTokens, without.PrefillTokens)
		}
		if s.PrefillTokens+s.HitTokens < without.PrefillTokens {
			t.Errorf("%d tokens run and %d taken over are less than the %d that there are", s.PrefillTokens,
				s.HitTokens, without.PrefillTokens)
		}
		r := sharingRequests()
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(r), func(i, j int) { r[i], r[j] = r[j], r[i] })
		sameBytes(t, want, collect(t, e, r...), true)
	})
	t.Run("few pages", func(t *testing.T) {
		testenv.Slow(t)
		e := contractEngine(t, func(c *engine.Config) { c.KVMemory = 14 * 16 * 2 * 2 * 3 * 8 * 4 }) // 14 pages
		sameBytes(t, want, collect(t, e, sharingRequests()...), true)
	})
}

// Prompts of many groups come mixed, and there is room for few prefixes: those with the same one run together, so that
// each is run once.
func TestSharedPrefixesRunTogether(t *testing.T) {
	const groups, each, common = 20, 8, 64
	var requests []*engine.Request
	for i := range groups * each {
		requests = append(requests, greedy(fmt.Sprint(i), append(sharing(uint64(i%groups), common), int32(i/groups), 7,
			7), 4))
	}
	want := collect(t, contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true }), requests...)
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory = smallPool })
	sameBytes(t, want, collectInOrder(t, e, requests...), true)
	s := e.Stats()
	t.Logf("%d prompt tokens were run, %d are there", s.PrefillTokens, s.PromptTokens)
	if least := groups*common + groups*each*3; s.PrefillTokens > s.PromptTokens/3 {
		t.Errorf("%d prompt tokens of %d were run, %d would do", s.PrefillTokens, s.PromptTokens, least)
	}
}

// Two hundred prompts with the same few-shot prefix: the prefix is run once.
func TestSharedPrefixIsRunOnce(t *testing.T) {
	e := contractEngine(t, nil)
	base := contractRequests()[13].Tokens // 100 tokens
	var requests []*engine.Request
	for i := range 200 {
		requests = append(requests, greedy(fmt.Sprint(i), append(append([]int32{}, base...), int32(i), 7), 4))
	}
	collectInOrder(t, e, requests...)
	if s := e.Stats(); s.PrefillTokens > 200*(102-96)+100 {
		t.Errorf("%d prompt tokens of %d were run", s.PrefillTokens, s.PromptTokens)
	}
}

// Sequences that end give their slots to others inside a call: lengths of 4 to 60 take hardly more steps than if all
// were alike.
func TestSlotsAreRefilledInTheLoop(t *testing.T) {
	e := contractEngine(t, nil)
	rng := rand.New(rand.NewPCG(9, 9))
	var requests []*engine.Request
	total := 0
	for i := range 120 {
		n := 4 + rng.IntN(57)
		total += n - 1 // the first is drawn by prefill
		requests = append(requests, greedy(fmt.Sprint(i), []int32{int32(i), 2, 3}, n))
	}
	collectInOrder(t, e, requests...)
	s := e.Stats()
	t.Logf("%d calls, %d decode steps for %d tokens", s.Calls, s.DecodeSteps, total)
	if ideal := total / 8; s.DecodeSteps > ideal*105/100+60 {
		t.Errorf("%d decode steps, %d would do if no slot was ever empty", s.DecodeSteps, ideal)
	}
	if full := s.DecodeSteps / 8; s.Calls > full*5/4+8 { // those of MaxRounds steps each
		t.Errorf("%d calls for %d decode steps: the host came between", s.Calls, s.DecodeSteps)
	}
}
