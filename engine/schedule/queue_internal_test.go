package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/prefix"
)

// Whoever is in line gets to its front, however many come after it that have a prefix in common with those before it;
// and as long as nobody has waited for too long, those with the same prefix stand together.
func TestPlaceInLine(t *testing.T) {
	chain := func(number int) []prefix.Hash {
		return prefix.Chain(prefix.Seed(), []int32{int32(number), int32(number)}, 1)
	}
	s := &scheduler{counts: prefix.Counts{}}
	add := func(number int) *group {
		f := &group{Request: &Request{N: 1, chain: chain(number)}}
		if number == 0 {
			f.chain = nil
		}
		s.enqueue(f)
		return f
	}
	a, alone, b := add(1), add(0), add(2)
	c, d := add(1), add(2)
	for i, want := range []*group{a, c, alone, b, d} {
		if s.waiting[i] != want {
			t.Fatalf("place %d is another's", i)
		}
	}
	// The line moves on by one for each that comes; all that come are of one group.
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 3 * LookAhead {
		if i < LookAhead/2 || rng.IntN(50) > 0 {
			add(1)
		} else {
			add(0)
		}
		if i > LookAhead/2 {
			s.waiting = s.waiting[1:]
		}
		for _, f := range s.waiting {
			if f.passed > LookAhead {
				t.Fatal("one is passed for ever")
			}
		}
	}
	for _, f := range []*group{alone, b, d} {
		for _, w := range s.waiting {
			if w == f {
				t.Error("one still waits after 3,000 that came after it")
			}
		}
	}
}

// A prefix row that is given up before it was opened lets the one that it was to be a clone of go.
func TestGivingUpAnUnopenedPrefix(t *testing.T) {
	s := &scheduler{
		Sizes: Sizes{Slots: 1, PageSize: 1}, cfg: &Config{}, freePrefix: []int{2, 1}, prefixes: make([]*prefixRow, 2),
		release: make([]bool, 3), cache: prefix.NewCache(),
	}
	tokens := []int32{1, 2, 3, 4}
	g := &group{Request: &Request{Tokens: tokens, chain: prefix.Chain(prefix.Seed(), tokens, 1)}}
	source := s.newPrefix(g, 2, false, nil, 0)
	source.opened = true
	clone := s.newPrefix(g, 4, false, source, 2)
	for _, want := range []*prefixRow{clone, source} {
		if p, ok := s.evict(); !ok || p != want {
			t.Fatalf("gave up %+v, %v; want %+v", p, ok, want)
		}
	}
	if _, ok := s.evict(); ok || len(s.freePrefix) != 2 {
		t.Errorf("%d rows are free", len(s.freePrefix))
	}
}
