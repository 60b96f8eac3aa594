package automaton

// trie has the texts of tokens.
type trie struct {
	nodes []trieNode
	more  []int32 // further tokens of the same text, by node: see trieNode.more
	depth int     // of the deepest node
}

// trieNode is a prefix of a token's text. Nodes are in depth-first order.
type trieNode struct {
	next  int32 // the first node after this one's subtree
	token int32 // whose text this is, or -1
	more  int32 // index in trie.more of the number of further such tokens, which follow it; or -1
	depth uint16
	byte  byte
}

// newTrie makes the trie of texts, which it is given in order by their tokens.
func newTrie(texts [][]byte, order []int32) trie {
	var v trie
	var open []int32 // the nodes of the previous text
	var last []byte
	for _, id := range order {
		text := texts[id]
		same := 0
		for same < len(last) && same < len(text) && last[same] == text[same] {
			same++
		}
		v.close(open[same:])
		open = open[:same]
		for _, c := range text[same:] {
			open = append(open, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{token: -1, more: -1, depth: uint16(len(open) - 1), byte: c})
		}
		v.put(open[len(open)-1], id)
		v.depth = max(v.depth, len(text))
		last = text
	}
	v.close(open)
	return v
}

// close ends the subtrees of nodes.
func (v *trie) close(open []int32) {
	for _, n := range open {
		v.nodes[n].next = int32(len(v.nodes))
	}
}

// put gives a node a token. Tokens of the same text come one after the other.
func (v *trie) put(node, id int32) {
	n := &v.nodes[node]
	switch {
	case n.token < 0:
		n.token = id
	case n.more < 0:
		n.more = int32(len(v.more))
		v.more = append(v.more, 1, id)
	default:
		v.more[n.more]++
		v.more = append(v.more, id)
	}
}

// walk sets the tokens of the nodes from one to another, by the states of the nodes above.
func (v *trie) walk(a *Automaton, from, to int32, stack []State, mask []uint32) {
	for i := from; i < to; {
		n := &v.nodes[i]
		row := a.states[stack[n.depth]].row
		if row == nil {
			row = a.Row(stack[n.depth])
		}
		next := row[n.byte]
		if next < 0 {
			i = n.next
			continue
		}
		stack[n.depth+1] = next
		if n.token >= 0 {
			v.each(n, func(t int32) { set(mask, t) })
		}
		i++
	}
}

// each calls f with the tokens of a node.
func (v *trie) each(n *trieNode, f func(int32)) {
	if n.token >= 0 {
		f(n.token)
	}
	if n.more >= 0 {
		for _, t := range v.more[n.more+1:][:v.more[n.more]] {
			f(t)
		}
	}
}

func set(mask []uint32, t int32) { mask[t>>5] |= 1 << (t & 31) }
