package schedule

import (
	"slices"

	"github.com/quire/quire/prefix"
)

// add takes in a request that was checked.
func (s *scheduler) add(r *Request) {
	if s.Paged && s.PrefixCache {
		r.chain = prefix.Chain(s.seedOf(r), r.Tokens[:len(r.Tokens)-1], s.PageSize)
		s.counts.Add(r.chain, 1)
	}
	g := &group{Request: r}
	if r.Score > 0 {
		g.scores = newScores(len(r.Tokens), r.tops())
	}
	s.enqueue(g)
}

// enqueue puts g into the waiting queue.
func (s *scheduler) enqueue(g *group) {
	at := s.placeFor(g)
	for _, w := range s.waiting[at:] {
		w.passed++
	}
	s.waiting = slices.Insert(s.waiting, at, g)
}

// LookAhead is how many requests wait at least, if there are as many: those among them with the same prefix run
// together. It also bounds by how many others a request may be passed.
const LookAhead = 1024

// placeFor finds the place in the waiting queue behind the last of those that have the most pages in common with g; the
// end, where none has any. Nobody is passed by more than LookAhead others.
func (s *scheduler) placeFor(g *group) int {
	at, most := len(s.waiting), 1
	for i, w := range s.waiting {
		n := 0
		for n < min(len(w.chain), len(g.chain)) && w.chain[n] == g.chain[n] {
			n++
		}
		if n >= most {
			at, most = i+1, n
		}
	}
	for i := len(s.waiting) - 1; i >= at; i-- {
		if s.waiting[i].passed >= LookAhead {
			return i + 1
		}
	}
	return at
}

// wants says how many more requests the scheduler should look at.
func (s *scheduler) wants() int { return max(LookAhead, 2*s.MaxSeqs) - len(s.waiting) }
