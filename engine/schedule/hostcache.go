package schedule

import (
	"container/list"
	"slices"

	"github.com/quire/quire/prefix"
)

// HostCache is named pages in the host's memory: those that had to leave the device, and those loaded from files. It
// outlives a run. Sequences that are swapped out are not part of it.
type HostCache struct {
	limit, bytes int64
	byName       map[prefix.Hash]*Kept
	unused       *list.List              // of *Kept, used longest ago first
	pinned       map[prefix.Hash][]*Kept // by the names of the last pages of prefixes
}

// Kept is a block in the host cache. The pages of a sequence are in blocks from its begin on, all full but the last.
type Kept struct {
	Chain []prefix.Hash // the names of its pages
	From  int           // pages before it in its sequence
	Block Block
	Bytes int64

	users   int
	element *list.Element // nil while it is used
}

// NewHostCache makes a cache that takes up to limit bytes.
func NewHostCache(limit int64) *HostCache {
	return &HostCache{limit: limit, byName: map[prefix.Hash]*Kept{}, unused: list.New(),
		pinned: map[prefix.Hash][]*Kept{}}
}

// Limit is the bytes that the cache may take.
func (c *HostCache) Limit() int64 { return c.limit }

// Add keeps a block, whose bytes were taken. One that has no more than its first pages goes.
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

// Use keeps a block until it is unused as often.
func (c *HostCache) Use(k *Kept) {
	k.users++
	if k.element != nil {
		c.unused.Remove(k.element)
		k.element = nil
	}
}

// Unuse is the opposite of Use.
func (c *HostCache) Unuse(k *Kept) {
	if k.users--; k.users == 0 {
		k.element = c.unused.PushBack(k)
	}
}

// Pin keeps a prefix, by the name of its last page, until Unpin. It is pinned once, however often that is asked for.
func (c *HostCache) Pin(name prefix.Hash, blocks []*Kept) {
	if c.pinned[name] == nil {
		c.pinned[name] = blocks
		for _, k := range blocks {
			c.Use(k)
		}
	}
}

// Unpin lets a prefix go, if it is pinned.
func (c *HostCache) Unpin(name prefix.Hash) bool {
	blocks := c.pinned[name]
	delete(c.pinned, name)
	for _, k := range slices.Backward(blocks) { // the first page is the last to go
		c.Unuse(k)
	}
	return blocks != nil
}

// Left is the bytes that there are beside what can't be given up.
func (c *HostCache) Left() int64 {
	left := c.limit - c.bytes
	for e := c.unused.Front(); e != nil; e = e.Next() {
		left += e.Value.(*Kept).Bytes
	}
	return left
}

// Remove gives up a block.
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

// Take takes bytes, for a block or something else, if there are as many beside what can't be given up.
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

// Give returns bytes that were taken for something else.
func (c *HostCache) Give(bytes int64) { c.bytes -= bytes }

// Has says that a page is kept.
func (c *HostCache) Has(name prefix.Hash) bool { return c.byName[name] != nil }

// Blocks returns the blocks that have the pages of chain from place from on, up to the first page that none has, and
// the place of that. size is how many pages a block has.
func (c *HostCache) Blocks(chain []prefix.Hash, from, size int) (blocks []*Kept, end int) {
	end = from
	for end < len(chain) && c.Has(chain[end]) {
		end++
	}
	for at := from; at < end; at = (at/size + 1) * size {
		blocks = append(blocks, c.byName[chain[min(end, (at/size+1)*size)-1]])
	}
	return blocks, end
}

// touch makes blocks those used last, the first of them the very last.
func (c *HostCache) touch(blocks []*Kept) {
	for _, k := range slices.Backward(blocks) {
		c.Use(k)
		c.Unuse(k)
	}
}
