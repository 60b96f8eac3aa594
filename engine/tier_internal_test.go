package engine

import (
	"testing"

	"github.com/quire/quire/prefix"
)

// What can't be kept costs nothing that is kept.
func TestTierTakesOrLeaves(t *testing.T) {
	tr := newTier(100)
	hash := func(i int32) []prefix.Hash { return prefix.Chain(prefix.Seed("model"), []int32{i}, 1) }
	keep := func(i int32, bytes int64) *kept {
		k := &kept{chain: hash(i), bytes: bytes}
		if !tr.take(bytes) {
			t.Fatalf("no room for prefix %d", i)
		}
		tr.add(k)
		return k
	}
	pinned, other := keep(1, 40), keep(2, 30)
	tr.pin(pinned.chain[0], pinned)
	if tr.take(61) {
		t.Error("took more than there is beside what is pinned")
	}
	if k, _ := tr.longest(other.chain); k != other || tr.bytes != 70 {
		t.Errorf("%d bytes are kept; another prefix went for one that has no room", tr.bytes)
	}
	if !tr.take(60) || tr.bytes != 100 {
		t.Errorf("%d bytes are taken", tr.bytes)
	}
	if k, _ := tr.longest(other.chain); k != nil {
		t.Error("the other prefix is still there")
	}
}
