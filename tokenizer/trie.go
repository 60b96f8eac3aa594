package tokenizer

// trie finds texts that another one begins with.
type trie struct {
	root  [256]int32       // first byte -> node, 0 none
	edges map[uint64]int32 // node<<8 | byte -> node
	ends  []int32          // node -> what the text there was added with, -1 none
}

func newTrie(room int) trie { return trie{edges: make(map[uint64]int32, room), ends: []int32{-1}} }

// add adds a text with a number of at least 0; an empty one is left out. The first number of a text stays.
func (t *trie) add(text string, number int32) {
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

func (t *trie) step(node int32, b byte) int32 {
	if node == 0 {
		return t.root[b]
	}
	return t.edges[uint64(node)<<8|uint64(b)]
}

// prefixes calls found for each text that s begins with, the shortest first.
func (t *trie) prefixes(s string, found func(length int, number int32)) {
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
