package engine_test

import (
	"fmt"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/sampling"
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

// Drafts change no byte, and some are drawn.
func TestSameBytesWithDrafts(t *testing.T) {
	for name, change := range map[string]func(*engine.Config){
		"auto": func(c *engine.Config) { c.Speculate = engine.SpeculateAuto },
	} {
		t.Run(name, func(t *testing.T) {
			requests := func() []*engine.Request { return append(repeatingRequests(), contractRequests()...) }
			want := collect(t, contractEngine(t, nil), requests()...)
			e := contractEngine(t, change)
			sameBytes(t, want, collect(t, e, requests()...), true)
			s := e.Stats()
			t.Logf("%d of %d tokens drafted, %d of them drawn, %d steps", s.DraftedTokens, s.DrawnTokens,
				s.AcceptedTokens, s.DecodeSteps)
			if s.AcceptedTokens == 0 || s.AcceptedTokens == s.DraftedTokens {
				t.Errorf("of %d drafts %d were drawn", s.DraftedTokens, s.AcceptedTokens)
			}
		})
	}
	_ = testenv.Slow
}
