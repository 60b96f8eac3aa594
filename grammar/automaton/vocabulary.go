package automaton

import (
	"bytes"
	"slices"
	"sync"
)

// Vocabulary is the texts of a model's tokens as a trie.
type Vocabulary struct {
	tokens int
	ends   []int32 // tokens that end the sequence
	nodes  []trieNode
	more   []int32 // further tokens of the same text, by node: see trieNode.more
	depth  int     // of the deepest node

	mu    sync.Mutex
	chars map[string]*inside // by Builder.Common
}

// trieNode is a prefix of a token's text. Nodes stand in depth-first order.
type trieNode struct {
	next  int32 // the first node behind this one's subtree
	token int32 // whose text this is, or -1
	more  int32 // where in more the number of further such tokens stands, and behind it the tokens; or -1
	depth uint16
	byte  byte
}

// NewVocabulary makes the trie. The text of token i is texts[i]; tokens without one, as special tokens are, come in no
// text. Tokens of ends end the sequence. Texts have 65535 bytes at most; longer ones never come.
func NewVocabulary(texts [][]byte, ends []int32) *Vocabulary {
	v := &Vocabulary{tokens: len(texts), ends: slices.Clone(ends), chars: map[string]*inside{}}
	order := make([]int32, 0, len(texts))
	for i, t := range texts {
		if len(t) > 0 && len(t) < 1<<16 && !slices.Contains(ends, int32(i)) {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(x, y int32) int { return bytes.Compare(texts[x], texts[y]) })
	var open []int32 // the nodes of the text before
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
func (v *Vocabulary) close(open []int32) {
	for _, n := range open {
		v.nodes[n].next = int32(len(v.nodes))
	}
}

// put gives a node a token. Tokens of one text come one behind the other.
func (v *Vocabulary) put(at, id int32) {
	n := &v.nodes[at]
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

// Tokens counts the tokens.
func (v *Vocabulary) Tokens() int { return v.tokens }

// Words is the length of a mask.
func (v *Vocabulary) Words() int { return (v.tokens + 31) / 32 }

// Mask sets bit t%32 of mask[t/32] for each token t that may come next in a state, and clears all others: tokens whose
// text leads to a state, and those that end the sequence where the text is complete.
func (v *Vocabulary) Mask(a *Automaton, s State, mask []uint32) {
	clear(mask)
	if s < 0 {
		return
	}
	if a.Accepts(s) {
		for _, t := range v.ends {
			set(mask, t)
		}
	}
	stack := make([]State, v.depth+1)
	stack[0] = s
	if v.maskText(a, s, stack, mask) {
		return
	}
	v.walk(a, 0, int32(len(v.nodes)), stack, mask)
}

// walk sets the tokens of the nodes from one to another, by the states of the nodes above.
func (v *Vocabulary) walk(a *Automaton, from, to int32, stack []State, mask []uint32) {
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
func (v *Vocabulary) each(n *trieNode, f func(int32)) {
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
