package engine

import (
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine/masks"
	"github.com/quire/quire/ops/masking"
)

// BoundStructures lets the states of each structure take so many bytes. It is for an engine that has run nothing yet.
func (e *Engine) BoundStructures(bytes int) { e.runs.checker.Masks().Bound = bytes }

// MachinesMadeAnew counts the machines that were made anew because they had taken too much memory.
func (e *Engine) MachinesMadeAnew() int { return e.runs.checker.Masks().Arena.Renewals() }

// MemoryOfText is how many bytes the states of a structure take that has read nothing but some tokens.
func (e *Engine) MemoryOfText(s parameter.Structure, tokens []int32) (int, error) {
	v, err := e.runs.checker.Masks().Vocabulary()
	if err != nil {
		return 0, err
	}
	a, err := masks.Compile(s)
	if err != nil {
		return 0, err
	}
	compiled, text := a.Memory().Bytes, masking.NewText(a, v)
	state := text.Start()
	for _, token := range tokens {
		for _, symbol := range v.Of(token) {
			state = text.Next(state, symbol)
		}
	}
	text.Mask(state, make([]uint32, e.core.Settled.Sizes.Masks.Words))
	for symbol := range masking.Width {
		text.Next(state, byte(symbol))
	}
	return a.Memory().Bytes - compiled, nil
}
