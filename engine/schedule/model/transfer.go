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
func (d *Device) Load(row int, pages *schedule.Pages, from schedule.Origin) (taken []int32, err error) {
	if d.Loads++; d.FailLoad {
		return nil, ErrFailed
	}
	r := &d.rows[row]
	if r.used {
		panic("loading into a row that is used")
	}
	r.used, r.promptLen, r.maxPages = true, 0, 0
	switch {
	case len(from.Named) > 0:
		d.table.Pin(from.Named)
		d.join(r, from.Named)
		d.table.Release(from.Named)
	case from.Pages > 0:
		d.clone(r, &d.rows[from.Row], from.Pages*d.PageSize)
	}
	for r.length < pages.Tokens {
		index := len(r.pages) / d.BlockPages
		length := min(pages.Tokens, (index+1)*d.BlockPages*d.PageSize)
		d.take(d.pagesOf(length) - len(r.pages))
		taken = append(taken, d.taken...)
		for i := r.length; i < length; i++ {
			page := i / d.PageSize
			d.write(r, pages.Blocks[index].(*block).pages[page%d.BlockPages][i%d.PageSize])
		}
	}
	d.check(nil)
	return taken, nil
}

// Keep implements [schedule.Device].
func (d *Device) Keep(pages []int32) (schedule.Block, error) {
	if d.Saves++; d.FailSave {
		return nil, ErrFailed
	}
	b := &block{}
	for _, p := range pages {
		b.pages = append(b.pages, slices.Clone(d.pages[p]))
	}
	return b, nil
}

// Restore implements [schedule.Device].
func (d *Device) Restore(b schedule.Block, from, to, place int, hold []int32) ([]int32, error) {
	if d.Loads++; d.FailLoad {
		return nil, ErrFailed
	}
	d.table.Pin(hold)
	defer d.table.Release(hold)
	d.take(to - from)
	pages := d.taken
	d.taken = nil
	ages := make([]int32, len(pages))
	for i, p := range pages {
		copy(d.pages[p], b.(*block).pages[from+i])
		ages[i] = d.table.Age(place+i, d.PagesPerSeq)
	}
	d.table.ReleaseOld(pages, ages)
	return pages, nil
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
