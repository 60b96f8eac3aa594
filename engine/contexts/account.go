package contexts

import (
	"fmt"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/pagetable"
)

// account is what the host knows of the rows of contexts and of their pages. Contexts.mu guards it.
type account struct {
	pages    int // pages of the pool
	pageSize int
	first    int                 // row of contexts
	rows     []*contextRow       // rows from the first one on; nil = free. The last is for scores
	used     int                 // pages that contexts hold, each counted once
	byID     map[int32]*heldPage // the pages that the host can identify
}

// newAccount makes the account of an engine with contexts.
func newAccount(z device.Sizes) account {
	return account{pages: z.Pages, pageSize: z.PageSize, first: z.FirstContext(),
		rows: make([]*contextRow, z.Contexts+1), byID: map[int32]*heldPage{}}
}

// open are the rows in use.
func (c *account) open() []*contextRow {
	return slices.DeleteFunc(slices.Clone(c.rows), func(r *contextRow) bool { return r == nil })
}

// freePages is how many pages nobody holds, and nobody was promised.
func (c *account) freePages() int {
	free := c.pages - c.used
	for _, r := range c.open() {
		free -= r.unheld(c.pageSize)
	}
	return free
}

// cut takes pages away from the context, from place keep on.
func (c *account) cut(r *contextRow, keep int) {
	for _, page := range r.pages[keep:] {
		c.release(page)
	}
	r.pages = r.pages[:keep:keep]
}

// release records that a context releases a page.
func (c *account) release(page *heldPage) {
	if page.holders--; page.holders == 0 {
		c.used--
		delete(c.byID, page.id)
	}
}

// grow gives the context pages of its own, until it has n.
func (c *account) grow(r *contextRow, n int) {
	for len(r.pages) < n {
		r.pages = append(r.pages, &heldPage{holders: 1, id: schedule.None})
		c.used++
	}
}

// own gives contexts pages of their own in place of the partial ones that they borrow. Of two that share one both get
// another.
func (c *account) own(list ...*contextRow) {
	for _, r := range list {
		last := len(r.pages)
		c.cut(r, last-1)
		c.grow(r, last)
	}
}

// share gives the context the first n pages of another.
func (c *account) share(r, of *contextRow, n int) {
	for _, page := range of.pages[:n] {
		page.holders++
		r.pages = append(r.pages, page)
	}
}

// join gives the context named pages, which others may hold.
func (c *account) join(r *contextRow, named []int32) {
	for _, id := range named {
		page := c.byID[id]
		if page == nil {
			page = &heldPage{id: id, full: true}
			c.byID[id] = page
			c.used++
		}
		page.holders++
		r.pages = append(r.pages, page)
	}
}

// notHeld is how many of pages no context holds.
func (c *account) notHeld(pages map[int32]bool) (n int) {
	for id := range pages {
		if c.byID[id] == nil {
			n++
		}
	}
	return n
}

// know notes which page it is that a row got at a place.
func (c *account) know(row, place int, id int32) {
	for _, r := range c.rows {
		if r != nil && r.row == row && place < len(r.pages) && r.pages[place].id == schedule.None {
			r.pages[place].id = id
			c.byID[id] = r.pages[place]
		}
	}
}

// freeRow finds a row for a context.
func (c *account) freeRow() (int, error) {
	at := slices.Index(c.rows[:(len(c.rows)-1)], nil)
	if at < 0 {
		return 0, fmt.Errorf("%w: all %d are open", ErrOutOfContexts, (len(c.rows) - 1))
	}
	return c.first + at, nil
}

// enoughOf is the error if need pages are wanted, and have are there; free are not the contexts'.
func (c *account) enoughOf(free, need, have int, what string) error {
	return fmt.Errorf("%s: %w", what, pagetable.ErrOutOfPages{Need: need, Have: have, Pinned: c.pages - free})
}

// pinnedPages is how many pages contexts hold or were promised. They are never evicted.
func (c *account) pinnedPages() int { return c.pages - c.freePages() }

// contextsOfRun are the open contexts, as rows that keep what they have and which requests of a run may start from.
func (c *account) contextsOfRun() []*schedule.Context {
	var list []*schedule.Context
	for _, r := range c.open() {
		n := max(r.done, min(r.flushing, len(r.tokens)))
		c := &schedule.Context{Row: r.row, Tokens: r.tokens[:n:n], Done: r.done,
			MaxPages: max(r.guaranteed(c.pageSize), len(r.pages)), Mixed: r.mixed}
		list = append(list, c)
	}
	return list
}

// Contexts have one full page of each name: a context that fills another gives it up for the one that is there.

// equalPages finds the context, other than r, that has the most of the pages that names names, and how many
// of them.
func (c *account) equalPages(r *contextRow, names []prefix.Hash) (of *contextRow, pages int) {
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

// adopt takes over another context's pages in the account, and reports whether any of them was not the same already.
func (c *account) adopt(r, of *contextRow, from, to int) (any bool) {
	for p := from; p < to; p++ {
		if r.pages[p] == of.pages[p] {
			continue
		}
		of.pages[p].holders++
		c.release(r.pages[p])
		r.pages[p], any = of.pages[p], true
	}
	return any
}
