package engine

import (
	"fmt"
	"slices"
	"sync"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/prefix"
	"github.com/quire/quire/tree"
)

// contexts is the host's account of them.
type contexts struct {
	// mu guards all but the abandoned; an operation holds it from its begin to its end. Run changes nothing here but
	// under mu too.
	mu     sync.Mutex
	rows   []*contextRow       // by row, from the first one of contexts on; nil = free. The last is for scores
	used   int                 // pages that they hold, each counted once
	byID   map[int32]*heldPage // those of which the host knows which they are
	saved  map[string]*savedContext
	closed bool // the engine was
	// between is there while an operation is done between two calls of a run.
	between *schedule.Between
	changed chan struct{} // closed when tokens were run that somebody may wait for
	scoring sync.Mutex    // of the row for scores

	abandonedMu sync.Mutex
	abandoned   []*contextRow // closed during a run, or never: their rows are given back by the next operation
}

// contextRow is what a context is on the host. The handle that a user has is Context.
type contextRow struct {
	row      int
	tokens   []int32       // those that were run, then those that wait
	done     int           // tokens that were run
	names    []prefix.Hash // of the full pages
	pages    []*heldPage
	reserved int // pages that are sure for it, with those it holds
	flushing int // while tokens are run, how many there are to be: there are pages for them
	riding   int // of those, how many the next calls run
	from     int // pages that had names before
	closed   bool
	lost     bool

	busy sync.Mutex // one operation is done at a time; acquired before the engine's lock
}

// heldPage is a page that contexts hold.
type heldPage struct {
	holders int
	id      int32 // None where the host does not know it: without a prefix cache
	full    bool  // it has its name, until it is written to again
}

// borrows says that the partial page of the context is others' too: it needs one of its own before it is written to.
func (r *contextRow) borrows(pageSize int) bool {
	return r.done%pageSize != 0 && r.pages[len(r.pages)-1].holders > 1
}

// flushed says that no tokens wait.
func (r *contextRow) flushed() bool { return r.done == len(r.tokens) }

// sure says that a context with so many pages reserved, and so many in use, may count on them: then it has its partial
// page alone, so that they suffice.
func sure(reserved, pages int) bool { return reserved > 0 && reserved >= pages }

// unheld is the pages that are promised to the context and that it does not hold yet.
func (r *contextRow) unheld(pageSize int) int { return max(0, r.sure(pageSize)-len(r.pages)) }

// sure is the pages that nobody else gets, with those it holds.
func (r *contextRow) sure(pageSize int) int { return max(r.reserved, ceilDiv(r.flushing, pageSize)) }

// rewrites says that the context, once it goes on, writes to a page that was full before a cut.
func (r *contextRow) rewrites(pageSize int) bool {
	return r.done%pageSize != 0 && r.pages[len(r.pages)-1].full
}

// open are the rows in use.
func (c *contexts) open() []*contextRow {
	return slices.DeleteFunc(slices.Clone(c.rows), func(r *contextRow) bool { return r == nil })
}

// freePages is how many pages nobody holds, and nobody was promised.
func (e *Engine) freePages() int {
	free := e.plan.Pages - e.contexts.used
	for _, r := range e.contexts.open() {
		free -= r.unheld(e.plan.PageSize)
	}
	return free
}

// cut takes pages away from the context, from place keep on.
func (c *contexts) cut(r *contextRow, keep int) {
	for _, page := range r.pages[keep:] {
		c.letGo(page)
	}
	r.pages = r.pages[:keep:keep]
}

// letGo notes that a context gives up a page.
func (c *contexts) letGo(page *heldPage) {
	if page.holders--; page.holders == 0 {
		c.used--
		delete(c.byID, page.id)
	}
}

// grow gives the context pages of its own, until it has n.
func (c *contexts) grow(r *contextRow, n int) {
	for len(r.pages) < n {
		r.pages = append(r.pages, &heldPage{holders: 1, id: schedule.None})
		c.used++
	}
}

// own gives contexts pages of their own in place of the partial ones that they borrow. Of two that share one both get
// another.
func (c *contexts) own(list ...*contextRow) {
	for _, r := range list {
		last := len(r.pages)
		c.cut(r, last-1)
		c.grow(r, last)
	}
}

// share gives the context the first n pages of another.
func (c *contexts) share(r, of *contextRow, n int) {
	for _, page := range of.pages[:n] {
		page.holders++
		r.pages = append(r.pages, page)
	}
}

// join gives the context named pages, which others may hold.
func (c *contexts) join(r *contextRow, named []int32) {
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
func (c *contexts) notHeld(pages map[int32]bool) (n int) {
	for id := range pages {
		if c.byID[id] == nil {
			n++
		}
	}
	return n
}

// know notes which page it is that a row got at a place.
func (c *contexts) know(row, place int, id int32) {
	for _, r := range c.rows {
		if r != nil && r.row == row && place < len(r.pages) && r.pages[place].id == schedule.None {
			r.pages[place].id = id
			c.byID[id] = r.pages[place]
		}
	}
}

// sweep gives back the rows of contexts that were abandoned.
func (e *Engine) sweep(between *schedule.Between) error {
	c := &e.contexts
	c.abandonedMu.Lock()
	list := c.abandoned
	c.abandoned = nil
	c.abandonedMu.Unlock()
	var later []*contextRow
	list = slices.DeleteFunc(list, func(r *contextRow) bool {
		begins := between != nil && between.Begins(r.row)
		if begins {
			later = append(later, r)
		}
		return r.lost || begins
	})
	c.abandonedMu.Lock()
	c.abandoned = append(c.abandoned, later...)
	c.abandonedMu.Unlock()
	if len(list) == 0 {
		return nil
	}
	return e.releaseContexts(list...)
}

func (e *Engine) releaseContexts(list ...*contextRow) error {
	for _, r := range list {
		e.contexts.cut(r, 0)
		e.contexts.rows[r.row-e.graphs.FirstContext()] = nil
		r.closed, r.tokens, r.reserved, r.flushing, r.riding = true, nil, 0, 0, 0
	}
	return e.contextVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			in.Release[r.row] = true
		}
	})
}

// contextVerbs runs the context program. What the verbs do to pages is in the account already: the device must come to
// the same.
func (e *Engine) contextVerbs(fill func(in *device.VerbsInput)) error {
	p := e.program(device.Verbs)
	in := e.graphs.NewVerbs()
	fill(in)
	got, err := execute[device.VerbsOutput](e, p, tree.Arrays(in))
	return e.settleContexts(p, got, err)
}

// settleContexts checks what a program did. Where it failed, the state on the device can't be trusted any more.
func (e *Engine) settleContexts(p *device.Compiled, got *device.VerbsOutput, err error) error {
	if err == nil {
		err = got.Status.Check(got.Rules, e.pinnedPages())
	}
	if err == nil {
		e.settleTaken(got.Pages)
		free, want := int(got.EndFree), e.plan.Pages-e.contexts.used
		if between := e.contexts.between; between != nil {
			between.FreePages(free) // its rows hold some
		} else if free != want {
			err = fmt.Errorf("%w: %d are free on the device, and %d should be", ErrPagesLost, free, want)
		}
	}
	if err != nil {
		err = fmt.Errorf("program %s: %w", p.Name, err)
		if e.contexts.between == nil {
			err = e.look(nil, err)
		}
		e.failed(err)
	}
	return err
}

// failed notes that an operation left the device in the midst of something.
func (e *Engine) failed(err error) {
	e.dropState()
	if e.contexts.between != nil {
		e.contexts.between.Fail(err)
	}
}

// dropState gives up the device state: the next run or operation starts with an empty one, and contexts are lost.
func (e *Engine) dropState() {
	finalize(e.state)
	e.state = nil
	e.forgetPages()
	for _, r := range e.contexts.open() {
		r.lost, r.pages, r.reserved, r.flushing, r.riding = true, nil, 0, 0, 0
		e.contexts.rows[r.row-e.graphs.FirstContext()] = nil
	}
	e.contexts.used = 0
	clear(e.contexts.byID)
	e.contexts.tell()
}

// begin is how many of the first n tokens that a context has run it can go on with, if it has run more: pages with
// states have those of their ends.
func (e *Engine) begin(n int) int {
	if e.plan.StateBytes > 0 {
		n -= n % e.plan.PageSize
	}
	return n
}

// freeRow finds a row for a context.
func (e *Engine) freeRow() (int, error) {
	at := slices.Index(e.contexts.rows[:e.plan.Contexts], nil)
	if at < 0 {
		return 0, fmt.Errorf("%w: all %d are open", ErrOutOfContexts, e.plan.Contexts)
	}
	return e.graphs.FirstContext() + at, nil
}

// enough says that there are need pages, with own of which nobody else gets hold. In a run it returns errLater where
// there will be.
func (e *Engine) enough(need, own int, what string) error {
	free := e.freePages()
	if between := e.contexts.between; between != nil {
		if now, later := between.Take(need - own); now {
			return nil
		} else if later {
			return errLater
		}
		free = min(free, max(0, between.Free()))
	} else if need <= free+own {
		return nil
	}
	return e.enoughOf(e.freePages(), need, free+own, what)
}

// enoughOf is the error where so many pages are not the contexts', and need more than have are wanted.
func (e *Engine) enoughOf(free, need, have int, what string) error {
	return fmt.Errorf("%s: %w", what, pagetable.ErrOutOfPages{Need: need, Have: have, Pinned: e.plan.Pages - free})
}

// pinnedPages is how many pages contexts hold or were promised: those that make way for nobody.
func (e *Engine) pinnedPages() int { return e.plan.Pages - e.freePages() }

// contextsOfRun are the open contexts, as rows that keep what they have and which requests of a run may start from.
func (e *Engine) contextsOfRun() []*schedule.Context {
	var list []*schedule.Context
	for _, r := range e.contexts.open() {
		n := max(r.done, min(r.flushing, len(r.tokens)))
		c := &schedule.Context{Row: r.row, Tokens: r.tokens[:n:n], Done: r.done,
			MaxPages: max(r.sure(e.plan.PageSize), len(r.pages))}
		list = append(list, c)
	}
	return list
}

// resolve returns the request with its whole prompt, and the context that it begins with.
func (e *Engine) resolve(r *Request) (*Request, *contextRow, error) {
	if r.Context == nil {
		return r, nil, nil
	}
	if r.Context.e != e {
		return nil, nil, fmt.Errorf("%w: the context is another engine's", ErrInvalidRequest)
	}
	e.contexts.mu.Lock()
	defer e.contexts.mu.Unlock()
	row := r.Context.row
	if err := row.usable(); err != nil {
		return nil, nil, err
	}
	whole := *r
	whole.Tokens = slices.Concat(row.tokens, r.Tokens)
	return &whole, row, nil
}

func (r *contextRow) usable() error {
	switch {
	case r.closed:
		return ErrClosed
	case r.lost:
		return ErrContextLost
	}
	return nil
}
