package prefix_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine/prefix"
)

func TestChain(t *testing.T) {
	seed := prefix.Seed("model", "float32")
	tokens := []int32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for n, pages := range map[int]int{0: 0, 3: 0, 4: 1, 5: 1, 7: 1, 8: 2, 9: 2} {
		if got := prefix.Chain(seed, tokens[:n], 4); len(got) != pages ||
			!slices.Equal(got, prefix.Chain(seed, tokens, 4)[:pages]) {
			t.Errorf("%d tokens: a chain of %d pages, want the first %d of the whole", n, len(got), pages)
		}
	}
	whole := prefix.Chain(seed, tokens, 4)
	other := slices.Clone(tokens)
	other[0] = 99
	if c := prefix.Chain(seed, other, 4); c[0] == whole[0] || c[1] == whole[1] {
		t.Error("another first token changes the names of all pages")
	}
	if c := prefix.Chain(prefix.Seed("model", "bfloat16"), tokens, 4); c[0] == whole[0] {
		t.Error("another dtype has the same names")
	}
	if prefix.Seed("ab", "c") == prefix.Seed("a", "bc") {
		t.Error("fields run into each other")
	}
}

// model is the cache by the book.
type model struct {
	users  map[int]int
	tokens map[int][]int32
}

func TestCacheAgainstModel(t *testing.T) {
	const pageSize = 2
	seed := prefix.Seed()
	rapid.Check(t, func(t *rapid.T) {
		c := prefix.NewCache()
		m := model{users: map[int]int{}, tokens: map[int][]int32{}}
		prompt := rapid.SliceOfN(rapid.Int32Range(0, 1), 0, 9)
		kept := func() []int {
			var ids []int
			for id := range m.users {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return ids
		}
		drop := func(id int) {
			delete(m.users, id)
			delete(m.tokens, id)
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				id := rapid.IntRange(0, 7).Draw(t, "id")
				if _, there := m.users[id]; there {
					t.Skip("kept")
				}
				m.tokens[id], m.users[id] = prompt.Draw(t, "tokens"), 1
				c.Insert(id, prefix.Chain(seed, m.tokens[id], pageSize))
			},
			"use": func(t *rapid.T) {
				if len(m.users) == 0 {
					t.Skip("empty")
				}
				id := rapid.SampledFrom(kept()).Draw(t, "id")
				m.users[id]++
				c.Use(id)
			},
			"unuse": func(t *rapid.T) {
				var used []int
				for _, id := range kept() {
					if m.users[id] > 0 {
						used = append(used, id)
					}
				}
				if len(used) == 0 {
					t.Skip("none used")
				}
				id := rapid.SampledFrom(used).Draw(t, "id")
				m.users[id]--
				c.Unuse(id)
				if c.Users(id) != m.users[id] {
					t.Fatalf("entry %d has %d users, want %d", id, c.Users(id), m.users[id])
				}
			},
			"remove": func(t *rapid.T) {
				if len(m.users) == 0 {
					t.Skip("empty")
				}
				id := rapid.SampledFrom(kept()).Draw(t, "id")
				c.Remove(id)
				drop(id)
			},
			"": func(t *rapid.T) {
				want := prompt.Draw(t, "prompt")
				best, bestID := 0, 0
				for _, id := range kept() {
					n := 0
					for n < min(len(want), len(m.tokens[id])) && want[n] == m.tokens[id][n] {
						n++
					}
					// Full pages of both.
					if n = n / pageSize; n > best {
						best, bestID = n, id
					}
				}
				if id, pages := c.Longest(prefix.Chain(seed, want, pageSize)); pages != best || pages > 0 &&
					id != bestID {
					t.Fatalf("the longest prefix of %v is %d pages of %d, want %d of %d", want, pages, id, best, bestID)
				}
				if c.Len() != len(m.users) {
					t.Fatalf("%d entries, want %d", c.Len(), len(m.users))
				}
			},
		})
	})
}

func TestCounts(t *testing.T) {
	seed := prefix.Seed()
	chain := func(tokens ...int32) []prefix.Hash { return prefix.Chain(seed, tokens, 2) }
	n := prefix.Counts{}
	a, b := chain(1, 1, 2, 2, 3, 3), chain(1, 1, 2, 2, 4, 4)
	n.Add(a, 1)
	if got := n.Shared(a); got != 0 {
		t.Errorf("one chain alone shares %d pages", got)
	}
	n.Add(b, 1)
	if got := n.Shared(a); got != 2 {
		t.Errorf("they share %d pages, want 2", got)
	}
	n.Add(b, -1)
	if got := n.Shared(a); got != 0 || len(n) != 3 {
		t.Errorf("%d pages shared and %d counted after one was taken away", got, len(n))
	}
}
