package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// preempt finds the pages that the sequences need for their next step. It swaps out the sequences admitted last, until
// the rest can go on for a while. Where that is not enough it gives up prefixes that others wait for. The first
// admitted is never swapped out, so that one always comes to its end.
func (s *scheduler) preempt(short int, got *Output) error {
	decoding := slices.DeleteFunc(slices.Clone(s.rows), func(q *sequence) bool {
		return q == nil || q.done < len(q.group.Tokens)
	})
	slices.SortFunc(decoding, func(a, b *sequence) int { return cmp.Compare(b.born, a.born) })
	// Each that stays will want a page soon; swapping out one more now is cheaper than coming back for it at once.
	for short += len(decoding) / 4; short > 0 && len(decoding) > 1; short-- {
		q := decoding[0]
		decoding = decoding[1:]
		if err := s.swapOut(q, got); err != nil {
			return err
		}
		short -= max(0, s.pages(q.done)-1)
	}
	if len(s.swapped) == 0 || short > 0 {
		s.dropAll()
		s.starved = true
	}
	return nil
}

// swapOut copies a sequence to the host, as a call left it, and gives up its row.
func (s *scheduler) swapOut(q *sequence, got *Output) error {
	pages, err := s.cfg.Device.Save(q.row, q.done)
	if err != nil {
		return fmt.Errorf("moving a sequence to the host: %w", err)
	}
	s.release[q.row] = true
	s.rows[q.row] = nil
	s.active--
	each := len(got.StopStates) / s.Rows()
	stops := slices.Clone(got.StopStates[q.row*each : (q.row+1)*each])
	s.swapped = append(s.swapped, &swapped{seq: q, pages: pages, stops: stops})
	slices.SortFunc(s.swapped, func(a, b *swapped) int { return cmp.Compare(a.seq.born, b.seq.born) })
	s.stats.Preemptions++
	s.stats.MovedBytes += s.cfg.Device.Bytes(q.done)
	return nil
}

// swapIn loads sequences that were swapped out, first admitted first, as far as there are pages for them and for a page
// more of each that runs, and offers them before everything else.
func (s *scheduler) swapIn(o *offer) error {
	for _, m := range s.swapped {
		q := m.seq
		if m.back == nil {
			of := s.originOf(q)
			pages := s.pages(q.done) - of.Pages + s.freeOf(of.Named)
			if !s.hasPagesFor(q, pages, s.active+len(o.waiting)) {
				break
			}
			row, ok := s.unusedRow()
			if !ok {
				break
			}
			p := &prefixRow{row: row, opened: true, done: q.done, tokens: make([]int32, q.done)}
			taken, err := s.cfg.Device.Load(p.row, m.pages, of)
			if err != nil {
				return fmt.Errorf("moving a sequence back from the host: %w", err)
			}
			s.settleLoaded(q, of, taken)
			s.freePages -= pages
			s.prefixes[p.row-s.Slots] = p
			s.cache.Insert(p.row, nil)
			m.back = p
			s.stats.MovedBytes += s.bytesMoved(m.pages, of)
		}
		start, ok := o.place([]int32{q.last}, 0, s.PromptLimit)
		if o.recalls += len(q.drawn); !ok || o.recalls > s.PromptLimit {
			break
		}
		o.waiting = append(o.waiting, q)
		// The source is the row that holds the sequence again: that of its group may be gone. It gets no more pages
		// than it had, which is what there must be.
		o.Waiting = append(o.Waiting, Entry{Request: q.group.Request, Generation: q.generation, Start: start - q.done,
			PromptLen: q.done, MaxPages: s.pages(q.done), Source: m.back.row, Named: None, Held: q.done,
			Resume: true, StopStates: m.stops, Drawn: q.drawn})
		o.resumed++
	}
	return nil
}

// hasPagesFor says that there are pages to load a sequence, and for a page more of each of the others. Its partial page
// is held twice for a moment, and it will want the next; where nothing else runs, it may wait for that.
func (s *scheduler) hasPagesFor(q *sequence, pages, others int) bool {
	free := s.unreserved()
	if others > 0 {
		return free >= pages+2+others
	}
	if q.done%s.PageSize != 0 {
		pages++
	}
	return free >= pages
}

// settleSwappedIn notes that a sequence is back in a slot.
func (s *scheduler) settleSwappedIn(q *sequence, row int) {
	at := slices.IndexFunc(s.swapped, func(m *swapped) bool { return m.seq == q })
	p := s.swapped[at].back
	s.swapped = slices.Delete(s.swapped, at, at+1)
	s.cache.Remove(p.row)
	s.drop(p)
	q.row = row
	s.active++
}

// originOf finds what a sequence that comes back has on the device: named pages, or those of a row, of which that of
// the context that it begins with is one.
func (s *scheduler) originOf(q *sequence) Origin {
	of := Origin{Row: None}
	if row, pages := s.cache.Longest(q.group.chain); pages > 0 {
		if p := s.prefixes[row-s.Slots]; p.opened && p.done >= pages*s.PageSize {
			of = Origin{Row: row, Pages: pages}
		}
	}
	if n := s.heldByContext(q.group.Request) / s.PageSize; n > 0 && n >= of.Pages {
		of = Origin{Row: q.group.Context, Pages: n}
	}
	if s.index != nil {
		names := q.names.Names
		if pages := s.named(names[:min(len(names), q.done/s.PageSize)]); len(pages) > of.Pages {
			return named(pages)
		}
	}
	return of
}

// freeOf is how many of pages nobody holds.
func (s *scheduler) freeOf(pages []int32) (n int) {
	for _, page := range pages {
		if s.index.Free(page) {
			n++
		}
	}
	return n
}

// settleLoaded notes which pages hold a sequence that came back.
func (s *scheduler) settleLoaded(q *sequence, of Origin, taken []int32) {
	q.holding = holding{settled: q.done / s.PageSize}
	if s.index == nil {
		return
	}
	for _, page := range of.Named {
		s.index.Hold(page, true)
	}
	for i, page := range taken {
		s.took(page, nil)
		s.index.Hold(page, true)
		if place := of.Pages + i; place < min(q.settled, len(q.names.Names)) {
			s.index.Name(page, q.names.Names, place)
		}
	}
}

// missing is the blocks that have pages which are not on the device.
func (s *scheduler) missing(pages *Pages, of Origin) []Block {
	return pages.Blocks[of.Pages/s.BlockPages:]
}

// stage begins to copy to the device what the next call will probably want from the host: the sequences that were
// swapped out, first admitted first; without any, pages of the first requests in the waiting queue.
func (s *scheduler) stage() {
	var want []Block
	for _, m := range s.swapped {
		if m.back == nil && len(want) < s.Staged {
			want = append(want, s.missing(m.pages, s.originOf(m.seq))...)
		}
	}
	if c := s.cfg.Host; c != nil && s.index != nil && len(s.swapped) == 0 {
		for _, g := range s.waiting[:min(len(s.waiting), s.MaxSeqs)] {
			if g.assigned || len(want) >= s.Staged {
				continue
			}
			blocks, _ := c.Blocks(g.chain, len(s.named(g.chain)), s.BlockPages)
			for _, b := range blocksOf(blocks) {
				if !slices.Contains(want, b) {
					want = append(want, b)
				}
			}
		}
	}
	s.cfg.Device.Stage(want)
}

// bytesMoved is what Load copies.
func (s *scheduler) bytesMoved(pages *Pages, of Origin) int64 {
	return s.cfg.Device.Bytes(pages.Tokens) - s.cfg.Device.Bytes(of.Pages/s.BlockPages*s.BlockPages*s.PageSize)
}
