package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/prefix"
)

// Whoever is in line gets to its front, however many come after it that have a prefix in common with those before it;
// and as long as nobody has waited for too long, those with the same prefix stand together.
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

// A holder that is given up before it was opened lets the one that it was to be a clone of go.
func TestGivingUpAnUnopenedHolder(t *testing.T) {
	s := &scheduler{
		e: &Engine{plan: Plan{slots: 1, PageSize: 1}}, freeHolders: []int{2, 1}, holders: make([]*holder, 2),
		release: make([]bool, 3), cache: prefix.NewCache(),
	}
	tokens := []int32{1, 2, 3, 4}
	f := &family{req: &Request{Tokens: tokens}, chain: prefix.Chain(prefix.Seed(), tokens, 1)}
	source := s.newHolder(f, 2, false, nil, 0)
	source.opened = true
	clone := s.newHolder(f, 4, false, source, 2)
	for _, want := range []*holder{clone, source} {
		if h, ok := s.evict(); !ok || h != want {
			t.Fatalf("gave up %+v, %v; want %+v", h, ok, want)
		}
	}
	if _, ok := s.evict(); ok || len(s.freeHolders) != 2 {
		t.Errorf("%d rows are free", len(s.freeHolders))
	}
}
