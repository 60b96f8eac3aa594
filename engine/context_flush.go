package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
)

// operation does what changes contexts: between two calls of the run that is under way, or now. Where do returns
// errLater, it is called again after the next call.
func (e *Engine) operation(ctx context.Context, do func() error) (err error) {
	e.exclusive(func(between *schedule.Between) (later bool) {
		c := &e.contexts
		c.mu.Lock()
		defer c.mu.Unlock()
		c.between = between
		defer func() { c.between = nil }()
		later, err = e.attempt(ctx, do)
		if between != nil {
			between.Contexts(e.contextsOfRun(), e.plan.Pages-c.used, e.freePages())
		}
		return later
	})
	return err
}

// attempt is one call of an operation.
func (e *Engine) attempt(ctx context.Context, do func() error) (later bool, err error) {
	c := &e.contexts
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case c.closed:
		return false, ErrClosed
	case len(c.rows) == 0:
		return false, ErrNoContexts
	}
	if e.state == nil { // a run failed
		if c.between != nil {
			return false, ErrContextLost
		}
		if err := e.reset(); err != nil {
			return false, err
		}
	}
	if err := e.sweep(c.between); err != nil {
		return false, err
	}
	err = do()
	return err == errLater, err
}

// errLater says that an operation has to wait for the run.
var errLater = errors.New("later")

// unused says that no request waits which begins with the context: it may be cut.
func (e *Engine) unused(r *contextRow) error {
	if e.contexts.between != nil && e.contexts.between.Begins(r.row) {
		return errLater
	}
	return nil
}

// lockContexts locks contexts, for one operation of theirs at a time. Until it is over they are not abandoned, though
// their owner may have no use for them behind it.
func lockContexts(contexts ...*Context) (unlock func()) {
	rows := rowsOf(contexts)
	slices.SortFunc(rows, func(a, b *contextRow) int { return a.row - b.row })
	for _, r := range rows {
		r.busy.Lock()
	}
	return func() {
		for _, r := range rows {
			r.busy.Unlock()
		}
		runtime.KeepAlive(contexts)
	}
}

// rowsOf are the rows of contexts, each once.
func rowsOf(contexts []*Context) (rows []*contextRow) {
	for _, c := range contexts {
		if !slices.Contains(rows, c.row) {
			rows = append(rows, c.row)
		}
	}
	return rows
}

// flush runs the tokens of contexts that wait, together, but for those of which there are pages already. The program
// that runs the prompts of requests runs them, in its calls: so keys and values are the same bytes.
func (e *Engine) flush(ctx context.Context, list []*contextRow) error {
	begun := false
	for {
		var riding []*contextRow
		err := e.operation(ctx, func() (err error) {
			waiting := slices.DeleteFunc(slices.Clone(list), (*contextRow).flushed)
			for _, r := range list {
				if err := r.usable(); err != nil {
					return err
				}
			}
			if len(waiting) == 0 {
				return nil
			}
			if !begun {
				if err := e.beginFlush(waiting); err != nil {
					return err
				}
				begun = true
			}
			riding, err = e.promise(waiting)
			return err
		})
		if err == nil && len(riding) > 0 {
			if err = e.ride(ctx, riding); err == nil {
				continue
			}
		}
		if !begun {
			return err
		}
		return errors.Join(err, e.operation(context.Background(), func() error { return e.endFlush(list) }))
	}
}

// promise has the next calls run the tokens of the first of contexts, as many as they have room for.
func (e *Engine) promise(list []*contextRow) (riding []*contextRow, err error) {
	list = slices.DeleteFunc(slices.Clone(list), (*contextRow).flushed)
	room, n := e.graphs.PromptLimit, 0
	if e.contexts.between != nil {
		room = e.contexts.between.Room()
	}
	for n < len(list) && len(list[n].tokens)-list[n].done <= room {
		room -= len(list[n].tokens) - list[n].done
		n++
	}
	if n == 0 && len(list) > 0 {
		e.contexts.between.Want(1)
		return nil, errLater
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list[:n], e.contextVerbs(func(in *device.VerbsInput) {
		for i, r := range list {
			if in.MaxPages[r.row] = int32(r.sure(e.plan.PageSize)); i < n {
				r.riding = len(r.tokens)
				in.PromptLens[r.row] = int32(r.riding)
			}
		}
	})
}

// ride waits until calls have run the tokens of contexts: those of the run that is under way, or of one of its own. It
// returns also where that run was cancelled.
func (e *Engine) ride(ctx context.Context, list []*contextRow) error {
	c := &e.contexts
	for {
		c.mu.Lock()
		rides := slices.ContainsFunc(list, func(r *contextRow) bool { return !r.lost && r.done < r.riding })
		changed := c.watch()
		c.mu.Unlock()
		if !rides {
			return nil
		}
		run, mine := e.lock.join(true)
		if mine {
			var failed error
			for _, err := range e.runAlone(ctx, run, nil) {
				failed = err
			}
			if e.lock.leave(run); failed != nil {
				return failed
			}
			continue
		}
		run.slack.take()
		select {
		case <-changed:
		case <-run.ended:
		case <-ctx.Done():
		}
		run.slack.give()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// moved notes that a call ran tokens of a context, and took pages for them.
func (e *Engine) moved(row, done int, pages []int32) {
	c := &e.contexts
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rows[row-e.graphs.FirstContext()]
	r.done = done
	c.grow(r, ceilDiv(done, e.plan.PageSize))
	for place, page := range pages {
		if page != schedule.None {
			c.know(row, place, page)
		}
	}
	e.name(r)
	c.tell()
}

// watch returns a channel that is closed when a call has run tokens of contexts.
func (c *contexts) watch() <-chan struct{} {
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.changed
}

func (c *contexts) tell() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// endRides has no later call run what this run did not: it was cancelled.
func (e *Engine) endRides() error {
	return e.stopRiding(slices.DeleteFunc(e.contexts.open(), func(r *contextRow) bool { return r.done >= r.riding }))
}

func (e *Engine) stopRiding(list []*contextRow) error {
	if len(list) == 0 {
		return nil
	}
	defer e.contexts.tell()
	return e.contextVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			r.riding = 0
			in.PromptLens[r.row], in.MaxPages[r.row] = int32(r.done), int32(max(r.sure(e.plan.PageSize), len(r.pages)))
		}
	})
}

// endFlush gives up the pages that were reserved for tokens which were not run, and names those that are full.
func (e *Engine) endFlush(list []*contextRow) error {
	list = slices.DeleteFunc(slices.Clone(list), func(r *contextRow) bool {
		return r.usable() != nil || r.flushing == 0
	})
	var short []*contextRow
	for _, r := range list {
		if r.flushing = 0; r.done < len(r.tokens) {
			short = append(short, r)
		}
	}
	if err := e.stopRiding(short); err != nil {
		return err
	}
	return e.commit(list)
}

// beginFlush gives contexts the pages that have what comes next in them, and pages of their own in place of partial
// ones that others hold too. It reserves pages for the rest.
func (e *Engine) beginFlush(list []*contextRow) error {
	pageSize := e.plan.PageSize
	need, own := 0, 0
	var borrowers []*contextRow
	sharers := map[*heldPage]int{} // of a partial page, so far
	named := make([][]int32, len(list))
	joined := map[int32]bool{}
	for i, r := range list {
		more := ceilDiv(len(r.tokens), pageSize) - len(r.pages)
		need, own = need+more, own+min(more, r.unheld(pageSize))
		if r.borrows(pageSize) {
			page := r.pages[len(r.pages)-1]
			if sharers[page]++; sharers[page] < page.holders { // else all others get another page
				borrowers = append(borrowers, r)
			}
		} else if r.rewrites(pageSize) {
			if e.contexts.between == nil {
				e.forgetPage(r.pages[len(r.pages)-1])
			} else {
				borrowers = append(borrowers, r) // a row of the run may hold it
			}
		}
		named[i] = e.namedNext(r)
		need -= len(named[i])
		for _, page := range named[i] {
			joined[page] = true
		}
	}
	need += e.contexts.notHeld(joined) + len(borrowers)
	if err := e.enough(need, own, "running the tokens of contexts"); err != nil {
		return err
	}
	if err := e.own(borrowers); err != nil {
		return err
	}
	for i, r := range list {
		r.from, r.flushing = len(r.names), len(r.tokens)
		if len(named[i]) > 0 {
			if err := e.joinNamed(r, named[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// own gives contexts pages of their own in place of partial ones that others hold too, or may hold. A page that nobody
// else holds stays, and loses its name: it is written to.
func (e *Engine) own(list []*contextRow) error {
	if len(list) == 0 {
		return nil
	}
	before := make([]heldPage, len(list))
	for i, r := range list {
		before[i] = *r.pages[len(r.pages)-1]
	}
	e.contexts.own(list...)
	err := e.contextVerbs(func(in *device.VerbsInput) {
		for _, r := range list {
			in.Own[r.row] = true
		}
	})
	for i, r := range list {
		if err != nil || e.index == nil {
			break
		}
		if page := r.pages[len(r.pages)-1]; page.id == schedule.None { // it was not copied
			page.id = before[i].id
			e.contexts.byID[page.id] = page
			e.forgetPage(page)
		}
	}
	return err
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
