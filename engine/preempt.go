package engine

import (
	"cmp"
	"fmt"
	"slices"
)

// Admission says how pages are promised to sequences.
type Admission string

const (
	// Reserve admits a sequence when pages are there for the longest that it may become. Nothing ever has to be moved.
	Reserve Admission = "reserve"
	// Overcommit admits a sequence when pages are there for its prompt. Where the pool runs dry, the sequences admitted
	// last move to the host's memory, and go on from there when the others have ended: with the very same tokens.
	Overcommit Admission = "overcommit"
)

// moved is a sequence whose keys and values are on the host.
type moved struct {
	seq   *sequence
	pages *pagesOnHost
	// back is the row that holds it again, from which it gets a slot; nil before.
	back *holder
}

// surePages is the pages promised to a completion when it is admitted.
func (e *Engine) surePages(r *Request) int {
	all := e.pagesFor(e.maxLen(r))
	if e.plan.Admission == Reserve {
		return all
	}
	return min(all, ceilDiv(len(r.Tokens), e.plan.PageSize)+1)
}

// makeWay finds the pages that the sequences need for their next step: it gives up prefixes that nobody uses; then
// those that others wait for; then the sequences admitted last move out, until the rest can go on for a while. The
// first admitted never moves, so that there is always one that comes to its end.
func (s *scheduler) makeWay(short int) error {
	p := s.e.plan
	for short > 0 {
		h, ok := s.evict()
		if !ok {
			break
		}
		short -= ceilDiv(h.done, p.PageSize)
	}
	if short <= 0 || s.err != nil {
		return s.err
	}
	running := slices.DeleteFunc(slices.Clone(s.rows), func(q *sequence) bool {
		return q == nil ||
			q.done < len(q.family.req.Tokens)
	})
	slices.SortFunc(running, func(a, b *sequence) int { return cmp.Compare(b.born, a.born) })
	// Each that stays will want a page soon; moving one more now is cheaper than coming back for it at once.
	for short += len(running) / 4; short > 0 && len(running) > 1; short-- {
		q := running[0]
		running = running[1:]
		if err := s.moveOut(q); err != nil {
			return err
		}
		short -= max(0, ceilDiv(q.done, p.PageSize)-1)
	}
	if len(s.out) == 0 || short > 0 {
		s.dropAll()
	}
	return nil
}

// moveOut copies a sequence to the host and gives up its row.
func (s *scheduler) moveOut(q *sequence) error {
	pages, err := s.e.moves.save(q.row, q.done)
	if err != nil {
		return fmt.Errorf("moving a sequence to the host: %w", err)
	}
	s.release[q.row] = true
	s.rows[q.row] = nil
	s.active--
	s.out = append(s.out, &moved{seq: q, pages: pages})
	slices.SortFunc(s.out, func(a, b *moved) int { return cmp.Compare(a.seq.born, b.seq.born) })
	s.e.stats.Preemptions++
	s.e.stats.MovedBytes += s.e.bytesOnHost(q.done)
	return nil
}

// bringBack loads sequences that were moved out, first admitted first, as far as there is room for them and for a page
// more of each that runs, and puts them in line before everything else.
func (s *scheduler) bringBack(c *callPlan, limit int) error {
	p := s.e.plan
	for _, m := range s.out {
		q := m.seq
		if m.back == nil {
			of := s.origin(q.family.chain)
			pages := ceilDiv(q.done, p.PageSize) - of.pages
			need := pages + 2 // its partial page is held twice for a moment, and it will want the next
			if s.active > 0 && s.room() < need+s.active+len(c.line) || s.room() < need {
				break
			}
			row, ok := s.rowBeside(of)
			if !ok {
				break
			}
			h := &holder{row: row, opened: true, done: q.done, tokens: make([]int32, q.done)}
			if err := s.e.moves.load(h.row, m.pages, of); err != nil {
				return fmt.Errorf("moving a sequence back from the host: %w", err)
			}
			s.freePages -= pages
			s.holders[h.row-p.slots] = h
			s.cache.Insert(h.row, nil)
			m.back = h
			s.e.stats.MovedBytes += s.e.bytesMoved(m.pages, of)
		}
		start, ok := c.place([]int32{q.last}, 0, limit)
		if !ok {
			break
		}
		c.line, c.begins = append(c.line, q), append(c.begins, start-int32(q.done))
		c.resumed++
	}
	return nil
}

// rowBeside is unusedRow that does not give up the holder that of names.
func (s *scheduler) rowBeside(of origin) (row int, ok bool) {
	if of.pages > 0 {
		s.cache.Use(of.row)
		defer s.cache.Unuse(of.row)
	}
	return s.unusedRow()
}

// unusedRow takes a holder's row that is free now, and not only from the next call on: where there is none it makes one
// free for then.
func (s *scheduler) unusedRow() (row int, ok bool) {
	at := slices.IndexFunc(s.freeHolders, func(row int) bool { return !s.release[row] })
	if at < 0 {
		if len(s.freeHolders) == 0 {
			s.evict()
		}
		return 0, false
	}
	row = s.freeHolders[at]
	s.freeHolders = slices.Delete(s.freeHolders, at, at+1)
	return row, true
}

// settleMoved notes which of the sequences in line are back in a slot.
func (s *scheduler) settleMoved(c *callPlan, placed []int32) (any bool) {
	for i := range c.resumed {
		if placed[i] < 0 {
			continue
		}
		any = true
		q := c.line[i]
		at := slices.IndexFunc(s.out, func(m *moved) bool { return m.seq == q })
		h := s.out[at].back
		s.out = slices.Delete(s.out, at, at+1)
		s.cache.Remove(h.row)
		s.drop(h)
		q.row = int(placed[i])
		s.active++
	}
	return any
}
