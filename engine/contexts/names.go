package contexts

import (
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
)

// names gives the pages of contexts the names by which requests and other contexts find them.
type names struct {
	*account
	index *prefix.Index // nil without a prefix cache
	seed  prefix.Hash
	sizes device.Sizes
	marks int // numbers that were given for contextRow.mixed, and in names
}

// mark returns a number that was not given before.
func (n *names) mark() int {
	n.marks++
	return n.marks
}

// settleTaken notes which pages a program between runs took: their contents are gone.
func (n *names) settleTaken(pageFates []int32) {
	if n.index == nil {
		return
	}
	n.index.Tick()
	for page, v := range pageFates {
		row, place, held := n.sizes.PageFate(v)
		if row >= 0 {
			n.index.Forget(int32(page))
			n.know(row, place, int32(page))
		}
		n.index.Hold(int32(page), held)
	}
}

// namedNext are the pages that have what comes next in a context, which waits.
func (n *names) namedNext(r *contextRow) []int32 {
	pageSize := n.pageSize
	if n.index == nil || r.done%pageSize != 0 || r.mixed > 0 {
		return nil
	}
	return n.index.Longest(prefix.Chain(n.lastName(r), r.tokens[r.done:r.until], pageSize))
}

// lastName is the name of the last full page of a context.
func (n *names) lastName(r *contextRow) prefix.Hash {
	if n := len(r.names); n > 0 {
		return r.names[n-1]
	}
	return n.seed
}

// name names the full pages of a context. Others find them by their names also when the context is gone. The names that
// a mixed context gives are its own: what its pages have depends on when the weights were replaced.
func (n *names) name(r *contextRow) {
	pageSize, from, last := n.pageSize, len(r.names), n.lastName(r)
	if r.mixed > 0 {
		last = prefix.Chain(last, []int32{-3, int32(n.mark())}, 2)[0]
	}
	r.names = slices.Concat(r.names, prefix.Chain(last, r.tokens[from*pageSize:r.done], pageSize))
	for place := from; place < len(r.names); place++ {
		page := r.pages[place]
		if page.full = true; n.index != nil && page.id != schedule.None {
			n.index.Name(page.id, r.names, place)
		}
	}
}

// forgetPage gives up the name of a page that is written to again.
func (n *names) forgetPage(page *heldPage) {
	if page.full = false; n.index != nil && page.id != schedule.None {
		n.index.Forget(page.id)
	}
}

// forgetTaken notes that pages were taken for unknown contents.
func (n *names) forgetTaken(pages []int32) {
	for _, page := range pages {
		if n.index != nil {
			n.index.Forget(page)
			n.index.Hold(page, true)
		}
	}
}
