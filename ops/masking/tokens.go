package masking

import (
	"math/bits"
	"slices"

	"github.com/quire/quire/ops/stopping"
)

// tokens allows or forbids tokens, depending on the tokens before.
type tokens struct {
	*stopping.Automaton
	ends    [][]int32 // of the first states: tokens with which a forbidden sequence ends
	allowed []int32   // nil: all
	size    int       // of the vocabulary
}

// NewTokens makes an automaton over the tokens of a vocabulary, which it reads as [stopping.CompileTokens] does. It
// allows the allowed tokens, or all if allowed is nil, except tokens that would complete one of the barred sequences.
// It returns [stopping.ErrTooLarge] if it needs more states than limit.
func NewTokens(vocabulary int, allowed []int32, barred [][]int32, limit int) (Automaton, error) {
	a, err := stopping.CompileTokens(barred, limit)
	if err != nil {
		return nil, err
	}
	return &tokens{a, stopping.TokenEnds(barred), allowed, vocabulary}, nil
}

// Start implements [Automaton].
func (t *tokens) Start() int32 { return 0 }

// Next implements [Automaton].
func (t *tokens) Next(state int32, symbol byte) int32 {
	next, _ := t.Walk(state, []byte{symbol})
	return next
}

// Mask implements [Automaton].
func (t *tokens) Mask(state int32, mask []uint32) (end, known bool) {
	if int(state) >= len(t.ends) {
		return false, false // within a token
	}
	if t.allowed == nil {
		for token := range t.size {
			mask[token/32] |= 1 << (token % 32)
		}
	}
	for _, token := range t.allowed {
		mask[token/32] |= 1 << (token % 32)
	}
	for _, token := range t.ends[state] {
		mask[token/32] &^= 1 << (token % 32)
	}
	return false, true
}

// Memory implements [Automaton]. It is empty, because the automaton does not grow.
func (t *tokens) Memory() (m Memory) { return m }

// Has reports whether a mask has a token.
func Has(mask []uint32, token int32) bool { return mask[token/32]>>(token%32)&1 == 1 }

// Common returns the tokens that are in all masks.
func Common(masks ...[]uint32) []uint32 {
	all := slices.Clone(masks[0])
	for _, m := range masks[1:] {
		for i := range all {
			all[i] &= m[i]
		}
	}
	return all
}

// Without removes a token from a mask, and returns the mask.
func Without(mask []uint32, token int32) []uint32 {
	mask[token/32] &^= 1 << (token % 32)
	return mask
}

// Count returns how many tokens a mask has.
func Count(mask []uint32) (n int) {
	for _, word := range mask {
		n += bits.OnesCount32(word)
	}
	return n
}
