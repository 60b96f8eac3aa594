package schedule

import (
	"testing"

	"github.com/quire/quire/engine/prefix"
)

// What can't be kept costs nothing that is kept.
func TestHostCacheTakesOrLeaves(t *testing.T) {
	c := NewHostCache(100)
	hash := func(i int32) []prefix.Hash { return prefix.Chain(prefix.Seed("model"), []int32{i}, 1) }
	keep := func(i int32, bytes int64) *Kept {
		k := &Kept{Chain: hash(i), Bytes: bytes}
		if !c.Take(bytes) {
			t.Fatalf("no room for block %d", i)
		}
		c.Add(k)
		return k
	}
	pinned, other := keep(1, 40), keep(2, 30)
	c.Pin(pinned.Chain[0], []*Kept{pinned})
	if c.Take(61) {
		t.Error("took more than there is beside what is pinned")
	}
	if !c.Has(other.Chain[0]) || c.bytes != 70 {
		t.Errorf("%d bytes are kept; another block went for one that has no room", c.bytes)
	}
	if !c.Take(60) || c.bytes != 100 {
		t.Errorf("%d bytes are taken", c.bytes)
	}
	if c.Has(other.Chain[0]) {
		t.Error("the other block is still there")
	}
}

// A block takes the place of one that has its first pages, and a prefix is found over the borders of blocks.
func TestHostCacheBlocks(t *testing.T) {
	const size = 2
	c := NewHostCache(1000)
	chain := prefix.Chain(prefix.Seed(), []int32{1, 2, 3, 4, 5, 6}, 1)
	add := func(from, to int) *Kept {
		k := &Kept{Chain: chain[from:to], From: from, Bytes: 1}
		if !c.Take(1) {
			t.Fatal("no room")
		}
		c.Add(k)
		return k
	}
	check := func(from, end int, want ...*Kept) {
		t.Helper()
		blocks, got := c.Blocks(chain, from, size)
		if got != end || len(blocks) != len(want) {
			t.Fatalf("%d blocks up to place %d, want %d up to %d", len(blocks), got, len(want), end)
		}
		for i, k := range want {
			if blocks[i] != k {
				t.Errorf("block %d is another", i)
			}
		}
	}
	check(0, 0)
	first, half := add(0, 2), add(2, 3)
	check(0, 3, first, half)
	check(1, 3, first, half)
	check(2, 3, half)
	second := add(2, 4)
	check(0, 4, first, second)
	if c.bytes != 2 {
		t.Errorf("%d blocks are kept, want 2", c.bytes)
	}
	last := add(4, 6)
	c.Pin(chain[5], []*Kept{first, second, last})
	c.Remove(second)
	check(0, 2, first)
	if c.Unpin(chain[5]) || c.Left() != 1000 {
		t.Errorf("%d bytes are left: something stayed pinned", c.Left())
	}
}
