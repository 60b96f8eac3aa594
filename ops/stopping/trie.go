package stopping

// trie is an Aho-Corasick automaton: a node is the longest prefix of a stop that the text ends with.
type trie struct {
	nodes []node
}

type node struct {
	next [Width]int32
	ends bool // a stop ends here
}

// newTrie returns the trie of stops, with at most limit nodes.
func newTrie(stops []string, limit int) (*trie, error) {
	t := &trie{nodes: make([]node, 1)}
	for _, stop := range stops {
		current := int32(0)
		for i := range len(stop) {
			next := t.nodes[current].next[stop[i]]
			if next == 0 {
				if len(t.nodes) >= limit {
					return nil, ErrTooLarge
				}
				next = int32(len(t.nodes))
				t.nodes = append(t.nodes, node{})
				t.nodes[current].next[stop[i]] = next
			}
			current = next
		}
		t.nodes[current].ends = true
	}
	// Breadth first: a node without a child for a byte goes where the longest proper suffix of it that is a node
	// goes.
	suffix := make([]int32, len(t.nodes))
	queue := []int32{0}
	for len(queue) > 0 {
		current := queue[0]
		queue = queue[1:]
		for b := range Width {
			child := t.nodes[current].next[b]
			other := int32(0)
			if current != 0 {
				other = t.nodes[suffix[current]].next[b]
			}
			if child == 0 {
				t.nodes[current].next[b] = other
				continue
			}
			suffix[child] = other
			t.nodes[child].ends = t.nodes[child].ends || t.nodes[other].ends
			queue = append(queue, child)
		}
	}
	return t, nil
}

// dropping adds nodes, at most most of them, for a text whose first bytes are removed if they equal drop, and returns
// the first node.
func (t *trie) dropping(drop byte, most int) int32 {
	first := int32(0)
	for range most {
		n := t.nodes[0]
		n.next[drop] = first
		first = int32(len(t.nodes))
		t.nodes = append(t.nodes, n)
	}
	return first
}

// follow returns the node after a byte, and whether a stop ends there.
func (t *trie) follow(node int32, b byte) (int32, bool) {
	to := t.nodes[node].next[b]
	return to, t.nodes[to].ends
}

// followAll is follow for several bytes.
func (t *trie) followAll(node int32, text string) (int32, bool) {
	found := false
	for i := range len(text) {
		var ends bool
		node, ends = t.follow(node, text[i])
		found = found || ends
	}
	return node, found
}
