package schedule

import "github.com/quire/quire/prefix"

// drop gives up a prefix row.
func (s *scheduler) drop(p *prefixRow) {
	if p.opened {
		s.release[p.row] = true
	}
	s.freePrefix = append(s.freePrefix, p.row)
	s.prefixes[p.row-s.Slots] = nil
}

// evict gives up the prefix row that was used longest ago, if one is not in use.
func (s *scheduler) evict() (*prefixRow, bool) {
	row, ok := s.cache.Evict()
	if !ok {
		return nil, false
	}
	p := s.prefixes[row-s.Slots]
	s.offload(p)
	if p.source != nil { // it was never opened
		s.cache.Unuse(p.source.row)
	}
	s.drop(p)
	return p, true
}

// keepOnHost leaves the prefix row of a chain in the host cache.
func (s *scheduler) keepOnHost(chain []prefix.Hash) error {
	if row, pages := s.cache.Longest(chain); pages == len(chain) && pages > 0 {
		s.offload(s.prefixes[row-s.Slots])
	}
	return s.err
}

// dropAll gives up all prefix rows but contexts, and lets those who wait for them decide anew.
func (s *scheduler) dropAll() {
	for _, g := range s.waiting {
		g.assigned, g.source, g.held = false, nil, 0
	}
	for _, m := range s.swapped {
		m.back = nil // what is on the host is loaded again
	}
	for _, p := range s.prefixes {
		if p != nil && p.pinned == nil {
			s.cache.Remove(p.row)
			s.drop(p)
		}
	}
}

// newPrefix makes a prefix row of the first size tokens of g's prompt, a clone of source if that is not nil. With
// first, the pages of g's next sequence are reserved with it. It returns nil where all rows are in use.
func (s *scheduler) newPrefix(g *group, size int, first bool, source *prefixRow, held int) *prefixRow {
	if source != nil {
		s.cache.Use(source.row) // until the row is opened; and making room must not evict it
	}
	if len(s.freePrefix) == 0 {
		if _, ok := s.evict(); !ok {
			if source != nil {
				s.cache.Unuse(source.row)
			}
			return nil
		}
	}
	p := &prefixRow{row: pop(&s.freePrefix), tokens: g.Tokens[:size], source: source, held: held}
	if first {
		p.first = g
	}
	p.chain = g.chain[:min(len(g.chain), size/s.PageSize)]
	s.prefixes[p.row-s.Slots] = p
	s.cache.Insert(p.row, p.chain)
	s.cache.Unuse(p.row) // those who use it say so
	return p
}

// assign decides what the sequences of g start from. It returns false where g has to wait for a prefix row; or, while
// all slots are busy anyway, for a prefix to come from the host beside the next call.
func (s *scheduler) assign(g *group, busy bool) bool {
	var source *prefixRow
	held := 0
	if row, pages := s.cache.Longest(g.chain); pages > 0 {
		source, held = s.prefixes[row-s.Slots], pages*s.PageSize
	}
	if s.cfg.Host != nil && !s.oneAtATime {
		if k, pages := s.cfg.Host.Longest(g.chain); pages*s.PageSize > held {
			if busy && !s.cfg.Device.IsStaged(s.missing(k.Pages, s.origin(k.Chain))) {
				return false
			}
			if p := s.restore(k); p != nil {
				source, held = p, pages*s.PageSize
			}
		}
	}
	ofContext := s.heldByContext(g)
	if ofContext > 0 && ofContext >= held {
		source, held = s.prefixes[g.Context-s.Slots], ofContext
	}
	whole := len(g.Tokens) - 1
	clones := g.N-g.next > 1 && whole > 0 && s.Paged &&
		s.pagesAhead(g.Request, whole)-ofContext/s.PageSize <= s.cfg.Pool
	// A prefix that others in the queue have too is run once for all.
	if shared := s.counts.Shared(g.chain) * s.PageSize; shared > held && !s.oneAtATime {
		if p := s.newPrefix(g, shared, !clones || shared == whole, source, held); p != nil {
			source, held = p, shared
		}
	}
	// So is what the sequences of one group have in common: all of the prompt but its last token.
	if clones && whole > held {
		if p := s.newPrefix(g, whole, true, source, held); p != nil {
			source, held = p, whole
		} else if !s.oneAtATime {
			return false
		}
	}
	g.assigned, g.begin, g.source, g.held = true, g.next, source, held
	if source != nil {
		s.cache.Use(source.row)
	}
	return true
}

// heldByContext is how many tokens of g's prompt its context holds, of those that a clone may take over.
func (s *scheduler) heldByContext(g *group) int {
	if g.Context == None {
		return 0
	}
	return min(s.prefixes[g.Context-s.Slots].done, len(g.Tokens)-1)
}

// maxPages is the most pages that a prefix row may come to hold, with those reserved for its first clone.
func (s *scheduler) maxPages(p *prefixRow) int {
	if p.pinned != nil {
		return p.pinned.MaxPages
	}
	if p.first == nil {
		return s.pages(len(p.tokens))
	}
	return s.pagesAhead(p.first.Request, len(p.tokens))
}

// unreserved is how many pages are free and reserved for no row.
func (s *scheduler) unreserved() int {
	free := s.freePages
	for _, seq := range s.rows {
		if seq != nil {
			free -= max(0, s.surePages(seq.group.Request)-s.pages(seq.done))
		}
	}
	for _, p := range s.prefixes {
		if p != nil && p.opened {
			free -= max(0, s.maxPages(p)-s.pages(p.done))
		}
	}
	return free
}

// evictFor gives up prefix rows that are not in use while the unreserved pages do not cover what comes first in the
// offer.
func (s *scheduler) evictFor(o *offer) {
	if s.cache.Len() == 0 {
		return
	}
	free, need := s.unreserved(), 0
	last := min(len(o.waiting), max(s.MaxSeqs-s.active, 1, o.resumed)+s.MaxSeqs/4)
	for _, seq := range o.waiting[o.resumed:last] {
		need += s.surePages(seq.group.Request) - seq.group.held/s.PageSize
	}
	for _, p := range o.ahead {
		need += s.maxPages(p) - p.held/s.PageSize
	}
	for free < need {
		p, ok := s.evict()
		if !ok {
			return
		}
		free += s.pages(p.done) - p.held/s.PageSize
	}
}

// unusedRow takes a prefix row that is free now, and not only from the next call on: where there is none it makes one
// free for then.
func (s *scheduler) unusedRow() (row int, ok bool) {
	for at, row := range s.freePrefix {
		if !s.release[row] {
			s.freePrefix = append(s.freePrefix[:at], s.freePrefix[at+1:]...)
			return row, true
		}
	}
	if len(s.freePrefix) == 0 {
		s.evict()
	}
	return 0, false
}

// unusedRowBeside is like unusedRow, but never evicts the origin's row.
func (s *scheduler) unusedRowBeside(of Origin) (row int, ok bool) {
	if of.Pages > 0 {
		s.cache.Use(of.Row)
		defer s.cache.Unuse(of.Row)
	}
	return s.unusedRow()
}

func pop(list *[]int) int {
	last := len(*list) - 1
	v := (*list)[last]
	*list = (*list)[:last]
	return v
}
