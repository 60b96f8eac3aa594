package engine

import (
	"slices"

	"github.com/quire/quire/prefix"
)

// settleTaken notes which pages a program between runs took: what they had is gone.
func (e *Engine) settleTaken(fates []int32) {
	if e.index == nil {
		return
	}
	for page, v := range fates {
		row, _, held := e.graphs.PageFate(v)
		if row >= 0 {
			e.index.Forget(int32(page))
		}
		e.index.Hold(int32(page), held)
	}
}

// nameFlushed names the pages that contexts took and filled in one call. Others find them by their names also when the
// context is gone.
func (e *Engine) nameFlushed(list []*contextRow, fates []int32) {
	if e.index == nil {
		return
	}
	chains := map[int][]prefix.Hash{}
	for page, v := range fates {
		row, place, held := e.graphs.PageFate(v)
		at := slices.IndexFunc(list, func(r *contextRow) bool { return r.row == row })
		if at < 0 || !held || (place+1)*e.plan.PageSize > list[at].done {
			continue
		}
		if chains[row] == nil {
			chains[row] = prefix.Chain(e.prefixSeed, list[at].tokens[:list[at].done], e.plan.PageSize)
		}
		e.index.Name(int32(page), chains[row], place)
	}
}

// ofRows are the fates of pages, as a run has them, with rows as owners.
func (e *Engine) ofRows(fates []int32) []int32 {
	list := make([]int32, len(fates))
	for i, v := range fates {
		if list[i] = v; v >= 0 {
			list[i] = v - int32(2*e.graphs.WaitingLen()*e.plan.PagesPerSeq)
		}
	}
	return list
}

// forgetTaken notes that pages were taken for contents of which nothing is known.
func (e *Engine) forgetTaken(pages []int32) {
	for _, page := range pages {
		if e.index != nil {
			e.index.Forget(page)
			e.index.Hold(page, true)
		}
	}
}
