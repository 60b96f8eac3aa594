package masking

import (
	"slices"

	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/tokenizer"
)

// Vocabulary is what tokens add to a text, as grammars read it.
type Vocabulary struct {
	Bytes  []byte  // the bytes of all tokens, one after another
	Starts []int32 // the start of each token's bytes, and the end of the last
	trie   *grammar.Vocabulary
	ends   []int32
	drop   byte
	drops  int
}

// NewVocabulary makes the vocabulary of a model with size tokens. The tokens in ends end a completion.
func NewVocabulary(p *tokenizer.Pieces, size int, ends []int32) *Vocabulary {
	v := &Vocabulary{Starts: []int32{0}, ends: ends, drop: p.Drop, drops: p.Drops}
	texts := make([][]byte, size)
	for token := range texts {
		if token+1 < len(p.Starts) && !slices.Contains(ends, int32(token)) {
			texts[token] = plain(p.Form, p.Bytes[p.Starts[token]:p.Starts[token+1]])
		}
		v.Bytes = append(v.Bytes, texts[token]...)
		v.Starts = append(v.Starts, int32(len(v.Bytes)))
	}
	v.trie = grammar.NewVocabulary(texts, ends)
	return v
}

// plain are the bytes of text that a piece stands for.
func plain(form tokenizer.PieceForm, piece []byte) []byte {
	if form != tokenizer.FallbackPieces {
		return piece
	}
	switch {
	case len(piece) == 2 && piece[0] == tokenizer.PieceEscape:
		return piece[1:]
	case len(piece) == 1 && piece[0] == tokenizer.PieceRunEnd:
		return nil
	}
	return piece
}

// Of returns the bytes of a token.
func (v *Vocabulary) Of(token int32) []byte {
	if int(token)+1 >= len(v.Starts) {
		return nil
	}
	return v.Bytes[v.Starts[token]:v.Starts[token+1]]
}

// text is a grammar over the tokens of a vocabulary.
//
// Some tokenizers remove up to v.drops bytes v.drop from the start of a text. The first v.drops states are for texts
// that may still lose bytes: state k is reached after k of them. The grammar's own states follow.
type text struct {
	*grammar.Automaton
	v *Vocabulary
}

// Memory implements [Automaton].
func (t *text) Memory() Memory { return t.Automaton.Memory() }

// NewText makes an automaton of a grammar.
func NewText(a *grammar.Automaton, v *Vocabulary) Automaton { return &text{a, v} }

func (t *text) own(state int32) grammar.State { return grammar.State(state - int32(t.v.drops)) }

// Start implements [Automaton].
func (t *text) Start() int32 {
	if t.v.drops > 0 {
		return 0
	}
	return int32(t.Automaton.Start())
}

// Next implements [Automaton].
func (t *text) Next(state int32, symbol byte) int32 {
	drops := int32(t.v.drops)
	if state < drops {
		first := drops + int32(t.Automaton.Start())
		if symbol != t.v.drop {
			return t.Next(first, symbol)
		}
		if state+1 == drops {
			return first
		}
		return state + 1
	}
	if next := t.Automaton.Next(t.own(state), symbol); next != grammar.Dead {
		return drops + int32(next)
	}
	return Dead
}

// Settle implements [settler].
func (t *text) Settle(state int32, read []byte) int32 {
	if state < int32(t.v.drops) || !t.Loose(t.own(state)) {
		return state
	}
	if next := t.Automaton.Settle(t.own(state), read); next != grammar.Dead {
		return int32(t.v.drops) + int32(next)
	}
	return Dead
}

// Mask implements [Automaton].
func (t *text) Mask(state int32, mask []uint32) (end, known bool) {
	v := t.v
	if state >= int32(v.drops) && t.Loose(t.own(state)) {
		return false, false
	}
	if state >= int32(v.drops) {
		v.trie.Mask(t.Automaton, t.own(state), mask)
	} else {
		v.trie.Mask(t.Automaton, t.Automaton.Start(), mask)
		for token := range int32(len(v.Starts) - 1) { // the tokens that lose bytes
			bytes := v.Of(token)
			if len(bytes) == 0 || bytes[0] != v.drop {
				continue
			}
			mask[token/32] &^= 1 << (token % 32)
			next := state
			for _, b := range bytes {
				if next = t.Next(next, b); next == Dead {
					break
				}
			}
			if next != Dead {
				mask[token/32] |= 1 << (token % 32)
			}
		}
	}
	return t.onlyEnds(mask), true
}

// onlyEnds reports whether a mask has only tokens that end a completion, and at least one.
func (t *text) onlyEnds(mask []uint32) bool {
	n := 0
	for _, token := range t.v.ends {
		if Has(mask, token) {
			n++
		}
	}
	return n > 0 && n == Count(mask)
}
