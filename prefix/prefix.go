// Package prefix names the prefixes of prompts by content, page by page, and remembers which ones are kept and where.
//
// The name of a page is a hash chained over the pages before it, so equal names mean equal tokens from the start. A
// kept prefix belongs to a number that the caller chooses, for instance a row of the sequence table. The package knows
// nothing of devices.
package prefix

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Hash names a full page and all pages before it.
type Hash [sha256.Size]byte

// Seed begins the chains of one kind of contents: fields are everything but the tokens that keys and values depend on,
// such as the model's fingerprint, the dtype of the cache and the tokens a page.
func Seed(fields ...string) Hash {
	h := sha256.New()
	for _, f := range fields {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(f)))
		h.Write(size[:])
		h.Write([]byte(f))
	}
	return Hash(h.Sum(nil))
}

// Chain returns the names of the full pages of tokens: SHA-256 of the previous name (the seed at first) and the page's
// token ids, 4 bytes each, little-endian. A partial page at the end has no name.
func Chain(seed Hash, tokens []int32, pageSize int) []Hash {
	chain := make([]Hash, 0, len(tokens)/pageSize)
	page := make([]byte, len(seed)+4*pageSize)
	for from := 0; from+pageSize <= len(tokens); from += pageSize {
		copy(page, seed[:])
		for i, t := range tokens[from : from+pageSize] {
			binary.LittleEndian.PutUint32(page[len(seed)+4*i:], uint32(t))
		}
		seed = sha256.Sum256(page)
		chain = append(chain, seed)
	}
	return chain
}

// Cache says which keepers hold which prefixes. A keeper in use is never given up; of the others, the one used longest
// ago goes first.
type Cache struct {
	keepers map[int]*keeper
	byHash  map[Hash]map[int]struct{}
	lru     *list.List // of *keeper, not in use, longest unused first
}

type keeper struct {
	id     int
	chain  []Hash
	users  int
	unused *list.Element // nil while in use
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{keepers: map[int]*keeper{}, byHash: map[Hash]map[int]struct{}{}, lru: list.New()}
}

// Len is the number of keepers.
func (c *Cache) Len() int { return len(c.keepers) }

// Insert notes that the keeper id, new to the cache, holds the pages of chain, from the first on. It starts with one
// user.
func (c *Cache) Insert(id int, chain []Hash) {
	if c.keepers[id] != nil {
		panic(fmt.Errorf("prefix: keeper %d is in the cache already", id))
	}
	c.keepers[id] = &keeper{id: id, chain: chain, users: 1}
	for _, h := range chain {
		if c.byHash[h] == nil {
			c.byHash[h] = map[int]struct{}{}
		}
		c.byHash[h][id] = struct{}{}
	}
}

// Longest returns a keeper of the longest prefix of chain that is kept, and its pages; pages is 0 where none is. Of
// several keepers it is the one with the lowest number.
func (c *Cache) Longest(chain []Hash) (id, pages int) {
	for pages = len(chain); pages > 0; pages-- {
		found := -1
		for k := range c.byHash[chain[pages-1]] {
			if found < 0 || k < found {
				found = k
			}
		}
		if found >= 0 {
			return found, pages
		}
	}
	return 0, 0
}

// Use adds a user of a keeper.
func (c *Cache) Use(id int) {
	k := c.keepers[id]
	k.users++
	if k.unused != nil {
		c.lru.Remove(k.unused)
		k.unused = nil
	}
}

// Unuse takes a user away.
func (c *Cache) Unuse(id int) {
	k := c.keepers[id]
	if k.users == 0 {
		panic(fmt.Errorf("prefix: keeper %d has no user", id))
	}
	if k.users--; k.users == 0 {
		k.unused = c.lru.PushBack(k)
	}
}

// Users is how many users a keeper has.
func (c *Cache) Users(id int) int { return c.keepers[id].users }

// Evict forgets the keeper that was used longest ago, and returns it. There is none where all are in use.
func (c *Cache) Evict() (id int, ok bool) {
	front := c.lru.Front()
	if front == nil {
		return 0, false
	}
	id = front.Value.(*keeper).id
	c.Remove(id)
	return id, true
}

// Remove forgets a keeper, in use or not.
func (c *Cache) Remove(id int) {
	k := c.keepers[id]
	if k.unused != nil {
		c.lru.Remove(k.unused)
	}
	for _, h := range k.chain {
		delete(c.byHash[h], id)
		if len(c.byHash[h]) == 0 {
			delete(c.byHash, h)
		}
	}
	delete(c.keepers, id)
}

// Counts says how many of a set of chains have a page.
type Counts map[Hash]int

// Add counts the pages of a chain; by is 1 to add it and -1 to take it away.
func (n Counts) Add(chain []Hash, by int) {
	for _, h := range chain {
		if n[h] += by; n[h] == 0 {
			delete(n, h)
		}
	}
}

// Shared is how many pages of chain at least two of the counted chains have, if chain itself is one of them.
func (n Counts) Shared(chain []Hash) int {
	for i, h := range chain {
		if n[h] < 2 {
			return i
		}
	}
	return len(chain)
}
