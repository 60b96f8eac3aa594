package schedule

import (
	"testing"

	"github.com/quire/quire/prefix"
)

// What can't be kept costs nothing that is kept.
func TestHostCacheTakesOrLeaves(t *testing.T) {
	c := NewHostCache(100)
	hash := func(i int32) []prefix.Hash { return prefix.Chain(prefix.Seed("model"), []int32{i}, 1) }
	keep := func(i int32, bytes int64) *Kept {
		k := &Kept{Chain: hash(i), Bytes: bytes}
		if !c.Take(bytes) {
			t.Fatalf("no room for prefix %d", i)
		}
		c.Add(k)
		return k
	}
	pinned, other := keep(1, 40), keep(2, 30)
	c.Pin(pinned.Chain[0], pinned)
	if c.Take(61) {
		t.Error("took more than there is beside what is pinned")
	}
	if k, _ := c.Longest(other.Chain); k != other || c.bytes != 70 {
		t.Errorf("%d bytes are kept; another prefix went for one that has no room", c.bytes)
	}
	if !c.Take(60) || c.bytes != 100 {
		t.Errorf("%d bytes are taken", c.bytes)
	}
	if k, _ := c.Longest(other.Chain); k != nil {
		t.Error("the other prefix is still there")
	}
}
