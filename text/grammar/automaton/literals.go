package automaton

import "slices"

type byteSet [4]uint64

func (s *byteSet) add(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

func (s *byteSet) has(b int) bool { return s[b>>6]>>(b&63)&1 != 0 }

// byteSets are the expressions of one byte out of a set.
type byteSets struct {
	*store
	sets []byteSet
	ids  map[byteSet]int32
}

func newByteSets(s *store) *byteSets { return &byteSets{store: s, ids: map[byteSet]int32{}} }

func (b *byteSets) expr(s byteSet) Expr {
	if s == (byteSet{}) {
		return Fail
	}
	id, ok := b.ids[s]
	if !ok {
		id = int32(len(b.sets))
		b.sets = append(b.sets, s)
		b.ids[s] = id
	}
	return b.intern(key{kind: kindSet, a: id}, false, true, true)
}

func (b *byteSets) arcs(k key) []arc {
	s := b.sets[k.a]
	var arcs []arc
	for c := 0; c < 256; c++ {
		if !s.has(c) {
			continue
		}
		if n := len(arcs); n > 0 && int(arcs[n-1].hi) == c-1 {
			arcs[n-1].hi = byte(c)
		} else {
			arcs = append(arcs, arc{byte(c), byte(c), Empty})
		}
	}
	return arcs
}

// choices are the expressions of one string out of a table. A table is sorted, so that the strings with a common prefix
// are a range of it.
type choices struct {
	*store
	tables [][]string
}

// any is any one of the texts.
func (c *choices) any(texts []string) Expr {
	if len(texts) == 0 {
		return Fail
	}
	if len(texts) == 1 && texts[0] == "" {
		return Empty
	}
	table := slices.Clone(texts)
	slices.Sort(table)
	return c.whole(slices.Compact(table))
}

// one is this text.
func (c *choices) one(text string) Expr {
	if text == "" {
		return Empty
	}
	for i, t := range c.tables {
		if len(t) == 1 && t[0] == text {
			return c.rest(int32(i), 0, 1, 0)
		}
		if i > 64 { // the usual texts come first
			break
		}
	}
	return c.whole([]string{text})
}

// whole adds a table and is any one of its strings.
func (c *choices) whole(table []string) Expr {
	c.tables = append(c.tables, table)
	return c.rest(int32(len(c.tables)-1), 0, int32(len(table)), 0)
}

// rest is what is left of the strings lo to hi of a table after depth bytes.
func (c *choices) rest(table, lo, hi, depth int32) Expr {
	texts := c.tables[table]
	if hi-lo == 1 && int(depth) == len(texts[lo]) {
		return Empty
	}
	return c.intern(key{kindChoice, table, lo, hi, depth}, int(depth) == len(texts[lo]), true, true)
}

func (c *choices) arcs(k key) []arc {
	texts, depth := c.tables[k.a], k.d
	lo, hi := k.b, k.c
	if int(depth) == len(texts[lo]) {
		lo++
	}
	var arcs []arc
	for lo < hi {
		first := texts[lo][depth]
		n, _ := slices.BinarySearchFunc(texts[lo:hi], first, func(s string, c byte) int {
			if s[depth] <= c {
				return -1
			}
			return 1
		})
		next := lo + int32(n)
		arcs = append(arcs, arc{first, first, c.rest(k.a, lo, next, depth+1)})
		lo = next
	}
	return arcs
}
