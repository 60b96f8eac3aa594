package automaton

import (
	"bytes"
	"slices"
)

// Vocabulary is the texts of a model's tokens as a trie.
type Vocabulary struct {
	trie
	tokens int
	ends   []int32 // tokens that end the sequence
	texts  *textMasks
}

// NewVocabulary makes the trie. The text of token i is texts[i]. Tokens without a text, such as special tokens, and
// tokens of more than 65535 bytes are never allowed. Tokens of ends end the sequence.
func NewVocabulary(texts [][]byte, ends []int32) *Vocabulary {
	v := &Vocabulary{tokens: len(texts), ends: slices.Clone(ends)}
	order := make([]int32, 0, len(texts))
	for i, t := range texts {
		if len(t) > 0 && len(t) < 1<<16 && !slices.Contains(ends, int32(i)) {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(x, y int32) int { return bytes.Compare(texts[x], texts[y]) })
	v.trie = newTrie(texts, order)
	v.texts = newTextMasks(&v.trie, v.Words())
	return v
}

// Tokens counts the tokens.
func (v *Vocabulary) Tokens() int { return v.tokens }

// Words is the length of a mask.
func (v *Vocabulary) Words() int { return (v.tokens + 31) / 32 }

// Mask sets bit t%32 of mask[t/32] for each token t that may come next in a state, and clears all others: tokens whose
// text leads to a state, and if the text is complete the tokens that end the sequence.
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
	if v.texts.fill(a, s, stack, mask) {
		return
	}
	v.walk(a, 0, int32(len(v.nodes)), stack, mask)
}
