package prefix_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine/prefix"
)

// For any sequence of naming, taking and holding, the index finds the longest chain of pages that have its names, and
// each page has the name that it got last.
func TestIndex(t *testing.T) {
	const pages, pageSize = 8, 2
	seed := prefix.Seed()
	rapid.Check(t, func(t *rapid.T) {
		x := prefix.NewIndex(pages)
		of := map[prefix.Hash]int32{}
		prompt := rapid.SliceOfN(rapid.Int32Range(0, 1), pageSize, 9)
		page := rapid.Int32Range(0, pages-1)
		forget := func(p int32) {
			for h, other := range of {
				if other == p {
					delete(of, h)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"name": func(t *rapid.T) {
				chain := prefix.Chain(seed, prompt.Draw(t, "tokens"), pageSize)
				place, p := rapid.IntRange(0, len(chain)-1).Draw(t, "place"), page.Draw(t, "page")
				x.Name(p, chain, place)
				if _, there := of[chain[place]]; !there {
					forget(p)
					of[chain[place]] = p
				}
			},
			"take": func(t *rapid.T) {
				p := page.Draw(t, "page")
				x.Forget(p)
				forget(p)
			},
			"": func(t *rapid.T) {
				chain := prefix.Chain(seed, prompt.Draw(t, "prompt"), pageSize)
				var want []int32
				for _, h := range chain {
					p, ok := of[h]
					if !ok {
						break
					}
					want = append(want, p)
				}
				if got := x.Longest(chain); !slices.Equal(got, want) || x.Kept() != len(of) {
					t.Fatalf("pages %v, want %v; %d have names, want %d", got, want, x.Kept(), len(of))
				}
			},
		})
	})
}

// The pages used longest ago are the oldest, of a sequence the last first; those that are held are not among them
// unless they are shared.
func TestIndexOldest(t *testing.T) {
	x := prefix.NewIndex(6)
	a, b := prefix.Chain(prefix.Seed(), []int32{1, 2, 3}, 1), prefix.Chain(prefix.Seed(), []int32{4, 5}, 1)
	for place := range a {
		x.Name(int32(place), a, place)
	}
	x.Tick()
	for place := range b {
		x.Name(int32(3+place), b, place)
	}
	any := func(prefix.Hash) bool { return true }
	want := []prefix.Hash{a[2], a[1], a[0], b[1], b[0]}
	if got := x.Oldest(9, any); !slices.Equal(got, want) {
		t.Error("another order")
	}
	x.Tick()
	x.Hold(2, true)
	if got := x.Oldest(2, any); !slices.Equal(got, want[1:3]) {
		t.Error("a page that is held is among the oldest")
	}
	x.Share(2)
	if got := x.Oldest(9, any); got[4] != a[2] {
		t.Error("a page that was used last is not the youngest")
	}
	if chain, pages, from := x.Block(a[2], 2); from != 2 || !slices.Equal(chain, a[2:]) || pages[0] != 2 {
		t.Errorf("block of pages %v from place %d", pages, from)
	}
	x.Hold(5, true)
	x.Name(5, a, 1)
	if page, _ := x.Page(a[1]); page != 5 {
		t.Error("a page that nobody holds keeps its name beside one that is held")
	}
	x.Forget(0)
	if chain, _, _ := x.Block(a[1], 2); chain != nil {
		t.Error("a block without its first page")
	}
}

// A namer names pages as Chain does, however the tokens come.
func TestNamer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Int32Range(0, 3), 0, 20).Draw(t, "tokens")
		at := rapid.IntRange(0, len(tokens)).Draw(t, "begin")
		pageSize := rapid.IntRange(1, 4).Draw(t, "page size")
		chain := prefix.Chain(prefix.Seed(), tokens, pageSize)
		n := prefix.NewNamer(prefix.Seed(), chain[:at/pageSize], tokens[:at], pageSize)
		for _, token := range tokens[at:] {
			n.Push(token)
		}
		if !slices.Equal(n.Names, chain) {
			t.Fatal("other names")
		}
	})
}
