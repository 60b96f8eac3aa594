package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quire/quire/prefix"
)

// tier is the prefixes that are kept in the host's memory: those that had to leave the device, and those loaded from
// files. It outlives a run.
type tier struct {
	limit, bytes int64
	cache        *prefix.Cache
	kept         map[int]*kept
	pinned       map[prefix.Hash]*kept // by the names of their last pages
	next         int
}

// kept is one of them.
type kept struct {
	id     int
	tokens []int32 // whole pages
	chain  []prefix.Hash
	pages  *pagesOnHost
	bytes  int64
}

func newTier(limit int64) *tier {
	return &tier{limit: limit, cache: prefix.NewCache(), kept: map[int]*kept{}, pinned: map[prefix.Hash]*kept{}}
}

// add keeps a prefix, whose bytes were taken.
func (t *tier) add(k *kept) {
	t.next++
	t.kept[t.next], k.id = k, t.next
	t.cache.Insert(k.id, k.chain)
	t.cache.Unuse(k.id)
}

// pin keeps a prefix, by the name of its last page, until unpin. It is pinned once, however often that is asked for.
func (t *tier) pin(name prefix.Hash, k *kept) {
	if t.pinned[name] == nil {
		t.pinned[name] = k
		t.cache.Use(k.id)
	}
}

// unpin lets a prefix go, if it is pinned.
func (t *tier) unpin(name prefix.Hash) bool {
	k := t.pinned[name]
	if k == nil {
		return false
	}
	delete(t.pinned, name)
	t.cache.Unuse(k.id)
	return true
}

// left is the bytes that there are beside what can't be given up.
func (t *tier) left() int64 {
	left := t.limit - t.bytes
	for id, k := range t.kept {
		if t.cache.Users(id) == 0 {
			left += k.bytes
		}
	}
	return left
}

// shrink gives up prefixes until there are no more bytes than limit, if they can be given up.
func (t *tier) shrink(limit int64) {
	for t.bytes > limit {
		id, ok := t.cache.Evict()
		if !ok {
			return
		}
		t.forget(id)
	}
}

// remove gives up a prefix.
func (t *tier) remove(k *kept) {
	t.cache.Remove(k.id)
	maps.DeleteFunc(t.pinned, func(_ prefix.Hash, p *kept) bool { return p == k })
	t.forget(k.id)
}

// forget drops what the cache has forgotten.
func (t *tier) forget(id int) {
	t.bytes -= t.kept[id].bytes
	delete(t.kept, id)
}

// take takes bytes for something else, if there are as many beside what can't be given up.
func (t *tier) take(bytes int64) bool {
	if bytes > t.left() {
		return false
	}
	t.shrink(t.limit - bytes)
	t.bytes += bytes
	return true
}

// longest returns the longest prefix of chain that is kept, and how many pages of it chain has.
func (t *tier) longest(chain []prefix.Hash) (k *kept, pages int) {
	id, pages := t.cache.Longest(chain)
	if pages == 0 {
		return nil, 0
	}
	t.cache.Use(id) // and so it is the one used last
	t.cache.Unuse(id)
	return t.kept[id], pages
}

// origin finds a row that has the first pages of a chain on the device now.
func (s *scheduler) origin(chain []prefix.Hash) origin {
	row, pages := s.cache.Longest(chain)
	if pages > 0 {
		if h := s.holders[row-s.e.plan.slots]; h.opened && h.done >= pages*s.e.plan.PageSize {
			return origin{row: row, pages: pages}
		}
	}
	return origin{row: none}
}

// missing is the blocks that have pages which are not on the device.
func (s *scheduler) missing(pages *pagesOnHost, chain []prefix.Hash) []*block {
	return pages.blocks[s.origin(chain).pages/transferPages:]
}

// stage begins to copy to the device what will probably be wanted from the host by the next call: the sequences that
// moved out, first admitted first; without any, prefixes of the first requests in line.
func (s *scheduler) stage() {
	var want []*block
	add := func(pages *pagesOnHost, chain []prefix.Hash) bool {
		want = append(want, s.missing(pages, chain)...)
		return len(want) < blocksInFlight
	}
	for _, m := range s.out {
		if m.back == nil && !add(m.pages, m.seq.family.chain) {
			break
		}
	}
	if t := s.e.tier; t != nil && len(s.out) == 0 {
		for _, f := range s.waiting[:min(len(s.waiting), s.e.plan.MaxSeqs)] {
			if f.assigned {
				continue
			}
			id, pages := t.cache.Longest(f.chain)
			if _, here := s.cache.Longest(f.chain); pages <= here {
				continue
			}
			if k := t.kept[id]; !slices.Contains(want, k.pages.blocks[len(k.pages.blocks)-1]) &&
				!add(k.pages, k.chain) {
				break
			}
		}
	}
	s.e.moves.stage(want)
}

// demote copies a holder's full pages to the host before the device forgets them.
func (s *scheduler) demote(h *holder) {
	t := s.e.tier
	n := len(h.chain)
	if t == nil || n == 0 || !h.opened || h.done < len(h.tokens) || s.err != nil {
		return
	}
	length := n * s.e.plan.PageSize
	bytes := s.e.bytesOnHost(length)
	if _, pages := t.longest(h.chain); pages == n || !t.take(bytes) {
		return
	}
	pages, err := s.e.moves.save(h.row, length)
	if err != nil {
		t.bytes -= bytes
		s.err = fmt.Errorf("moving a prefix to the host: %w", err)
		return
	}
	s.e.stats.MovedBytes += bytes
	t.add(&kept{tokens: h.tokens[:length], chain: h.chain, pages: pages, bytes: bytes})
}

// promote loads a prefix from the host into a holder's row, if there is room for it. Pages of it that are on the device
// are shared.
func (s *scheduler) promote(k *kept) *holder {
	p := s.e.plan
	if keeper, pages := s.cache.Longest(k.chain); pages > 0 { // making room must not evict it
		s.cache.Use(keeper)
		defer s.cache.Unuse(keeper)
	}
	of := s.origin(k.chain)
	pages := len(k.tokens)/p.PageSize - of.pages
	if s.err != nil || s.room() < pages+1 {
		return nil
	}
	row, ok := s.unusedRow()
	if !ok {
		return nil
	}
	if err := s.e.moves.load(row, k.pages, of); err != nil {
		s.e.tier.remove(k)
		s.err = fmt.Errorf("moving a prefix back from the host: %w", err)
		return nil
	}
	s.freePages -= pages
	s.e.stats.MovedBytes += s.e.bytesMoved(k.pages, of)
	h := &holder{row: row, tokens: k.tokens, chain: k.chain, opened: true, done: len(k.tokens)}
	s.holders[row-p.slots] = h
	s.cache.Insert(row, h.chain)
	s.cache.Unuse(row)
	return h
}
