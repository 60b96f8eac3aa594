package engine

import (
	"slices"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/prefix"
)

// settleTaken notes which pages a program between runs took: what they had is gone.
func (e *Engine) settleTaken(fates []int32) {
	if e.index == nil {
		return
	}
	e.index.Tick()
	for page, v := range fates {
		row, place, held := e.graphs.PageFate(v)
		if row >= 0 {
			e.index.Forget(int32(page))
			e.contexts.know(row, place, int32(page))
		}
		e.index.Hold(int32(page), held)
	}
}

// namedNext are the pages that have what comes next in a context, which waits.
func (e *Engine) namedNext(r *contextRow) []int32 {
	pageSize := e.plan.PageSize
	if e.index == nil || r.done%pageSize != 0 {
		return nil
	}
	return e.index.Longest(prefix.Chain(e.lastName(r), r.tokens[r.done:], pageSize))
}

// lastName is the name of the last full page of a context.
func (e *Engine) lastName(r *contextRow) prefix.Hash {
	if n := len(r.names); n > 0 {
		return r.names[n-1]
	}
	return e.prefixSeed
}

// name names the full pages of a context. Others find them by their names also when the context is gone.
func (e *Engine) name(r *contextRow) {
	pageSize, from := e.plan.PageSize, len(r.names)
	r.names = slices.Concat(r.names, prefix.Chain(e.lastName(r), r.tokens[from*pageSize:r.done], pageSize))
	for place := from; place < len(r.names); place++ {
		page := r.pages[place]
		if page.full = true; e.index != nil && page.id != schedule.None {
			e.index.Name(page.id, r.names, place)
		}
	}
}

// forgetPage gives up the name of a page that is written to again.
func (e *Engine) forgetPage(page *heldPage) {
	if page.full = false; e.index != nil && page.id != schedule.None {
		e.index.Forget(page.id)
	}
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
