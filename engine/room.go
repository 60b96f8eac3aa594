package engine

// maxPages is the most pages that a holder may come to hold, with those reserved for its first clone.
func (s *scheduler) maxPages(h *holder) int {
	if h.context != nil {
		return max(h.context.reserved, len(h.context.pages))
	}
	if h.first == nil {
		return ceilDiv(len(h.tokens), s.e.plan.PageSize)
	}
	return s.e.pagesAhead(h.first.req, len(h.tokens))
}

// pagesAhead is the pages for a holder of held tokens and its first clone, a completion of r: the clone shares full
// pages only.
func (e *Engine) pagesAhead(r *Request, held int) int {
	return ceilDiv(held, e.plan.PageSize) + e.surePages(r) - held/e.plan.PageSize
}

// room is how many pages are free and promised to no row.
func (s *scheduler) room() int {
	p := s.e.plan
	room := s.freePages
	for _, seq := range s.rows {
		if seq != nil {
			room -= max(0, s.e.surePages(seq.family.req)-ceilDiv(seq.done, p.PageSize))
		}
	}
	for _, h := range s.holders {
		if h != nil && h.opened {
			room -= max(0, s.maxPages(h)-ceilDiv(h.done, p.PageSize))
		}
	}
	return room
}

// makeRoom gives up holders that are not in use while the pages that no row has or may come to need do not cover what
// is first in line.
func (s *scheduler) makeRoom(c *callPlan) {
	p := s.e.plan
	if s.cache.Len() == 0 {
		return
	}
	room, need := s.room(), 0
	for _, seq := range c.line[c.resumed:min(len(c.line), max(p.MaxSeqs-s.active, 1, c.resumed)+p.MaxSeqs/4)] {
		need += s.e.surePages(seq.family.req) - seq.family.held/p.PageSize
	}
	for _, h := range c.ahead {
		need += s.maxPages(h) - h.held/p.PageSize
	}
	for room < need {
		h, ok := s.evict()
		if !ok {
			return
		}
		room += ceilDiv(h.done, p.PageSize) - h.held/p.PageSize
	}
}
