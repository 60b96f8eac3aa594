package schedule

import (
	"cmp"
	"fmt"
	"slices"
)

// preempt finds the pages that the sequences need for their next step. It gives up prefixes that nobody uses. Then it
// swaps out the sequences admitted last, until the rest can go on for a while. Where that is not enough it gives up
// prefixes that others wait for. The first admitted is never swapped out, so that one always comes to its end.
func (s *scheduler) preempt(short int, got *Output) error {
	for short > 0 {
		p, ok := s.evict()
		if !ok {
			break
		}
		short -= s.pages(p.done)
	}
	if short <= 0 || s.err != nil {
		return s.err
	}
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
			of := s.originOf(q.group)
			pages := s.pages(q.done) - of.Pages
			if !s.hasPagesFor(q, pages, s.active+len(o.waiting)) {
				break
			}
			row, ok := s.unusedRowBeside(of)
			if !ok {
				break
			}
			p := &prefixRow{row: row, opened: true, done: q.done, tokens: make([]int32, q.done)}
			if err := s.cfg.Device.Load(p.row, m.pages, of); err != nil {
				return fmt.Errorf("moving a sequence back from the host: %w", err)
			}
			s.freePages -= pages
			s.prefixes[p.row-s.Slots] = p
			s.cache.Insert(p.row, nil)
			m.back = p
			s.stats.MovedBytes += s.bytesMoved(m.pages, of)
		}
		start, ok := o.place([]int32{q.last}, 0, s.PromptLimit)
		if !ok {
			break
		}
		o.waiting = append(o.waiting, q)
		// The source is the row that holds the sequence again: that of its group may be gone. It gets no more pages
		// than it had, which is what there must be.
		o.Waiting = append(o.Waiting, Entry{Request: q.group.Request, Generation: q.generation, Start: start - q.done,
			PromptLen: q.done, MaxPages: s.pages(q.done), Source: m.back.row, Held: q.done, Resume: true,
			StopStates: m.stops})
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

// bytesMoved is what Load copies.
func (s *scheduler) bytesMoved(pages *Pages, of Origin) int64 {
	return s.cfg.Device.Bytes(pages.Tokens) - s.cfg.Device.Bytes(of.Pages/s.BlockPages*s.BlockPages*s.PageSize)
}
