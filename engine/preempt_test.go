package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// pagesOf is the KV memory of n pages of 16 tokens of the contract family in float32.
func pagesOf(n int64) int64 { return n * 16 * 2 * 2 * 3 * 8 * 4 }

// smallPool is the KV memory of tests in which pages run out: one number of pages, and so the same programs.
var smallPool = pagesOf(22)

// longRequests each come to most of the pool if they can.
func longRequests(n int) []*engine.Request {
	rng := rand.New(rand.NewPCG(11, 11))
	var requests []*engine.Request
	for i := range n {
		prompt := make([]int32, 3+rng.IntN(40))
		for j := range prompt {
			prompt[j] = int32(rng.IntN(256))
		}
		r := sampled(fmt.Sprint(i), prompt, 1+i%3, 60+rng.IntN(50), uint64(i))
		if i%2 == 1 { // tokens that may not be drawn before the last ten, and then end nothing
			r.Sampling.MinTokens, r.StopTokens = r.MaxTokens-10, []int32{-2 - 7, -2 - 40, -2 - 99, -2 - 200}
		}
		requests = append(requests, r)
	}
	return requests
}

// Sequences that are moved to the host and back draw the very same tokens, and all of them end: with pages for a tenth
// of what they want.
func TestOvercommitDrawsTheSame(t *testing.T) {
	want := wantOfLong(t)
	demand := int64(0)
	for _, r := range longRequests(16) {
		demand += int64(r.N * (len(r.Tokens) + r.MaxTokens + 15) / 16)
	}
	for name, c := range map[string]struct {
		pages int64
		slow  bool
	}{"tight": {pages: 22}, "one at its longest": {pages: 11, slow: true}} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			e := contractEngine(t, func(cfg *engine.Config) {
				cfg.KVMemory, cfg.Admission = pagesOf(c.pages),
					engine.Overcommit
			})
			sameBytes(t, want, collectInOrder(t, e, longRequests(16)...), true)
			s := e.Stats()
			if c.pages*10 > demand {
				t.Errorf("%d pages are more than a tenth of the %d wanted", c.pages, demand)
			}
			t.Logf("%d pages of %d wanted: %d moves of %d bytes, %d calls", s.Pages, demand, s.Preemptions,
				s.MovedBytes, s.Calls)
			if s.Preemptions == 0 {
				t.Error("no sequence was moved: the test does not reach what it is for")
			}
		})
	}
}
