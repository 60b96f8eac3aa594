package contexts

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/prefix"
)

// Context is a sequence that a program owns: for trees, agents and scoring, if what comes next depends on what was
// generated.
//
// Its keys and values are in pages of the engine's page size. Full pages are committed: they have names by which
// requests and other contexts find them. The last page may be partly filled. Forks share pages: tokens that were run
// are never run again.
//
// Contexts may be used between runs and while Run is under way, also by the goroutine that takes its completions.
// Tokens are run by the run's calls, and everything else is done between them. An operation that needs pages that
// sequences of the run hold waits for them, and nothing new is admitted meanwhile. An operation that cuts or closes a
// context waits until the requests that begin with the context have started. Methods may be called from several
// goroutines; calls on one context run one after the other. The engine holds at most Config.Contexts of them.
//
// A context that can't continue, because a run or an operation failed on the device, returns [ErrContextLost] from then
// on.
type Context struct {
	set     *Contexts
	row     *contextRow
	cleanup runtime.Cleanup
}

// do is an operation on the context, which no other is done on meanwhile.
func (c *Context) do(f func(r *contextRow) error) error {
	defer lockContexts(c)()
	return c.set.operation(context.Background(), func() error {
		if err := c.row.usable(); err != nil {
			return err
		}
		return f(c.row)
	})
}

// host is an operation on what the host knows of the context.
func (c *Context) host(f func(r *contextRow) error) error {
	defer lockContexts(c)()
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	if c.set.closed {
		return ErrClosed
	}
	if err := c.row.usable(); err != nil {
		return err
	}
	return f(c.row)
}

// Begin implements [admit.Context].
func (c *Context) Begin(engine *admit.Owner) (tokens []int32, row int, err error) {
	if c.set.checker.Owner() != engine {
		return nil, 0, fmt.Errorf("%w: the context is another engine's", admit.ErrInvalidRequest)
	}
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	if err := c.row.usable(); err != nil {
		return nil, 0, err
	}
	return slices.Clone(c.row.tokens), c.row.row, nil
}

// Close gives back what the context holds. Closing again does nothing.
func (c *Context) Close() error {
	s, r := c.set, c.row
	c.cleanup.Stop()
	defer lockContexts(c)()
	err := s.operation(context.Background(), func() error {
		if r.closed || r.lost {
			r.closed = true
			return nil
		}
		if err := s.table.unused(r); err != nil {
			return err
		}
		return s.table.releaseContexts(r)
	})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Append adds tokens to the end. They wait, and take no pages, until Flush or an operation that needs their keys and
// values.
//
// It returns [admit.ErrInvalidRequest] for a token out of the vocabulary, and [admit.ErrPromptTooLong] beyond
// MaxModelLen.
func (c *Context) Append(tokens ...int32) error {
	return c.host(func(r *contextRow) error {
		if err := c.set.checker.CheckTokens(tokens); err != nil {
			return err
		}
		if err := c.set.checkLen(len(r.tokens) + len(tokens)); err != nil {
			return err
		}
		r.tokens = append(r.tokens, tokens...)
		return nil
	})
}

// Flush runs the waiting tokens. If named pages already have the first of them, the context takes over these pages.
// Pages that become full get their names: requests whose prompts begin with the same tokens take them over. If another
// context has equal pages, these replace the new ones.
//
// It returns pagetable.ErrOutOfPages, and changes nothing, if pages are short. If ctx is cancelled, it leaves the
// tokens that were not run waiting.
func (c *Context) Flush(ctx context.Context) error {
	return c.set.Flush(ctx, c)
}

// Fork runs the waiting tokens, and opens a second context with the same tokens. All pages are shared, whether
// committed or working: no page is taken. The partial page is copied when one of the two first writes to it, and then a
// page is needed. Reserved pages stay with c: with pages reserved, the partial page is copied at once.
func (c *Context) Fork(ctx context.Context) (fork *Context, err error) {
	s, r := c.set, c.row
	defer lockContexts(c)()
	err = s.operation(ctx, func() error {
		err := r.usable()
		if err == nil {
			_, err = s.table.freeRow()
		}
		return err
	})
	if err == nil {
		err = s.flush(ctx, []*contextRow{r})
	}
	if err != nil {
		return nil, err
	}
	err = s.operation(ctx, func() (err error) {
		fork, err = s.beginContext(func(n *contextRow) error {
			return s.table.fork(r, n, r.done, !isGuaranteed(r.reserved, len(r.pages)))
		})
		return err
	})
	return fork, err
}

// Commit runs the waiting tokens that the next k pages take, and no others, so that these pages are full and have their
// names: a boundary at which other contexts and requests continue. It returns [ErrPartialPage], and changes nothing, if
// the tokens do not fill these pages, and the errors of [Context.Flush].
func (c *Context) Commit(ctx context.Context, k int) error {
	defer lockContexts(c)()
	s, r := c.set, c.row
	s.mu.Lock()
	pageSize := s.table.pageSize
	until, err := (len(r.names)+k)*pageSize, r.usable()
	switch have := len(r.tokens); {
	case err != nil:
	case k < 0:
		err = fmt.Errorf("%w: %d pages to commit", admit.ErrInvalidRequest, k)
	case until > have:
		err = ErrPartialPage{Page: have / pageSize, Tokens: have % pageSize, PageSize: pageSize}
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	r.until = until
	return s.runTokens(ctx, []*contextRow{r})
}

// Truncate drops the last n tokens: those that wait first, then those in the working page. It changes no page count: a
// page that it empties stays reserved. Beyond the working page it returns [ErrCommittedPage], and changes nothing;
// [Context.TruncateCommitted] reaches further. Its other errors are the same.
func (c *Context) Truncate(n int) error {
	return c.do(func(r *contextRow) error {
		committed := len(r.names) * c.set.table.pageSize
		length := len(r.tokens) - n
		switch {
		case n >= 0 && length >= 0 && length < committed:
			return ErrCommittedPage{Page: length / c.set.table.pageSize, Working: len(r.tokens) - committed}
		case n >= 0 && length == committed && len(r.pages) > len(r.names):
			return c.truncate(r, n, max(r.reserved, len(r.pages)))
		}
		return c.truncate(r, n, r.reserved)
	})
}

// TruncateCommitted drops the last n tokens, in whichever pages they are. Pages after the new end keep their names
// until their memory is wanted, or stay reserved if they were. If a fork also holds the page of the new end, the rest
// of the page is copied when it is next written to, or at once if pages are reserved. This may return
// pagetable.ErrOutOfPages, because a page that a fork also holds is not freed.
func (c *Context) TruncateCommitted(n int) error {
	return c.do(func(r *contextRow) error { return c.truncate(r, n, r.reserved) })
}

// truncate drops the last n tokens, and leaves so many pages reserved.
func (c *Context) truncate(r *contextRow, n, reserved int) error {
	if n < 0 || n > len(r.tokens) {
		return fmt.Errorf("%w: %d tokens to truncate, the context has %d", admit.ErrInvalidRequest, n, len(r.tokens))
	}
	return c.set.table.cutContext(r, len(r.tokens)-n, reserved)
}

// Reserve makes n pages more sure for the context, so that what it appends can't run out of pages; a partial
// page that it shares with a fork is copied now. Too few pages are pagetable.ErrOutOfPages, and more than a sequence
// may have [admit.ErrPromptTooLong].
func (c *Context) Reserve(n int) error {
	s := c.set
	return c.do(func(r *contextRow) error {
		all := max(r.reserved, len(r.pages)) + n
		switch {
		case n < 0:
			return fmt.Errorf("%w: %d pages to reserve", admit.ErrInvalidRequest, n)
		case all > s.table.sizes.PagesPerSeq:
			return fmt.Errorf("%w: %d pages, a context may have %d", admit.ErrPromptTooLong, all,
				s.table.sizes.PagesPerSeq)
		}
		return s.table.cutContext(r, len(r.tokens), all)
	})
}

// Release gives up the last n pages: reserved ones that are not used yet, then those with tokens, and the tokens with
// them. It returns [admit.ErrInvalidRequest] if there are fewer.
func (c *Context) Release(n int) error {
	return c.do(func(r *contextRow) error {
		all := max(r.reserved, len(r.pages))
		if n < 0 || n > all {
			return fmt.Errorf("%w: %d pages to release, the context has %d", admit.ErrInvalidRequest, n, all)
		}
		length := len(r.tokens)
		if all -= n; all < len(r.pages) {
			length = all * c.set.table.pageSize
		}
		return c.set.table.cutContext(r, length, min(r.reserved, all))
	})
}

// PageCounts are the pages of a context by their kind.
type PageCounts struct {
	Committed     int // full
	Working       int // partly filled: 1 or 0
	Reserved      int // sure for it, and not used yet
	Shared        int // committed and working pages that another context holds too
	WorkingTokens int // tokens in the working page
	Waiting       int // tokens that were not run yet
}

// Counts returns the counts of now. A context that is closed or lost has none.
func (c *Context) Counts() PageCounts {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	r := c.row
	if r.usable() != nil {
		return PageCounts{}
	}
	counts := PageCounts{
		Committed: len(r.names), Working: len(r.pages) - len(r.names), Reserved: max(0, r.reserved-len(r.pages)),
		WorkingTokens: r.done % c.set.table.pageSize, Waiting: len(r.tokens) - r.done,
	}
	for _, page := range r.pages {
		if page.holders > 1 {
			counts.Shared++
		}
	}
	return counts
}

// Len is how many tokens the context has, including waiting ones.
func (c *Context) Len() int { return len(c.Tokens()) }

// Tokens returns a copy of the tokens, including waiting ones.
func (c *Context) Tokens() []int32 {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
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
			return ErrPartialPage{Page: page, Tokens: r.done % c.set.table.pageSize, PageSize: c.set.table.pageSize}
		}
		hash = r.names[page]
		return nil
	})
	return hash, err
}

// Generate runs what waits, and generates completions of the context followed by the request's tokens. The completions,
// in order of their generations, equal the completions of a request whose prompt is all of these tokens. The context
// stays as it is: append what shall stay. For many contexts at once give Run requests with Request.Context. What is
// wrong with the request is an error here, and not a completion's.
func (c *Context) Generate(ctx context.Context, r *admit.Request) ([]*admit.Completion, error) {
	if r.Context != nil && r.Context != admit.Context(c) {
		return nil, fmt.Errorf("%w: the request has another context", admit.ErrInvalidRequest)
	}
	if err := c.Flush(ctx); err != nil {
		return nil, err
	}
	one := *r
	one.Context = c
	all, err := c.set.generate(ctx, &one)
	if err != nil {
		return nil, err
	}
	for _, completion := range all {
		completion.Request = r
	}
	slices.SortFunc(all, func(a, b *admit.Completion) int { return a.Generation - b.Generation })
	return all, nil
}
