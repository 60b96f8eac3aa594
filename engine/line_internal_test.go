package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/prefix"
)

// Whoever is in line gets to its front, however many come after it that have a prefix in common with those before it; and as long as nobody
// has waited for too long, those with the same prefix stand together.
func TestPlaceInLine(t *testing.T) {
	chain := func(group int) []prefix.Hash {
		return prefix.Chain(prefix.Seed(), []int32{int32(group), int32(group)}, 1)
	}
	s := &scheduler{e: &Engine{}, counts: prefix.Counts{}}
	add := func(group int) *family {
		f := &family{req: &Request{N: 1}, chain: chain(group)}
		if group == 0 {
			f.chain = nil
		}
		s.enqueue(f)
		return f
	}
	a, alone, b := add(1), add(0), add(2)
	c, d := add(1), add(2)
	for i, want := range []*family{a, c, alone, b, d} {
		if s.waiting[i] != want {
			t.Fatalf("place %d is another's", i)
		}
	}
	// The line moves on by one for each that comes; all that come are of one group.
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 3 * lookAhead {
		if i < lookAhead/2 || rng.IntN(50) > 0 {
			add(1)
		} else {
			add(0)
		}
		if i > lookAhead/2 {
			s.waiting = s.waiting[1:]
		}
		for _, f := range s.waiting {
			if f.passed > lookAhead {
				t.Fatal("one is passed for ever")
			}
		}
	}
	for _, f := range []*family{alone, b, d} {
		for _, w := range s.waiting {
			if w == f {
				t.Error("one still waits after 3,000 that came after it")
			}
		}
	}
}
