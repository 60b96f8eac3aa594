// Package prefix names the prefixes of prompts by content, page by page, and records which ones are kept and where.
//
// The name of a page is a hash chained over the pages before it, so equal names mean equal tokens from the start. A
// kept prefix belongs to a number that the caller chooses, for example a row of the sequence table. The package knows
// nothing of devices.
package prefix

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Hash names a full page and all pages before it.
type Hash [sha256.Size]byte

// Seed returns the start of chains. The fields are everything that keys and values depend on, except the tokens: the
// model's fingerprint, the dtype of the cache, the page size and so on.
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

// Chain returns the names of the full pages of tokens: SHA-256 of the previous name (the seed at first) and the
// page's token ids, 4 bytes each, little-endian. A partial page at the end has no name.
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

// Cache records which prefixes are kept, each under an id chosen by the caller, and how many users each has.
type Cache struct {
	entries map[int]*entry
	byHash  map[Hash]map[int]struct{}
}

type entry struct {
	chain []Hash
	users int
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{entries: map[int]*entry{}, byHash: map[Hash]map[int]struct{}{}}
}

// Len returns the number of entries.
func (c *Cache) Len() int { return len(c.entries) }

// Insert adds the entry id, which has the pages of chain. It has one user at first.
func (c *Cache) Insert(id int, chain []Hash) {
	if c.entries[id] != nil {
		panic(fmt.Errorf("prefix: entry %d is already in the cache", id))
	}
	c.entries[id] = &entry{chain: chain, users: 1}
	for _, h := range chain {
		if c.byHash[h] == nil {
			c.byHash[h] = map[int]struct{}{}
		}
		c.byHash[h][id] = struct{}{}
	}
}

// Longest returns the entry with the longest kept prefix of chain, and the number of pages of that prefix: 0 if there
// is none. If several entries have it, it returns the one with the lowest id.
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

// Use adds a user to an entry.
func (c *Cache) Use(id int) { c.entries[id].users++ }

// Unuse removes a user from an entry.
func (c *Cache) Unuse(id int) {
	e := c.entries[id]
	if e.users == 0 {
		panic(fmt.Errorf("prefix: entry %d has no user", id))
	}
	e.users--
}

// Users returns the number of users of an entry.
func (c *Cache) Users(id int) int { return c.entries[id].users }

// Remove removes an entry, whether it is in use or not.
func (c *Cache) Remove(id int) {
	e := c.entries[id]
	for _, h := range e.chain {
		delete(c.byHash[h], id)
		if len(c.byHash[h]) == 0 {
			delete(c.byHash, h)
		}
	}
	delete(c.entries, id)
}

// Counts maps each page name to how many of a set of chains contain it.
type Counts map[Hash]int

// Add counts the pages of a chain; by is 1 to add the chain and -1 to remove it.
func (n Counts) Add(chain []Hash, by int) {
	for _, h := range chain {
		if n[h] += by; n[h] == 0 {
			delete(n, h)
		}
	}
}

// Shared returns how many pages of chain are in at least two of the counted chains, if chain itself is one of them.
func (n Counts) Shared(chain []Hash) int {
	for i, h := range chain {
		if n[h] < 2 {
			return i
		}
	}
	return len(chain)
}
