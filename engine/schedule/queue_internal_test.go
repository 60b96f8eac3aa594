package schedule

import (
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/engine/prefix"
)

// Whoever is in line gets to its front, however many come after it that have a prefix in common with those before it;
// and as long as nobody has waited for too long, those with the same prefix stand together.
func TestPlaceInLine(t *testing.T) {
	chain := func(number int) []prefix.Hash {
		return prefix.Chain(prefix.Seed(), []int32{int32(number), int32(number)}, 1)
	}
	q := newWaitingQueue(0, false)
	add := func(number int) *group {
		f := &group{Request: &Request{N: 1, chain: chain(number)}}
		if number == 0 {
			f.chain = nil
		}
		q.insert(f)
		return f
	}
	a, alone, b := add(1), add(0), add(2)
	c, d := add(1), add(2)
	for i, want := range []*group{a, c, alone, b, d} {
		if q.groups[i] != want {
			t.Fatalf("place %d is another's", i)
		}
	}
	// The line moves on by one for each that comes; all that come are of one group.
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 3 * LookAhead {
		if i < LookAhead/2 || rng.IntN(50) > 0 {
			add(1)
		} else {
			add(0)
		}
		if i > LookAhead/2 {
			q.groups = q.groups[1:]
		}
		for _, f := range q.groups {
			if f.passed > LookAhead {
				t.Fatal("one is passed for ever")
			}
		}
	}
	for _, f := range []*group{alone, b, d} {
		for _, w := range q.groups {
			if w == f {
				t.Error("one still waits after 3,000 that came after it")
			}
		}
	}
}

// A prefix row goes when its last clone has started, and then the one that it was itself a clone of.
func TestPrefixRowsGoWithTheirClones(t *testing.T) {
	release := make([]bool, 3)
	rows := newPrefixRows(Sizes{Slots: 1, PrefixRows: 2, PageSize: 1}, release, nil)
	tokens := []int32{1, 2, 3, 4}
	g := &group{Request: &Request{Tokens: tokens, chain: prefix.Chain(prefix.Seed(), tokens, 1)}}
	source := rows.add(g, 2, false, nil, 0)
	clone := rows.add(g, 4, false, source, 2)
	if p := rows.add(g, 4, false, nil, 0); p != nil {
		t.Fatal("there is a third row of two")
	}
	rows.byChain.Use(clone.row) // by a sequence
	source.opened = true
	rows.dropUnused()
	if release[source.row] {
		t.Error("a row went that another is to be a clone of")
	}
	rows.settleOpened([]*prefixRow{clone}, &Output{Opened: []int32{1}})
	rows.dropUnused()
	if !release[source.row] || release[clone.row] {
		t.Errorf("released: %v, want row %d", release, source.row)
	}
	rows.byChain.Unuse(clone.row)
	rows.dropUnused()
	if !release[clone.row] || len(rows.free) != 2 || rows.byChain.Len() != 0 {
		t.Errorf("%d rows are free, released: %v", len(rows.free), release)
	}
}
