package engine

import (
	"fmt"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/models/decoder"
)

// SpeculateAuto is a [Config.Speculate].
const SpeculateAuto = -1

// MaxDrafts is the most that Config.Speculate may be.
const MaxDrafts = 16

// Sizes of steps with drafts.
const (
	autoDrafts  = 15
	autoWidth   = 32
	autoGuesses = 4 // of a draft model, which takes a step of its own for each
	draftWidth  = 64
	draftLog    = 8192 // tokens drawn last in which drafts are looked for
)

// Values of [device.Drafting.CostRows]: bench/limits.md has 20 to 35 for floats, and fewer where attention counts.
// Quantized blocks are read sooner, and their products are scaled for each row.
const (
	costOfFloats = 16
	costOfBlocks = 6
)

// costRows is that of the model's matrices.
func (c Config) costRows() int {
	var all, inBlocks int64
	for _, a := range decoder.Arrays(c.model(), c.storage()) {
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

// setDrafts settles how tokens are drafted.
func (p *Plan) setDrafts(c Config) (err error) {
	p.drafts, err = c.drafting(*p)
	p.Drafts, p.DraftWidth = p.drafts.Most, p.drafts.Width
	return err
}

// drafting is how tokens are drafted.
func (c Config) drafting(p Plan) (device.Drafting, error) {
	if err := c.checkDrafter(p); err != nil {
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
	case !p.mixed:
		reason = fmt.Sprintf("on %s the bytes of a token depend on the step that it runs in, so that drafts would "+
			"change completions", p.Backend)
	case c.Model.Config.HasStates():
		reason = fmt.Sprintf("%s has layers that keep a state of a sequence, which can't go back behind a draft "+
			"that is refused", p.Model)
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
			Logged: p.draftLog()}, nil
	}
	if byModel {
		return device.Drafting{Most: c.Speculate, Width: draftWidth, ByModel: true}, nil
	}
	return device.Drafting{Most: c.Speculate, Width: draftWidth, Logged: p.draftLog()}, nil
}

// draftLog is how many tokens that were drawn last drafts are looked for in: a power of 2, of several steps.
func (p Plan) draftLog() int {
	n := draftLog
	for n < 4*p.slots {
		n *= 2
	}
	return n
}
