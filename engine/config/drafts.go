package config

import (
	"errors"
	"fmt"

	"github.com/quire/quire/engine/device"
)

// Sizes of steps with drafts.
const (
	autoDrafts  = 15
	autoWidth   = 32
	autoGuesses = 4 // guesses of a draft model, which takes a step for each
	draftWidth  = 64
	draftLog    = 8192 // tokens generated last in which drafts are looked for
)

// Values of [device.Drafting.CostRows]: bench/limits.md has 20 to 35 for floats, and fewer if attention dominates.
// Quantized blocks are read sooner, and their products are scaled for each row.
const (
	costOfFloats = 16
	costOfBlocks = 6
)

// costRows is the cost of a row of a step, by the form that most of the model's matrices have.
func (c Config) costRows() int {
	var all, inBlocks int64
	for _, a := range c.arrays() {
		if f, ok := a.Matrix(); ok {
			all += f.Bytes()
			if f.Blocks.Is() {
				inBlocks += f.Bytes()
			}
		}
	}
	if 2*inBlocks > all {
		return costOfBlocks
	}
	return costOfFloats
}

// drafting is how tokens are drafted.
func (s *Settled) drafting() (device.Drafting, error) {
	c := s.Config
	if err := s.checkDrafter(); err != nil {
		return device.Drafting{}, err
	}
	byModel := c.DraftModel != nil
	switch {
	case c.Speculate == 0:
		return device.Drafting{}, nil
	case c.Speculate < SpeculateAuto || c.Speculate > MaxDrafts:
		return device.Drafting{}, fmt.Errorf("speculate is %d, but must be 1 to %d, auto or off", c.Speculate,
			MaxDrafts)
	}
	reason := ""
	switch {
	case !s.Sizes.Mixed:
		reason = fmt.Sprintf("on %s the bytes of a token depend on the step that it runs in, so that drafts would "+
			"change completions", c.Backend.Description())
	case c.Model.Config.HasStates():
		reason = fmt.Sprintf("%s has layers that keep a state of a sequence, which can't go back before a draft "+
			"that is refused", s.Model.Architecture)
	}
	switch {
	case reason != "" && byModel:
		return device.Drafting{}, fmt.Errorf("there is a draft model, but %s: leave it out", reason)
	case c.Speculate == SpeculateAuto && reason != "":
		return device.Drafting{}, nil
	case reason != "":
		return device.Drafting{}, fmt.Errorf("speculate is %d, but %s: use auto or off", c.Speculate, reason)
	case c.Speculate == SpeculateAuto && byModel:
		return device.Drafting{Most: autoGuesses, Width: autoWidth, ByModel: true}, nil
	case c.Speculate == SpeculateAuto:
		return device.Drafting{Most: autoDrafts, Width: autoWidth, Adapts: true, CostRows: c.costRows(),
			Logged: s.draftLog()}, nil
	}
	if byModel {
		return device.Drafting{Most: c.Speculate, Width: draftWidth, ByModel: true}, nil
	}
	return device.Drafting{Most: c.Speculate, Width: draftWidth, Logged: s.draftLog()}, nil
}

// draftLog is how many of the tokens generated last are searched for drafts: a power of 2, of several steps.
func (s *Settled) draftLog() int {
	n := draftLog
	for n < 4*s.Sizes.Slots {
		n *= 2
	}
	return n
}

// checkDrafter rejects a draft model that cannot be used.
func (s *Settled) checkDrafter() error {
	c := s.Config
	switch {
	case c.DraftModel == nil:
		return nil
	case c.Speculate == 0:
		return errors.New("there is a draft model, and speculate is off: use auto or a number, or no draft model")
	case c.Hosts != nil || s.Devices > 1:
		return errors.New("a draft model runs on one device: use no draft model, or tp 1 and one process")
	case s.Sizes.LayerLoop:
		return errors.New("layers is loop, which a draft model has none of: use layers unrolled, or no draft model")
	case c.DraftModel.Config.HasStates():
		return fmt.Errorf("the draft model, %s, has layers that keep a state of a sequence, which can't go back "+
			"before a draft that is refused: use another one", c.DraftModel.Config.Architecture)
	}
	return nil
}
