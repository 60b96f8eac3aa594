package engine

import (
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/prefix"
)

// Of full pages of the same name contexts have one: whoever fills another gives it up for the one that is there.

// equalPages finds the context, other than r, that has the most of the pages that names names, and how many
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

// commit names the pages of contexts that are full now, and lets them take over those that another has under these
// names.
func (e *Engine) commit(list []*contextRow) error {
	for _, r := range list {
		from := r.from
		e.name(r)
		r.from = len(r.names)
		of, pages := e.contexts.equalPages(r, r.names)
		if !e.contexts.adopt(r, of, from, pages) {
			continue
		}
		err := e.contextVerbs(func(in *device.VerbsInput) {
			in.Equals[r.row], in.EqualFrom[r.row], in.EqualTo[r.row] = int32(of.row), int32(from), int32(pages)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt takes over another context's pages in the account, and says whether any of them was not the same already.
func (c *contexts) adopt(r, of *contextRow, from, to int) (any bool) {
	for p := from; p < to; p++ {
		if r.pages[p] == of.pages[p] {
			continue
		}
		of.pages[p].holders++
		c.letGo(r.pages[p])
		r.pages[p], any = of.pages[p], true
	}
	return any
}
