package schedule

import (
	"fmt"
	"slices"

	"github.com/quire/quire/engine/prefix"
)

// hostPages moves named pages between the device and the host cache. The run's goroutine owns it; the cache outlives
// the run.
type hostPages struct {
	Sizes
	device Device
	cache  *HostCache // nil: pages that others take are forgotten
	names  *namedPages
	stats  *Stats
}

// isOn reports whether there is a host cache, and pages with names to put there.
func (h *hostPages) isOn() bool { return h.cache != nil && h.names.index != nil }

// offload copies pages to the host that others will soon take: the least recently used, if few are left that nobody has
// use for.
func (h *hostPages) offload(freePages int) error {
	if !h.isOn() {
		return nil
	}
	index := h.names.index
	for range h.Staged {
		if freePages-index.Kept() >= h.names.taken+h.Pages/8 { // enough for what the last call took, and some more
			return nil
		}
		oldest := index.Oldest(1, func(name prefix.Hash) bool { return !h.cache.Has(name) })
		if len(oldest) == 0 {
			return nil
		}
		chain, pages, from := index.Block(oldest[0], h.BlockPages)
		if len(chain) == 0 { // the pages before it are gone, so nothing can begin with it
			page, _ := index.Page(oldest[0])
			index.Forget(page)
			continue
		}
		bytes := h.device.Bytes(h.BlockPages * h.PageSize)
		if !h.cache.Take(bytes) {
			return nil
		}
		block, err := h.device.Keep(pages)
		if err != nil {
			h.cache.Give(bytes)
			return fmt.Errorf("moving pages to the host: %w", err)
		}
		h.stats.MovedBytes += bytes
		h.cache.Add(&Kept{Chain: chain, From: from, Block: block, Bytes: bytes})
	}
	return nil
}

// restore copies pages of a chain back from the host, from one place to before another, as far as there is room. It
// takes none of the pages of hold.
func (h *hostPages) restore(blocks []*Kept, chain []prefix.Hash, from, end, room int, hold []int32) error {
	if len(hold)+end-from > h.NamedLen() {
		return nil
	}
	h.cache.touch(blocks)
	for _, k := range blocks {
		first, stop := max(from, k.From), min(end, k.From+len(k.Chain))
		if room -= stop - first; room < 1 {
			return nil
		}
		pages, err := h.device.Restore(k.Block, first-k.From, stop-k.From, first, hold)
		if err != nil {
			h.cache.Remove(k)
			return fmt.Errorf("moving pages back from the host: %w", err)
		}
		h.stats.MovedBytes += h.device.Bytes(h.BlockPages * h.PageSize)
		for i, page := range pages {
			h.names.restored(page, chain, first+i)
			hold = append(hold, page)
		}
	}
	return nil
}

// wanted returns the blocks that the first groups of the queue will probably want from the host, up to about
// Sizes.Staged.
func (h *hostPages) wanted(groups []*group) (want []Block) {
	if !h.isOn() {
		return nil
	}
	for _, g := range groups[:min(len(groups), h.MaxSeqs)] {
		if g.sourced || len(want) >= h.Staged {
			continue
		}
		kept, _ := h.cache.Blocks(g.chain, len(h.names.longest(g.chain)), h.BlockPages)
		for _, b := range blocksOf(kept) {
			if !slices.Contains(want, b) {
				want = append(want, b)
			}
		}
	}
	return want
}

func blocksOf(kept []*Kept) (blocks []Block) {
	for _, k := range kept {
		blocks = append(blocks, k.Block)
	}
	return blocks
}
