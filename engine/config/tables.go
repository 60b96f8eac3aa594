package config

import (
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/tokenizer"
)

// defaultStopStates is how many states of automata there is room for, 1 KiB each. Stop strings have about one a byte.
const defaultStopStates = 2048

// StopTables returns the sizes of the tables of stops, nil if the engine has no such tables; and what the tokenizer's
// tokens add to a text, nil if that is not known.
func StopTables(c Config) (*device.StopTables, *tokenizer.Pieces) {
	rows := c.StopStates
	if rows == 0 && c.Tokenizer != nil {
		rows = defaultStopStates
	}
	if rows <= 0 {
		return nil, nil
	}
	if c.Tokenizer == nil {
		return stopping.NewTables(rows, 0, 0), nil
	}
	pieces, err := c.Tokenizer.Pieces()
	if err != nil {
		return stopping.NewTables(rows, 0, 0), nil
	}
	return stopping.NewTables(rows, len(pieces.Bytes), len(pieces.Starts)-1), pieces
}

// Room on the device for states of machines and for masks, and the most of it that a call fills in.
const (
	defaultMaskStates = 32768
	statesOfAMask     = 8 // states for each mask that there is room for
	patchStates       = 2048
	patchMasks        = 64
)

// MaskSizes are the sizes of the tables of masks.
func MaskSizes(c Config, slots int) (s feature.MaskSizes) {
	states := c.MaskStates
	if states == 0 {
		states = defaultMaskStates
	}
	// All rows of a call must fit, both rows in slots and rows that wait.
	most := 2*stopping.Lanes*slots + 1
	s.States, s.Masks = max(states, most), max(states/statesOfAMask, most)
	s.Words = sampling.MaskWords(c.Model.Config.VocabSize)
	s.PatchStates, s.PatchMasks = min(patchStates, s.States), min(patchMasks, s.Masks)
	if c.Tokenizer != nil {
		if pieces, err := c.Tokenizer.Pieces(); err == nil {
			s.Texts = len(pieces.Bytes)
		}
	}
	return s
}
