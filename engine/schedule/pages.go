package schedule

import (
	"fmt"

	"github.com/quire/quire/prefix"
)

// holding is the pages that a row took, as the host knows them.
type holding struct {
	ids     []int32 // by place in the sequence; None where the row did not take the page itself
	settled int     // how many of the first places have names, or will have none
}

// put notes that the row took a page.
func (h *holding) put(place int, page int32) {
	for len(h.ids) <= place {
		h.ids = append(h.ids, None)
	}
	h.ids[place] = page
}

// named returns the pages on the device that a chain begins with.
func (s *scheduler) named(chain []prefix.Hash) []int32 {
	if s.index == nil {
		return nil
	}
	return s.index.Longest(chain)
}

// settlePages notes which pages were taken by whom in a call, and names those that are full.
func (s *scheduler) settlePages(owners []*sequence, got *Output) {
	if s.index == nil {
		return
	}
	s.index.Tick()
	s.tookPages = 0
	for page, v := range got.Pages {
		owner, place, held := s.PageFate(v)
		if owner >= 0 {
			s.tookPages++
			h := s.holdingOf(owners, owner)
			s.took(int32(page), h)
			h.put(place, int32(page))
		}
		s.index.Hold(int32(page), held)
	}
	for _, q := range owners {
		if q != nil {
			s.name(&q.holding, q.names.Names, q.done)
		}
	}
	for _, p := range s.prefixes {
		if p != nil && p.opened && p.pinned == nil {
			s.name(&p.holding, p.chain, p.done)
			s.index.Share(s.index.Longest(p.chain)...)
		}
	}
}

// holdingOf is that of an owner as of Output.Owners.
func (s *scheduler) holdingOf(owners []*sequence, owner int) *holding {
	if owner < len(owners) {
		if q := owners[owner]; q != nil {
			return &q.holding
		}
	} else if at := owner - len(owners); at < len(s.prefixes) && s.prefixes[at] != nil {
		return &s.prefixes[at].holding
	}
	return &holding{} // of nobody who is known any more
}

// took notes that a page was taken: what it had is gone.
func (s *scheduler) took(page int32, h *holding) {
	s.index.Forget(page)
	s.takers[page] = h
}

// name names the full pages that a row took, of its first done tokens.
func (s *scheduler) name(h *holding, names []prefix.Hash, done int) {
	for full := min(done/s.PageSize, len(names)); h.settled < full; h.settled++ {
		if h.settled >= len(h.ids) {
			continue
		}
		if page := h.ids[h.settled]; page != None && s.takers[page] == h {
			s.index.Name(page, names, h.settled)
		}
	}
}

// holdNamed has the call hold named pages that entries begin with, and returns where they are in Input.Named. It
// returns false where the call has no room for them, or the pool none beside what those need who run.
func (s *scheduler) holdNamed(o *offer, pages []int32) (at int, ok bool) {
	if len(pages) == 0 {
		return None, true
	}
	key := heldPages{pages[len(pages)-1], len(pages)}
	if at, ok := o.heldAt[key]; ok {
		return at, true
	}
	free := s.notHeld(o, pages)
	if len(o.Named)+len(pages) > s.NamedLen() || free > o.room {
		return None, false
	}
	o.room -= free
	s.index.Share(pages...)
	for _, page := range pages {
		o.isHeld[page] = true
	}
	at = len(o.Named)
	o.Named, o.heldAt[key] = append(o.Named, pages...), at
	return at, true
}

// notHeld is how many of pages nobody holds, and the call does not hold yet.
func (s *scheduler) notHeld(o *offer, pages []int32) (n int) {
	for _, page := range pages {
		if s.index.Free(page) && !o.isHeld[page] {
			n++
		}
	}
	return n
}

// heldPages stands for a list of named pages: the last one and their number say which they are.
type heldPages struct {
	last int32
	n    int
}

// roomFor is how many free pages a call may hold for those who wait: with too many, those who run could not go on.
func (s *scheduler) roomFor() int {
	switch {
	case s.active == 0 && s.oneAtATime:
		return s.Pages
	case s.Reserve || s.active == 0:
		return s.unreserved()
	}
	return s.unreserved() - s.active
}

// offload copies pages to the host that will soon be taken: those used longest ago, when few are left that nobody has
// use for.
func (s *scheduler) offload() {
	c := s.cfg.Host
	if c == nil || s.index == nil {
		return
	}
	for range s.Staged {
		if s.freePages-s.index.Kept() >= s.tookPages+s.Pages/8 { // as many as the last call took, and some
			return
		}
		oldest := s.index.Oldest(1, func(name prefix.Hash) bool { return !c.Has(name) })
		if len(oldest) == 0 {
			return
		}
		chain, pages, from := s.index.Block(oldest[0], s.BlockPages)
		bytes := s.cfg.Device.Bytes(s.BlockPages * s.PageSize)
		switch {
		case len(chain) == 0: // the pages before it are gone, and it is of no use
			page, _ := s.index.Page(oldest[0])
			s.index.Forget(page)
			continue
		case !c.Take(bytes):
			return
		}
		block, err := s.cfg.Device.Keep(pages)
		if err != nil {
			c.Give(bytes)
			s.err = fmt.Errorf("moving pages to the host: %w", err)
			return
		}
		s.stats.MovedBytes += bytes
		c.Add(&Kept{Chain: chain, From: from, Block: block, Bytes: bytes})
	}
}

// restore brings pages of a chain back from the host: those from place from to place end, as far as there is room.
// hold are pages that must stay as they are.
func (s *scheduler) restore(blocks []*Kept, chain []prefix.Hash, from, end, room int, hold []int32) {
	if len(hold)+end-from > s.NamedLen() {
		return
	}
	s.cfg.Host.touch(blocks)
	for _, k := range blocks {
		begin, stop := max(from, k.From), min(end, k.From+len(k.Chain))
		if room -= stop - begin; room < 1 || s.err != nil {
			return
		}
		pages, err := s.cfg.Device.Restore(k.Block, begin-k.From, stop-k.From, begin, hold)
		if err != nil {
			s.cfg.Host.Remove(k)
			s.err = fmt.Errorf("moving pages back from the host: %w", err)
			return
		}
		s.stats.MovedBytes += s.cfg.Device.Bytes(s.BlockPages * s.PageSize)
		for i, page := range pages {
			s.took(page, nil)
			s.index.Name(page, chain, begin+i)
			hold = append(hold, page)
		}
	}
}

// blocksOf are those of a list.
func blocksOf(list []*Kept) (blocks []Block) {
	for _, k := range list {
		blocks = append(blocks, k.Block)
	}
	return blocks
}
