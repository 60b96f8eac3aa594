package engine

import (
	"context"
	"errors"
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
	rows   []*contextRow       // by row, from the first one of contexts on; nil = free
	used   int                 // pages that they hold, each counted once
	byID   map[int32]*heldPage // those of which the host knows which they are
	saved  map[string]*savedContext
	closed bool // the engine was

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
	closed   bool
	lost     bool
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

// sure says that a context with so many pages reserved, and so many in use, may count on them: then it has its partial
// page alone, so that they suffice.
func sure(reserved, pages int) bool { return reserved > 0 && reserved >= pages }

// unheld is the pages that are promised to the context and that it does not hold yet.
func (r *contextRow) unheld() int { return max(0, r.reserved-len(r.pages)) }

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
		free -= r.unheld()
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

// between does an operation between runs.
func (e *Engine) between(do func() error) error {
	return e.alone(func() error {
		c := &e.contexts
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed {
			return ErrClosed
		}
		if len(c.rows) == 0 {
			return ErrNoContexts
		}
		if e.state == nil { // a run failed
			if err := e.reset(); err != nil {
				return err
			}
		}
		if err := e.sweep(); err != nil {
			return err
		}
		return do()
	})
}

// sweep gives back the rows of contexts that were closed during a run, or abandoned.
func (e *Engine) sweep() error {
	c := &e.contexts
	c.abandonedMu.Lock()
	list := c.abandoned
	c.abandoned = nil
	c.abandonedMu.Unlock()
	list = slices.DeleteFunc(list, func(r *contextRow) bool { return r.lost })
	if len(list) == 0 {
		return nil
	}
	return e.releaseContexts(list...)
}

func (e *Engine) releaseContexts(list ...*contextRow) error {
	for _, r := range list {
		e.contexts.cut(r, 0)
		e.contexts.rows[r.row-e.plan.firstContext()] = nil
		r.closed, r.tokens, r.reserved = true, nil, 0
	}
	return e.contextVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			in.Release[r.row] = true
		}
	})
}

// firstContext is the first row of contexts.
func (p Plan) firstContext() int { return p.sizes().FirstContext() }

// scratchRow is a row that is free between runs.
func (p Plan) scratchRow() int { return p.slots }

// contextVerbs runs the context program. What the verbs do to pages is in the account already: the device must come to
// the same.
func (e *Engine) contextVerbs(fill func(in *device.VerbsInput)) error {
	p := e.programs[device.Verbs]
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
		if free, want := int(got.EndFree), e.plan.Pages-e.contexts.used; free != want {
			err = fmt.Errorf("%w: %d are free on the device, and %d should be", ErrPagesLost, free, want)
		}
	}
	if err != nil {
		err = e.look(nil, fmt.Errorf("program %s: %w", p.Name, err))
		e.dropState()
	}
	return err
}

// dropState gives up the device state: the next run or operation starts with an empty one, and contexts are lost.
func (e *Engine) dropState() {
	finalize(e.state)
	e.state = nil
	e.forgetPages()
	for _, r := range e.contexts.open() {
		r.lost, r.pages, r.reserved = true, nil, 0
		e.contexts.rows[r.row-e.plan.firstContext()] = nil
	}
	e.contexts.used = 0
	clear(e.contexts.byID)
}

// freeRow finds a row for a context.
func (e *Engine) freeRow() (int, error) {
	at := slices.Index(e.contexts.rows, nil)
	if at < 0 {
		return 0, fmt.Errorf("%w: all %d are open", ErrOutOfContexts, len(e.contexts.rows))
	}
	return e.plan.firstContext() + at, nil
}

// enough says that pages are there.
func (e *Engine) enough(need, have int, what string) error {
	return e.enoughOf(e.freePages(), need, have, what)
}

// enoughOf is enough where so many pages are not the contexts'.
func (e *Engine) enoughOf(free, need, have int, what string) error {
	if need <= have {
		return nil
	}
	return fmt.Errorf("%s: %w", what, pagetable.ErrOutOfPages{Need: need, Have: have, Pinned: e.plan.Pages - free})
}

// pinnedPages is how many pages contexts hold or were promised: those that make way for nobody.
func (e *Engine) pinnedPages() int { return e.plan.Pages - e.freePages() }

// flush runs the tokens of contexts that wait, together, but for those of which there are pages already.
func (e *Engine) flush(ctx context.Context, list []*contextRow) error {
	list = slices.DeleteFunc(slices.Clone(list), func(r *contextRow) bool { return r.done == len(r.tokens) })
	if err := e.beginFlush(list); err != nil {
		return err
	}
	whole := list
	list = slices.DeleteFunc(slices.Clone(list), func(r *contextRow) bool { return r.done == len(r.tokens) })
	for len(list) > 0 {
		in := e.graphs.NewInput()
		in.Columns, in.EnoughFree = int32(e.plan.MaxRounds), int32(e.plan.slots+1)
		n, placed := 0, 0
		for _, r := range list {
			more := r.tokens[r.done:]
			if placed+len(more) > len(in.Tokens) {
				break
			}
			copy(in.Tokens[placed:], more)
			in.Starts[r.row] = int32(placed - r.done)
			n, placed = n+1, placed+len(more)
		}
		if err := e.runPrompts(ctx, in, list[:n]); err != nil {
			return errors.Join(err, e.commit(whole))
		}
		list = list[n:]
	}
	return e.commit(whole)
}

// beginFlush gives contexts the pages that have what comes next in them, and pages of their own in place of partial
// ones that others hold too. It says whether there are pages for the rest.
func (e *Engine) beginFlush(list []*contextRow) error {
	pageSize := e.plan.PageSize
	need, own := 0, 0
	var borrowers []*contextRow
	sharers := map[*heldPage]int{} // of a partial page, so far
	named := make([][]int32, len(list))
	joined := map[int32]bool{}
	for i, r := range list {
		more := ceilDiv(len(r.tokens), pageSize) - len(r.pages)
		need, own = need+more, own+min(more, r.unheld())
		if r.borrows(pageSize) {
			page := r.pages[len(r.pages)-1]
			if sharers[page]++; sharers[page] < page.holders { // else all others get another page
				borrowers = append(borrowers, r)
			}
		}
		named[i] = e.namedNext(r)
		need -= len(named[i])
		for _, page := range named[i] {
			joined[page] = true
		}
	}
	need += e.contexts.notHeld(joined) + len(borrowers)
	if err := e.enough(need, e.freePages()+own, "running the tokens of contexts"); err != nil {
		return err
	}
	if len(borrowers) > 0 {
		e.contexts.own(borrowers...)
		err := e.contextVerbs(func(in *device.VerbsInput) {
			for _, r := range borrowers {
				in.Own[r.row] = true
			}
		})
		if err != nil {
			return err
		}
	}
	for i, r := range list {
		if len(named[i]) > 0 {
			if err := e.joinNamed(r, named[i]); err != nil {
				return err
			}
		} else if r.rewrites(pageSize) {
			e.forgetPage(r.pages[len(r.pages)-1])
		}
	}
	return nil
}

// joinNamed lets a context go on with named pages.
func (e *Engine) joinNamed(r *contextRow, named []int32) error {
	e.index.Share(named...)
	e.contexts.join(r, named)
	r.done = len(r.pages) * e.plan.PageSize
	return e.contextVerbs(func(in *device.VerbsInput) {
		copy(in.Named, named)
		in.Counts[r.row], in.PromptLens[r.row] = int32(len(named)), int32(r.done)
	})
}

// runPrompts runs the tokens of some contexts, which are those of the call, by the program that runs those of requests:
// so keys and values are the same bytes.
func (e *Engine) runPrompts(ctx context.Context, in *device.Input, list []*contextRow) error {
	promise := func(lens func(r *contextRow) int) error {
		return e.contextVerbs(func(in *device.VerbsInput) {
			for _, r := range list {
				in.PromptLens[r.row] = int32(lens(r))
			}
		})
	}
	if err := promise(func(r *contextRow) int { return len(r.tokens) }); err != nil {
		return err
	}
	p := e.programs[device.Run]
	for {
		got, err := execute[device.Output](e, p, tree.Arrays(in))
		moved := false
		if err == nil && e.flushed != nil {
			e.flushed(got)
		}
		if err == nil {
			lens := got.SeqLens
			for _, r := range list {
				moved = moved || int(lens[r.row]) > r.done
				r.done = int(lens[r.row])
				e.contexts.grow(r, ceilDiv(r.done, e.plan.PageSize))
			}
			if !moved {
				err = ErrStalled
			}
		}
		var did *device.VerbsOutput
		if err == nil {
			did = &device.VerbsOutput{Status: got.Status, EndFree: got.EndFree, Rules: got.Rules,
				Pages: e.ofRows(got.Pages)}
		}
		if err := e.settleContexts(p, did, err); err != nil {
			return err
		}
		if !slices.ContainsFunc(list, func(r *contextRow) bool { return r.done < len(r.tokens) }) {
			return nil
		}
		if err := ctx.Err(); err != nil { // what was run stays; the rest waits
			return errors.Join(err, promise(func(r *contextRow) int { return r.done }))
		}
	}
}

// contextsOfRun are the open contexts, as rows that keep what they have and which requests of a run may start from.
func (e *Engine) contextsOfRun() []*schedule.Context {
	var list []*schedule.Context
	for _, r := range e.contexts.open() {
		c := &schedule.Context{Row: r.row, Tokens: r.tokens[:r.done:r.done], MaxPages: max(r.reserved, len(r.pages))}
		if e.plan.PrefixCache {
			c.Chain = slices.Clone(r.names)
		}
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

// fits says that a run with pool pages has those for a completion, now that contexts hold some.
func (e *Engine) fits(r *Request, context *contextRow, pool int) error {
	need := e.pagesFor(e.maxLen(r))
	// A sequence that was swapped out comes back with pages of its own.
	if context != nil && e.plan.Admission == Reserve {
		need -= min(context.done, len(r.Tokens)-1) / e.plan.PageSize
	}
	return e.enoughOf(pool, need, pool, "contexts hold pages")
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
