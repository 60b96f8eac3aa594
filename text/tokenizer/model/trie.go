package model

// Trie finds the texts that are prefixes of another.
type Trie struct {
	root  [256]int32       // first byte -> node, 0 for none
	edges map[uint64]int32 // node<<8 | byte -> node
	ends  []int32          // node -> the number of its text, -1 for none
}

func NewTrie(room int) Trie { return Trie{edges: make(map[uint64]int32, room), ends: []int32{-1}} }

// Add adds a text with a number of at least 0. It ignores the empty text, and a text that it already has.
func (t *Trie) Add(text string, number int32) {
	node := int32(0)
	for i := 0; i < len(text); i++ {
		next := t.step(node, text[i])
		if next == 0 {
			next = int32(len(t.ends))
			t.ends = append(t.ends, -1)
			if node == 0 {
				t.root[text[i]] = next
			} else {
				t.edges[uint64(node)<<8|uint64(text[i])] = next
			}
		}
		node = next
	}
	if node != 0 && t.ends[node] < 0 {
		t.ends[node] = number
	}
}

func (t *Trie) step(node int32, b byte) int32 {
	if node == 0 {
		return t.root[b]
	}
	return t.edges[uint64(node)<<8|uint64(b)]
}

// Longest returns the longest text that begins at s[start], and its number. The length is 0 if there is none.
func (t *Trie) Longest(s string, start int) (length int, number int32) {
	node := t.root[s[start]]
	for i := start + 1; node != 0; i++ {
		if n := t.ends[node]; n >= 0 {
			length, number = i-start, n
		}
		if i == len(s) {
			break
		}
		node = t.step(node, s[i])
	}
	return length, number
}

// prefixes calls found for each text that is a prefix of s, the shortest first.
func (t *Trie) prefixes(s string, found func(length int, number int32)) {
	node := int32(0)
	for i := 0; i < len(s); i++ {
		if node = t.step(node, s[i]); node == 0 {
			return
		}
		if number := t.ends[node]; number >= 0 {
			found(i+1, number)
		}
	}
}
