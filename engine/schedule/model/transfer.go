package model

import (
	"slices"

	"github.com/quire/quire/engine/schedule"
)

// block is pages on the host.
type block struct{ pages [][]int32 }

// Save implements [schedule.Device].
func (d *Device) Save(row, tokens int) (*schedule.Pages, error) {
	if d.Saves++; d.FailSave {
		return nil, ErrFailed
	}
	r := &d.rows[row]
	if !r.used || r.length < tokens {
		panic("saving tokens that did not run")
	}
	out := &schedule.Pages{Tokens: tokens}
	for from := 0; from*d.PageSize < tokens; from += d.BlockPages {
		b := &block{}
		for _, p := range r.pages[from:min(len(r.pages), from+d.BlockPages)] {
			b.pages = append(b.pages, slices.Clone(d.pages[p]))
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out, nil
}

// Load implements [schedule.Device].
func (d *Device) Load(row int, pages *schedule.Pages, from schedule.Origin) error {
	if d.Loads++; d.FailLoad {
		return ErrFailed
	}
	r := &d.rows[row]
	if r.used {
		panic("loading into a row that is used")
	}
	r.used, r.promptLen, r.maxPages = true, 0, 0
	if from.Pages > 0 {
		d.clone(r, &d.rows[from.Row], from.Pages*d.PageSize)
	}
	for i := r.length; i < pages.Tokens; i++ {
		page := i / d.PageSize
		block := pages.Blocks[page/d.BlockPages].(*block)
		d.write(r, block.pages[page%d.BlockPages][i%d.PageSize])
	}
	d.check()
	return nil
}

// Stage implements [schedule.Device].
func (d *Device) Stage(blocks []schedule.Block) { d.staged = blocks[:min(len(blocks), d.Staged)] }

// IsStaged implements [schedule.Device].
func (d *Device) IsStaged(blocks []schedule.Block) bool {
	return !slices.ContainsFunc(blocks[:min(len(blocks), d.Staged)],
		func(b schedule.Block) bool { return !slices.Contains(d.staged, b) })
}

// Bytes implements [schedule.Device].
func (d *Device) Bytes(tokens int) int64 {
	return int64((d.pagesOf(tokens)+d.BlockPages-1)/d.BlockPages) * 100
}
