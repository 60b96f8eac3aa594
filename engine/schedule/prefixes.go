package schedule

import "slices"

// drop gives up a prefix row. Its full pages have names, and stay until they are taken.
func (s *scheduler) drop(p *prefixRow) {
	if p.opened {
		s.release[p.row] = true
	}
	s.freePrefix = append(s.freePrefix, p.row)
	s.prefixes[p.row-s.Slots] = nil
}

// dropUnused gives up the prefix rows whose last clone has started.
func (s *scheduler) dropUnused() {
	for _, p := range s.prefixes {
		if p != nil && p.pinned == nil && p.opened && s.cache.Users(p.row) == 0 {
			s.cache.Remove(p.row)
			s.drop(p)
		}
	}
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

// newPrefix makes a prefix row of the first size tokens of g's prompt, or of those that a clone of these takes over. It
// is a clone of source if that is not nil. With first, the pages of g's next sequence are reserved with it. It returns
// nil where all rows are in use.
func (s *scheduler) newPrefix(g *group, size int, first bool, source *prefixRow, held int) *prefixRow {
	if len(s.freePrefix) == 0 {
		return nil
	}
	if source != nil {
		s.cache.Use(source.row) // until the row is opened
	}
	p := &prefixRow{row: pop(&s.freePrefix), tokens: g.Tokens[:s.takes(g.Request, size)], source: source, held: held}
	if first {
		p.first = g
	}
	p.chain = g.chain[:min(len(g.chain), size/s.PageSize)]
	p.settled, p.short = held/s.PageSize, g.Short
	if p.score = g.Score; p.score > 0 {
		p.scores = newScores(size, g.tops())
	}
	s.prefixes[p.row-s.Slots] = p
	s.cache.Insert(p.row, p.chain)
	s.cache.Unuse(p.row) // those who use it say so
	return p
}

// assign decides what the sequences of g start from. It returns false where g has to wait for a prefix row; or, while
// all slots are busy anyway, for pages to come from the host beside the next call.
func (s *scheduler) assign(o *offer, g *group, busy bool) bool {
	if c := s.cfg.Host; c != nil && s.index != nil && !s.oneAtATime {
		chain := g.chain
		if g.Score > 0 {
			chain = chain[:len(s.scores.known(chain))] // the others are run again
		}
		named := s.named(chain)
		if blocks, end := c.Blocks(chain, len(named), s.BlockPages); end > len(named) {
			if busy && !s.cfg.Device.IsStaged(blocksOf(blocks)) {
				return false
			}
			s.restore(blocks, chain, len(named), end, o.room-s.notHeld(o, named), slices.Concat(o.Named, named))
		}
	}
	named, _ := s.beginOf(g.chain, g.Score)
	var source *prefixRow
	held := len(named) * s.PageSize
	if row, pages := s.cache.Longest(g.chain); s.takes(g.Request, pages*s.PageSize) > held {
		source, held = s.prefixes[row-s.Slots], s.takes(g.Request, pages*s.PageSize)
	}
	// A context's pages are not of the pool: without them there may not be enough for a request that begins with it.
	ofContext := s.heldByContext(g.Request)
	if ofContext > 0 && (ofContext >= held || s.pages(g.MaxLen-1) > s.cfg.Pool) {
		source, held = s.prefixes[g.Context-s.Slots], ofContext
	} else {
		ofContext = 0
	}
	whole := len(g.Tokens) - 1
	clones := g.N-g.next > 1 && s.takes(g.Request, whole) > 0 && s.Paged &&
		s.pagesAhead(g.Request, s.takes(g.Request, whole))-ofContext/s.PageSize <= s.cfg.Pool
	// A prefix that others in the queue have too is run once for all.
	if shared := s.counts.Shared(g.chain) * s.PageSize; s.takes(g.Request, shared) > held && !s.oneAtATime {
		if p := s.newPrefix(g, shared, !clones || shared == whole, source, held); p != nil {
			source, held = p, s.takes(g.Request, shared)
		}
	}
	// So is what the sequences of one group have in common: all of the prompt but its last token.
	if clones && s.takes(g.Request, whole) > held {
		if p := s.newPrefix(g, whole, true, source, held); p != nil {
			source, held = p, s.takes(g.Request, whole)
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

// heldByContext is how many tokens of a request's prompt its context holds, of those that a clone may take over. The
// context may have others by now.
func (s *scheduler) heldByContext(r *Request) int {
	if r.Context == None || s.prefixes[r.Context-s.Slots] == nil {
		return 0
	}
	p := s.prefixes[r.Context-s.Slots]
	most := min(p.done, len(r.Tokens)-1)
	for i, token := range p.tokens[:most] {
		if token != r.Tokens[i] {
			return s.begin(i)
		}
	}
	return s.begin(most)
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

// unusedRow takes a prefix row that is free now, and not only from the next call on.
func (s *scheduler) unusedRow() (row int, ok bool) {
	for at, row := range s.freePrefix {
		if !s.release[row] {
			s.freePrefix = append(s.freePrefix[:at], s.freePrefix[at+1:]...)
			return row, true
		}
	}
	return 0, false
}

func pop(list *[]int) int {
	last := len(*list) - 1
	v := (*list)[last]
	*list = (*list)[:last]
	return v
}
