package schedule

import (
	"container/list"
	"slices"

	"github.com/quire/quire/engine/prefix"
)

// HostCache holds named pages in the host's memory: pages that had to leave the device, and pages loaded from files. It
// outlives a run. Sequences that are swapped out are not part of it. It has no lock: a run's goroutine owns it while
// the run lasts, and otherwise the engine's caller.
type HostCache struct {
	// bytes counts what was taken with Take and not given back, for blocks or something else. It never exceeds limit.
	limit, bytes int64
	byName       map[prefix.Hash]*Kept
	unused       *list.List // of *Kept without users, least recently used first: only these may be removed for others
	// pinned has the blocks of pinned prefixes by the name of the last page. Each pin is one use of its blocks.
	pinned map[prefix.Hash][]*Kept
}

// Kept is a block in the host cache. The pages of a sequence are in blocks, all full except the last.
type Kept struct {
	Chain []prefix.Hash // the names of its pages
	From  int           // pages before it in its sequence
	Block Block
	Bytes int64

	users   int
	element *list.Element // in HostCache.unused; nil while users > 0
}

// NewHostCache makes a cache of up to limit bytes.
func NewHostCache(limit int64) *HostCache {
	return &HostCache{limit: limit, byName: map[prefix.Hash]*Kept{}, unused: list.New(),
		pinned: map[prefix.Hash][]*Kept{}}
}

// Limit returns the bytes that the cache may take.
func (c *HostCache) Limit() int64 { return c.limit }

// Add keeps a block, for which bytes were taken. It removes a block that has only first pages of the new one.
func (c *HostCache) Add(k *Kept) {
	old := c.byName[k.Chain[0]]
	for _, h := range k.Chain {
		c.byName[h] = k
	}
	k.element = c.unused.PushBack(k)
	if old != nil && old.users == 0 && len(old.Chain) <= len(k.Chain) && slices.Equal(old.Chain,
		k.Chain[:len(old.Chain)]) {
		c.Remove(old)
	}
}

// Use keeps a block until Unuse is called as often.
func (c *HostCache) Use(k *Kept) {
	k.users++
	if k.element != nil {
		c.unused.Remove(k.element)
		k.element = nil
	}
}

// Unuse reverses Use.
func (c *HostCache) Unuse(k *Kept) {
	if k.users--; k.users == 0 {
		k.element = c.unused.PushBack(k)
	}
}

// Pin keeps a prefix, by the name of its last page, until Unpin. A second Pin of the same prefix does nothing.
func (c *HostCache) Pin(name prefix.Hash, blocks []*Kept) {
	if c.pinned[name] == nil {
		c.pinned[name] = blocks
		for _, k := range blocks {
			c.Use(k)
		}
	}
}

// Unpin reverses Pin, and reports whether the prefix was pinned.
func (c *HostCache) Unpin(name prefix.Hash) bool {
	blocks := c.pinned[name]
	delete(c.pinned, name)
	for _, k := range slices.Backward(blocks) { // the first page is the last to go
		c.Unuse(k)
	}
	return blocks != nil
}

// Left returns the bytes that are free or can be freed.
func (c *HostCache) Left() int64 {
	left := c.limit - c.bytes
	for e := c.unused.Front(); e != nil; e = e.Next() {
		left += e.Value.(*Kept).Bytes
	}
	return left
}

// Remove removes a block, and unpins the prefixes that have it.
func (c *HostCache) Remove(k *Kept) {
	if k.element != nil {
		c.unused.Remove(k.element)
		k.element = nil
	}
	for _, h := range k.Chain {
		if c.byName[h] == k {
			delete(c.byName, h)
		}
	}
	for name, blocks := range c.pinned {
		if slices.Contains(blocks, k) {
			delete(c.pinned, name)
			for _, other := range blocks {
				if other != k {
					c.Unuse(other)
				}
			}
		}
	}
	c.bytes -= k.Bytes
}

// Clear unpins all prefixes and removes all blocks. Nobody may use one.
func (c *HostCache) Clear() {
	for name := range c.pinned {
		c.Unpin(name)
	}
	for e := c.unused.Front(); e != nil; e = c.unused.Front() {
		c.Remove(e.Value.(*Kept))
	}
}

// Take takes bytes, for a block or something else, if as many are free or can be freed. It then frees them.
func (c *HostCache) Take(bytes int64) bool {
	if bytes > c.Left() {
		return false
	}
	for c.bytes+bytes > c.limit {
		c.Remove(c.unused.Front().Value.(*Kept))
	}
	c.bytes += bytes
	return true
}

// Give gives back bytes that were taken for something else.
func (c *HostCache) Give(bytes int64) { c.bytes -= bytes }

// Has reports whether a page is kept.
func (c *HostCache) Has(name prefix.Hash) bool { return c.byName[name] != nil }

// Blocks returns the blocks that have the pages of a chain from place from, up to the first page that no block has, and
// the place of that page. size is how many pages a block has.
func (c *HostCache) Blocks(chain []prefix.Hash, from, size int) (blocks []*Kept, end int) {
	end = from
	for end < len(chain) && c.Has(chain[end]) {
		end++
	}
	for place := from; place < end; place = (place/size + 1) * size {
		blocks = append(blocks, c.byName[chain[min(end, (place/size+1)*size)-1]])
	}
	return blocks, end
}

// touch makes blocks the most recently used, the first of them last: later blocks are useless without it.
func (c *HostCache) touch(blocks []*Kept) {
	for _, k := range slices.Backward(blocks) {
		c.Use(k)
		c.Unuse(k)
	}
}
