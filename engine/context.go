package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/prefix"
)

// Context is a sequence that a program owns: for trees, agents and scoring, where what comes next depends on what was
// drawn.
//
// Its keys and values are in pages of the engine's page size. Full pages are committed: they have names, by which
// requests and other contexts find them. The last page may be partly filled. Forks share pages: what was run once is
// never run again.
//
// Contexts may be used between runs and while Run is under way, also by whoever takes its completions: what runs tokens
// rides with the run's calls, and all else goes between them. Pages that sequences of the run hold are waited for:
// nothing new is admitted meanwhile. What cuts or closes a context waits until the requests that begin with it have
// started. Methods may be called from several goroutines; those of one context work one after the other. The engine
// holds Config.Contexts of them at most.
//
// A context that can't go on, because a run or an operation failed on the device, says [ErrContextLost] from then on.
type Context struct {
	e       *Engine
	row     *contextRow
	cleanup runtime.Cleanup
}

// NewContext begins an empty context. It returns [ErrNoContexts] without Config.Contexts, and [ErrOutOfContexts] where
// all are open.
func (e *Engine) NewContext() (*Context, error) {
	return e.openContext(func(r *contextRow) error {
		return e.contextVerbs(func(in *device.VerbsInput) {
			in.Open[r.row] = true
			in.PromptLens[r.row], in.MaxPages[r.row] = 0, 0
		})
	})
}

// openContext makes a context in a free row, which begin fills.
func (e *Engine) openContext(begin func(r *contextRow) error) (c *Context, err error) {
	err = e.operation(context.Background(), func() (err error) { c, err = e.beginContext(begin); return err })
	return c, err
}

// beginContext is openContext in the midst of an operation.
func (e *Engine) beginContext(begin func(r *contextRow) error) (*Context, error) {
	at, err := e.freeRow()
	if err != nil {
		return nil, err
	}
	r := &contextRow{row: at}
	e.contexts.rows[at-e.graphs.FirstContext()] = r
	if err := begin(r); err != nil {
		e.contexts.rows[at-e.graphs.FirstContext()] = nil
		return nil, err
	}
	c := &Context{e: e, row: r}
	c.cleanup = runtime.AddCleanup(c, e.abandon, r)
	return c, nil
}

// abandon notes that nobody can reach a context any more that was not closed.
func (e *Engine) abandon(r *contextRow) {
	e.log.Warn("a context was never closed: its pages are given back now", "row", r.row)
	e.contexts.abandonedMu.Lock()
	defer e.contexts.abandonedMu.Unlock()
	e.contexts.abandoned = append(e.contexts.abandoned, r)
}

// do is an operation on the context, which no other is done on meanwhile.
func (c *Context) do(f func(r *contextRow) error) error {
	defer lockContexts(c)()
	return c.e.operation(context.Background(), func() error {
		if err := c.row.usable(); err != nil {
			return err
		}
		return f(c.row)
	})
}

// host is an operation on what the host knows of the context.
func (c *Context) host(f func(r *contextRow) error) error {
	defer lockContexts(c)()
	c.e.contexts.mu.Lock()
	defer c.e.contexts.mu.Unlock()
	if c.e.contexts.closed {
		return ErrClosed
	}
	if err := c.row.usable(); err != nil {
		return err
	}
	return f(c.row)
}

// Close gives back what the context holds. Closing again does nothing.
func (c *Context) Close() error {
	e, r := c.e, c.row
	c.cleanup.Stop()
	defer lockContexts(c)()
	err := e.operation(context.Background(), func() error {
		if r.closed || r.lost {
			r.closed = true
			return nil
		}
		if err := e.unused(r); err != nil {
			return err
		}
		return e.releaseContexts(r)
	})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Append adds tokens to the end. They wait, and take no pages, until Flush or an operation that needs their keys and
// values.
//
// It returns [ErrInvalidRequest] for a token out of the vocabulary, and [ErrPromptTooLong] beyond MaxModelLen.
func (c *Context) Append(tokens ...int32) error {
	return c.host(func(r *contextRow) error {
		if err := c.e.checkTokens(tokens); err != nil {
			return err
		}
		if err := c.e.checkLen(len(r.tokens) + len(tokens)); err != nil {
			return err
		}
		r.tokens = append(r.tokens, tokens...)
		return nil
	})
}

// checkLen says that a context may be as long.
func (e *Engine) checkLen(n int) error {
	if n > e.plan.MaxModelLen {
		return fmt.Errorf("%w: a context of %d tokens, and it may have %d (see MaxModelLen)", ErrPromptTooLong, n,
			e.plan.MaxModelLen)
	}
	return nil
}

// Flush runs the tokens that wait; those at the begin that named pages have already are taken over from there. Pages
// that become full get their names: requests whose prompts begin with the same tokens take them over. Where another
// context has equal pages, these take the place of the new ones.
//
// It returns pagetable.ErrOutOfPages, and changes nothing, where pages are short; cancelled, it leaves the tokens that
// were not run waiting.
func (c *Context) Flush(ctx context.Context) error {
	return c.e.Flush(ctx, c)
}

// Flush runs the tokens that wait of several contexts in the same steps: faster than one context after the other.
func (e *Engine) Flush(ctx context.Context, contexts ...*Context) error {
	for _, c := range contexts {
		if c.e != e {
			return fmt.Errorf("%w: the context is another engine's", ErrInvalidRequest)
		}
	}
	defer lockContexts(contexts...)()
	return e.flush(ctx, rowsOf(contexts))
}

// Fork runs what waits, and begins another context with the same tokens. All pages are shared, whether committed or
// working: no page is taken. The partial one is copied when one of the two first writes to it, and then a page is
// needed. What was reserved stays with c, and stays sure: with pages reserved, the partial page is copied at once.
func (c *Context) Fork(ctx context.Context) (fork *Context, err error) {
	e, r := c.e, c.row
	defer lockContexts(c)()
	err = e.operation(ctx, func() error {
		err := r.usable()
		if err == nil {
			_, err = e.freeRow()
		}
		return err
	})
	if err == nil {
		err = e.flush(ctx, []*contextRow{r})
	}
	if err != nil {
		return nil, err
	}
	err = e.operation(ctx, func() (err error) {
		fork, err = e.beginContext(func(n *contextRow) error {
			return e.fork(r, n, r.done, !sure(r.reserved, len(r.pages)))
		})
		return err
	})
	return fork, err
}

// fork begins the row n with the first held tokens of r, sharing the partial page or with a copy of it.
func (e *Engine) fork(r, n *contextRow, held int, lazy bool) error {
	full, all := held/e.plan.PageSize, ceilDiv(held, e.plan.PageSize)
	shared := full
	if lazy {
		shared = all
	}
	if err := e.enough(all-shared, n.reserved, "copying the partial page of a context"); err != nil {
		return err
	}
	e.contexts.share(n, r, shared)
	e.contexts.grow(n, all)
	n.tokens, n.done, n.names = slices.Clone(r.tokens[:held]), held, slices.Clone(r.names[:full])
	n.from = full
	return e.contextVerbs(func(in *device.VerbsInput) {
		in.Sources[n.row], in.Held[n.row], in.Lazy[n.row] = int32(r.row), int32(held), lazy
		in.PromptLens[n.row], in.MaxPages[n.row] = int32(held), int32(n.reserved)
	})
}

// Truncate drops the last n tokens, those that wait first. Pages behind the new end keep their names until their memory
// is wanted, or stay reserved if they were. What is left of a page that a fork holds too is copied when it is next
// written to, or at once where pages are reserved. Then there may be pagetable.ErrOutOfPages: a page that a fork holds
// too does not come back.
func (c *Context) Truncate(n int) error {
	return c.do(func(r *contextRow) error {
		if n < 0 || n > len(r.tokens) {
			return fmt.Errorf("%w: %d tokens to truncate, the context has %d", ErrInvalidRequest, n, len(r.tokens))
		}
		return c.e.cutContext(r, len(r.tokens)-n, r.reserved)
	})
}

// cutContext makes a context shorter, and sets the pages that are sure for it. Where any are, it gets its partial page
// alone.
func (e *Engine) cutContext(r *contextRow, length, reserved int) error {
	pageSize, inRun := e.plan.PageSize, e.contexts.between != nil
	done := min(r.done, length)
	if done < r.done {
		done = e.begin(done)
	}
	keep := ceilDiv(done, pageSize)
	cut, promised := done < r.done, reserved != r.reserved
	if cut {
		if err := e.unused(r); err != nil {
			return err
		}
	}
	copies := sure(reserved, keep) && done%pageSize != 0 &&
		(r.pages[keep-1].holders > 1 || inRun && r.pages[keep-1].full)
	// Pages that stay promised, or are promised now, come from what was promised and what the cut frees, which others
	// may hold too.
	need, spare := 0, r.unheld(pageSize)-max(0, reserved-keep)
	for _, page := range r.pages[keep:] {
		if page.holders == 1 && !inRun { // rows of a run may hold it
			spare++
		}
	}
	if copies {
		need++
	}
	if err := e.enough(need+max(0, -spare), max(0, spare), "reserving pages"); err != nil {
		return err
	}
	r.tokens, r.done, r.reserved = r.tokens[:length], done, reserved
	r.names, r.from = r.names[:done/pageSize], min(r.from, done/pageSize)
	if !cut && !promised && !copies {
		return nil
	}
	e.contexts.cut(r, keep)
	err := e.contextVerbs(func(in *device.VerbsInput) {
		if cut {
			in.Lens[r.row], in.PromptLens[r.row] = int32(done), int32(done)
		}
		in.MaxPages[r.row] = int32(reserved)
	})
	if err == nil && copies {
		err = e.own([]*contextRow{r})
	}
	return err
}

// Reserve makes n pages more sure for the context, so that what it appends can't run out of pages; a partial
// page that it shares with a fork is copied now. Too few pages are pagetable.ErrOutOfPages, and more than a sequence
// may have [ErrPromptTooLong].
func (c *Context) Reserve(n int) error {
	e := c.e
	return c.do(func(r *contextRow) error {
		all := max(r.reserved, len(r.pages)) + n
		switch {
		case n < 0:
			return fmt.Errorf("%w: %d pages to reserve", ErrInvalidRequest, n)
		case all > e.plan.PagesPerSeq:
			return fmt.Errorf("%w: %d pages, a context may have %d", ErrPromptTooLong, all, e.plan.PagesPerSeq)
		}
		return e.cutContext(r, len(r.tokens), all)
	})
}

// Release gives up the last n pages: reserved ones that are not used yet, then those with tokens, and the tokens with
// them. It returns [ErrInvalidRequest] where there are fewer.
func (c *Context) Release(n int) error {
	return c.do(func(r *contextRow) error {
		all := max(r.reserved, len(r.pages))
		if n < 0 || n > all {
			return fmt.Errorf("%w: %d pages to release, the context has %d", ErrInvalidRequest, n, all)
		}
		length := len(r.tokens)
		if all -= n; all < len(r.pages) {
			length = all * c.e.plan.PageSize
		}
		return c.e.cutContext(r, length, min(r.reserved, all))
	})
}

// PageCounts says which pages a context has.
type PageCounts struct {
	Committed     int // full
	Working       int // partly filled: 1 or 0
	Reserved      int // sure for it, and not used yet
	Shared        int // of the committed and working ones, those that another context holds too
	WorkingTokens int // in the working page
	Waiting       int // tokens that were not run yet
}

// Counts returns the counts of now. A context that is closed or lost has none.
func (c *Context) Counts() PageCounts {
	c.e.contexts.mu.Lock()
	defer c.e.contexts.mu.Unlock()
	r := c.row
	if r.usable() != nil {
		return PageCounts{}
	}
	counts := PageCounts{
		Committed: len(r.names), Working: len(r.pages) - len(r.names), Reserved: max(0, r.reserved-len(r.pages)),
		WorkingTokens: r.done % c.e.plan.PageSize, Waiting: len(r.tokens) - r.done,
	}
	for _, page := range r.pages {
		if page.holders > 1 {
			counts.Shared++
		}
	}
	return counts
}

// Len is how many tokens the context has, with those that wait.
func (c *Context) Len() int { return len(c.Tokens()) }

// Tokens returns a copy of the tokens, with those that wait.
func (c *Context) Tokens() []int32 {
	c.e.contexts.mu.Lock()
	defer c.e.contexts.mu.Unlock()
	return slices.Clone(c.row.tokens)
}

// PageHash returns the name of a full page, which is equal for equal tokens up to its end: see package prefix. One that
// is partly filled has none yet, [ErrPartialPage], and one that is not there neither, [ErrInvalidPage].
func (c *Context) PageHash(page int) (hash prefix.Hash, err error) {
	err = c.host(func(r *contextRow) error {
		switch {
		case page < 0 || page >= len(r.pages):
			return ErrInvalidPage{Page: page, Pages: len(r.pages)}
		case page >= len(r.names):
			return ErrPartialPage{Page: page, Tokens: r.done % c.e.plan.PageSize, PageSize: c.e.plan.PageSize}
		}
		hash = r.names[page]
		return nil
	})
	return hash, err
}

// FreePages is how many pages no context holds or was promised: what runs may use.
func (e *Engine) FreePages() int {
	e.contexts.mu.Lock()
	defer e.contexts.mu.Unlock()
	return e.freePages()
}

// Generate runs what waits, and draws completions of the context, with the request's tokens behind its own. The
// completions, in order of their generations, are those of a request whose prompt is all of these tokens. The context
// stays as it is: append what shall stay. For many contexts at once give Run requests with Request.Context. What is
// wrong with the request is an error here, and not a completion's.
func (c *Context) Generate(ctx context.Context, r *Request) ([]*Completion, error) {
	if r.Context != nil && r.Context != c {
		return nil, fmt.Errorf("%w: the request has another context", ErrInvalidRequest)
	}
	if err := c.Flush(ctx); err != nil {
		return nil, err
	}
	one := *r
	one.Context = c
	all, err := c.e.generate(ctx, &one)
	if err != nil {
		return nil, err
	}
	for _, completion := range all {
		completion.Request = r
	}
	slices.SortFunc(all, func(a, b *Completion) int { return a.Generation - b.Generation })
	return all, nil
}

// generate draws the completions of a request in the run that is under way, or in one of its own.
func (e *Engine) generate(ctx context.Context, r *Request) (all []*Completion, err error) {
	for {
		run, mine := e.lock.join(false)
		if !mine {
			all, ended, err := e.visit(ctx, run, r)
			if ended {
				continue
			}
			return all, err
		}
		defer e.lock.leave(run)
		for completion, err := range e.runAlone(ctx, run, slices.Values([]*Request{r})) {
			if err == nil {
				err = completion.Err
			}
			if err != nil {
				return nil, err
			}
			all = append(all, completion)
		}
		return all, nil
	}
}

// visit draws the completions of a request in a run of others. ended says that the run ended before.
func (e *Engine) visit(ctx context.Context, run *running, r *Request) (all []*Completion, ended bool, err error) {
	s := e.scheduled(r)
	if s.Err != nil {
		return nil, false, s.Err
	}
	t := s.Tag.(tag)
	t.guest = make(chan *schedule.Completion, s.N)
	s.Tag = t
	if !run.do(func(between *schedule.Between) bool { between.Add(s); return false }) {
		return nil, true, nil
	}
	run.slack.take()
	defer run.slack.give()
	for len(all) < s.N {
		var c *schedule.Completion
		select {
		case c = <-t.guest:
		case <-run.ended:
			if len(t.guest) == 0 { // what came out is there already
				return nil, true, nil
			}
			continue
		case <-ctx.Done():
			return nil, false, ctx.Err() // its completions go nowhere
		}
		done := completion(c)
		if done.Err != nil {
			return nil, false, done.Err
		}
		all = append(all, done)
	}
	return all, false, nil
}
