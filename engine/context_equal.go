package engine

import (
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/prefix"
)

// Of committed pages of the same name there is one: whoever commits another gives it up for the one that is there.

// equalPages finds the context, other than r, that has committed the most of the pages that names names, and how many
// of them.
func (c *contexts) equalPages(r *contextRow, names []prefix.Hash) (of *contextRow, pages int) {
	for _, other := range c.open() {
		if other == r {
			continue
		}
		n := 0
		for n < min(len(names), len(other.names)) && names[n] == other.names[n] {
			n++
		}
		if n > pages {
			of, pages = other, n
		}
	}
	return of, pages
}

// commit names the next n pages of a context, and takes over those that another has under these names.
func (e *Engine) commit(r *contextRow, n int) error {
	from, pageSize := r.committed(), e.plan.PageSize
	last := e.prefixSeed
	if from > 0 {
		last = r.names[from-1]
	}
	r.names = slices.Concat(r.names, prefix.Chain(last, r.tokens[from*pageSize:(from+n)*pageSize], pageSize))
	of, pages := e.contexts.equalPages(r, r.names)
	if !e.contexts.adopt(r, of, from, pages) {
		return nil
	}
	return e.contextVerbs(func(in *device.VerbsInput) {
		in.Equals[r.row], in.EqualFrom[r.row], in.EqualTo[r.row] = int32(of.row), int32(from),
			int32(pages)
	})
}

// adopt takes over another context's pages in the account, and says whether any of them was not the same already.
func (c *contexts) adopt(r, of *contextRow, from, to int) (any bool) {
	for p := from; p < to; p++ {
		if r.pages[p] == of.pages[p] {
			continue
		}
		if *r.pages[p]--; *r.pages[p] == 0 {
			c.used--
		}
		*of.pages[p]++
		r.pages[p], any = of.pages[p], true
	}
	return any
}
