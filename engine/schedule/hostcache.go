package schedule

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quire/quire/prefix"
)

// HostCache is the prefixes in the host's memory: those that had to leave the device, and those loaded from files. It
// outlives a run. Sequences that are swapped out are not part of it.
type HostCache struct {
	limit, bytes int64
	cache        *prefix.Cache
	kept         map[int]*Kept
	pinned       map[prefix.Hash]*Kept // by the names of their last pages
	next         int
}

// Kept is a prefix in the host cache.
type Kept struct {
	Tokens []int32 // whole pages
	Chain  []prefix.Hash
	Pages  *Pages
	Bytes  int64

	id int
}

// NewHostCache makes a cache that takes up to limit bytes.
func NewHostCache(limit int64) *HostCache {
	return &HostCache{limit: limit, cache: prefix.NewCache(), kept: map[int]*Kept{}, pinned: map[prefix.Hash]*Kept{}}
}

// Limit is the bytes that the cache may take.
func (c *HostCache) Limit() int64 { return c.limit }

// Add keeps a prefix, whose bytes were taken.
func (c *HostCache) Add(k *Kept) {
	c.next++
	c.kept[c.next], k.id = k, c.next
	c.cache.Insert(k.id, k.Chain)
	c.cache.Unuse(k.id)
}

// Pin keeps a prefix, by the name of its last page, until Unpin. It is pinned once, however often that is asked for.
func (c *HostCache) Pin(name prefix.Hash, k *Kept) {
	if c.pinned[name] == nil {
		c.pinned[name] = k
		c.cache.Use(k.id)
	}
}

// Unpin lets a prefix go, if it is pinned.
func (c *HostCache) Unpin(name prefix.Hash) bool {
	k := c.pinned[name]
	if k == nil {
		return false
	}
	delete(c.pinned, name)
	c.cache.Unuse(k.id)
	return true
}

// Left is the bytes that there are beside what can't be given up.
func (c *HostCache) Left() int64 {
	left := c.limit - c.bytes
	for id, k := range c.kept {
		if c.cache.Users(id) == 0 {
			left += k.Bytes
		}
	}
	return left
}

// shrink gives up prefixes until there are no more bytes than limit, if they can be given up.
func (c *HostCache) shrink(limit int64) {
	for c.bytes > limit {
		id, ok := c.cache.Evict()
		if !ok {
			return
		}
		c.forget(id)
	}
}

// Remove gives up a prefix.
func (c *HostCache) Remove(k *Kept) {
	c.cache.Remove(k.id)
	maps.DeleteFunc(c.pinned, func(_ prefix.Hash, p *Kept) bool { return p == k })
	c.forget(k.id)
}

// forget drops what the cache of names has forgotten.
func (c *HostCache) forget(id int) {
	c.bytes -= c.kept[id].Bytes
	delete(c.kept, id)
}

// Take takes bytes, for a prefix or something else, if there are as many beside what can't be given up.
func (c *HostCache) Take(bytes int64) bool {
	if bytes > c.Left() {
		return false
	}
	c.shrink(c.limit - bytes)
	c.bytes += bytes
	return true
}

// Give returns bytes that were taken for something else.
func (c *HostCache) Give(bytes int64) { c.bytes -= bytes }

// Longest returns the longest prefix of chain that is kept, and how many pages of it chain has.
func (c *HostCache) Longest(chain []prefix.Hash) (k *Kept, pages int) {
	id, pages := c.cache.Longest(chain)
	if pages == 0 {
		return nil, 0
	}
	c.cache.Use(id) // and so it is the one used last
	c.cache.Unuse(id)
	return c.kept[id], pages
}

// origin finds a row that has the first pages of a chain on the device now.
func (s *scheduler) origin(chain []prefix.Hash) Origin {
	row, pages := s.cache.Longest(chain)
	if pages > 0 {
		if p := s.prefixes[row-s.Slots]; p.opened && p.done >= pages*s.PageSize {
			return Origin{Row: row, Pages: pages}
		}
	}
	return Origin{Row: None}
}

// originOf finds a row that has the first pages of a group's prompt on the device now: the context that it begins with,
// or a prefix row.
func (s *scheduler) originOf(g *group) Origin {
	of := s.origin(g.chain)
	if pages := s.heldByContext(g) / s.PageSize; pages > 0 && pages >= of.Pages {
		return Origin{Row: g.Context, Pages: pages}
	}
	return of
}

// missing is the blocks that have pages which are not on the device.
func (s *scheduler) missing(pages *Pages, of Origin) []Block {
	return pages.Blocks[of.Pages/s.BlockPages:]
}

// stage begins to copy to the device what the next call will probably want from the host: the sequences that were
// swapped out, first admitted first; without any, prefixes of the first requests in the waiting queue.
func (s *scheduler) stage() {
	var want []Block
	add := func(pages *Pages, of Origin) bool {
		want = append(want, s.missing(pages, of)...)
		return len(want) < s.Staged
	}
	for _, m := range s.swapped {
		if m.back == nil && !add(m.pages, s.originOf(m.seq.group)) {
			break
		}
	}
	if c := s.cfg.Host; c != nil && len(s.swapped) == 0 {
		for _, g := range s.waiting[:min(len(s.waiting), s.MaxSeqs)] {
			if g.assigned {
				continue
			}
			id, pages := c.cache.Longest(g.chain)
			if _, here := s.cache.Longest(g.chain); pages <= here {
				continue
			}
			k := c.kept[id]
			if !slices.Contains(want, k.Pages.Blocks[len(k.Pages.Blocks)-1]) && !add(k.Pages, s.origin(k.Chain)) {
				break
			}
		}
	}
	s.cfg.Device.Stage(want)
}

// offload copies a prefix row's full pages to the host before the device forgets them.
func (s *scheduler) offload(p *prefixRow) {
	c, n := s.cfg.Host, len(p.chain)
	if c == nil || n == 0 || !p.opened || p.done < len(p.tokens) || s.err != nil {
		return
	}
	length := n * s.PageSize
	bytes := s.cfg.Device.Bytes(length)
	if _, pages := c.Longest(p.chain); pages == n || !c.Take(bytes) {
		return
	}
	pages, err := s.cfg.Device.Save(p.row, length)
	if err != nil {
		c.Give(bytes)
		s.err = fmt.Errorf("moving a prefix to the host: %w", err)
		return
	}
	s.stats.MovedBytes += bytes
	c.Add(&Kept{Tokens: p.tokens[:length], Chain: p.chain, Pages: pages, Bytes: bytes})
}

// restore loads a prefix from the host into a prefix row, if there are pages for it. Pages of it that are on the device
// are shared.
func (s *scheduler) restore(k *Kept) *prefixRow {
	if keeper, pages := s.cache.Longest(k.Chain); pages > 0 { // making room must not evict it
		s.cache.Use(keeper)
		defer s.cache.Unuse(keeper)
	}
	of := s.origin(k.Chain)
	pages := len(k.Tokens)/s.PageSize - of.Pages
	if s.err != nil || s.unreserved() < pages+1 {
		return nil
	}
	row, ok := s.unusedRow()
	if !ok {
		return nil
	}
	if err := s.cfg.Device.Load(row, k.Pages, of); err != nil {
		s.cfg.Host.Remove(k)
		s.err = fmt.Errorf("moving a prefix back from the host: %w", err)
		return nil
	}
	s.freePages -= pages
	s.stats.MovedBytes += s.bytesMoved(k.Pages, of)
	p := &prefixRow{row: row, tokens: k.Tokens, chain: k.Chain, opened: true, done: len(k.Tokens)}
	s.prefixes[row-s.Slots] = p
	s.cache.Insert(row, p.chain)
	s.cache.Unuse(row)
	return p
}
