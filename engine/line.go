package engine

import (
	"slices"

	"github.com/quire/quire/prefix"
)

// add takes in a request that was checked.
func (s *scheduler) add(f *family) {
	r := f.req
	if s.e.plan.layout.Paged && s.e.plan.PrefixCache {
		f.chain = prefix.Chain(s.e.prefixSeed, r.Tokens[:len(r.Tokens)-1], s.e.plan.PageSize)
		s.counts.Add(f.chain, 1)
	}
	s.enqueue(f)
}

// enqueue puts f in line.
func (s *scheduler) enqueue(f *family) {
	at := s.placeFor(f)
	for _, w := range s.waiting[at:] {
		w.passed++
	}
	s.waiting = slices.Insert(s.waiting, at, f)
}

// lookAhead is how many requests wait in line at least, if there are as many: those among them with the same prefix run
// together.
const lookAhead = 1024

// placeFor finds the place in line behind the last of those that have the most pages in common with f; the end, where
// none has any. Nobody is passed by more than lookAhead others.
func (s *scheduler) placeFor(f *family) int {
	at, most := len(s.waiting), 1
	for i, w := range s.waiting {
		n := 0
		for n < min(len(w.chain), len(f.chain)) && w.chain[n] == f.chain[n] {
			n++
		}
		if n >= most {
			at, most = i+1, n
		}
	}
	for i := len(s.waiting) - 1; i >= at; i-- {
		if s.waiting[i].passed >= lookAhead {
			return i + 1
		}
	}
	return at
}

// wants says how many more requests the scheduler should look at.
func (s *scheduler) wants() int { return max(lookAhead, 2*s.e.plan.MaxSeqs) - len(s.waiting) }
