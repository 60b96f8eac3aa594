// Package contexts provides sequences that a program owns, for trees, agents and scoring. A [Context] stays on the
// device; tokens that it has run are never run again. [Contexts] are an engine's, made if its config has any. They
// share runs with requests: their tokens are run in a run's calls, and everything else is done between calls.
package contexts

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/turns"
)

// Contexts are the contexts of an engine. Methods on nil, which an engine without contexts has, fail with
// [ErrNoContexts].
type Contexts struct {
	// mu guards the table, also against runs; an operation holds it from its beginning to its end. Context.busy and the
	// engine's lock are acquired before it.
	mu      sync.Mutex
	table   table
	closed  bool // the engine was
	checker *admit.Checker
	lock    *turns.Lock
	runner  Runner
	scoring sync.Mutex // protects the row for scores
	guests  guests

	abandonedMu sync.Mutex
	abandoned   []*contextRow // closed during a run, or never: the next operation gives their rows back
}

// Runner runs requests for callers that hold the engine's lock with a run. requests is nil if only tokens of contexts
// are to be run.
type Runner func(ctx context.Context, run *turns.Run, requests iter.Seq[*admit.Request]) iter.Seq2[*admit.Completion,
	error]

// New makes the contexts of an engine. inspect adds to a failure the path that the device's tables were written to.
func New(c *core.Core, swapper *core.Swapper, p *prefixes.Prefixes, checker *admit.Checker, lock *turns.Lock,
	runner Runner, inspect func(error) error) *Contexts {
	s := &Contexts{checker: checker, lock: lock, runner: runner}
	t := &s.table
	*t = table{account: newAccount(c.Settled.Sizes), core: c, swapper: swapper, host: p.Host, inspect: inspect,
		forget: p.Forget}
	t.names = names{account: &t.account, index: p.Index, seed: p.Seed, sizes: c.Settled.Sizes}
	return s
}

// Open begins an empty context. It returns [ErrNoContexts] without Config.Contexts, and [ErrOutOfContexts] if all are
// open.
func (s *Contexts) Open() (*Context, error) {
	return s.openContext(func(r *contextRow) error {
		return s.table.runVerbs(func(in *device.VerbsInput) {
			in.Open[r.row] = true
			in.PromptLens[r.row], in.MaxPages[r.row] = 0, 0
		})
	})
}

// openContext makes a context in a free row, which begin fills.
func (s *Contexts) openContext(begin func(r *contextRow) error) (c *Context, err error) {
	err = s.operation(context.Background(), func() (err error) { c, err = s.beginContext(begin); return err })
	return c, err
}

// beginContext is openContext within an operation.
func (s *Contexts) beginContext(begin func(r *contextRow) error) (*Context, error) {
	at, err := s.table.freeRow()
	if err != nil {
		return nil, err
	}
	r := &contextRow{row: at}
	s.table.rows[at-s.table.first] = r
	if err := begin(r); err != nil {
		s.table.rows[at-s.table.first] = nil
		return nil, err
	}
	c := &Context{set: s, row: r}
	c.cleanup = runtime.AddCleanup(c, s.abandon, r)
	return c, nil
}

// abandon notes that nobody can reach a context any more that was not closed.
func (s *Contexts) abandon(r *contextRow) {
	s.table.core.Log.Warn("a context was never closed: its pages are given back now", "row", r.row)
	s.abandonedMu.Lock()
	defer s.abandonedMu.Unlock()
	s.abandoned = append(s.abandoned, r)
}

// FreePages returns how many pages no context holds or was promised, which runs may use. There must be contexts.
func (s *Contexts) FreePages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.freePages()
}

// sweep gives back the rows of contexts that were abandoned.
func (s *Contexts) sweep(between *schedule.Between) error {
	s.abandonedMu.Lock()
	list := s.abandoned
	s.abandoned = nil
	s.abandonedMu.Unlock()
	var later []*contextRow
	list = slices.DeleteFunc(list, func(r *contextRow) bool {
		begins := between != nil && between.Begins(r.row)
		if begins {
			later = append(later, r)
		}
		return r.lost || begins
	})
	s.abandonedMu.Lock()
	s.abandoned = append(s.abandoned, later...)
	s.abandonedMu.Unlock()
	if len(list) == 0 {
		return nil
	}
	return s.table.releaseContexts(list...)
}

// operation does what changes contexts: between two calls of the run that is under way, or now. If do returns errLater,
// it is called again after the next call.
func (s *Contexts) operation(ctx context.Context, do func() error) (err error) {
	if s == nil {
		return ErrNoContexts
	}
	t := &s.table
	s.lock.Exclusive(func(between *schedule.Between) (later bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.between = between
		defer func() { t.between = nil }()
		later, err = s.attempt(ctx, do)
		if between != nil {
			between.Contexts(t.contextsOfRun(), t.pages-t.used, t.freePages())
		}
		return later
	})
	return err
}

// attempt is one call of an operation.
func (s *Contexts) attempt(ctx context.Context, do func() error) (later bool, err error) {
	t := &s.table
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case s.closed:
		return false, ErrClosed
	}
	if !t.core.HasState() { // a run failed
		if t.between != nil {
			return false, ErrContextLost
		}
		if err := t.core.Reset(); err != nil {
			return false, err
		}
	}
	if err := s.sweep(t.between); err != nil {
		return false, err
	}
	err = do()
	return err == errLater, err
}

// lockContexts locks contexts, for one operation of theirs at a time. Until the operation is over they are not
// abandoned, although their owner may have no use for them after it.
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

// checkLen returns an error if a context may not be as long.
func (s *Contexts) checkLen(n int) error {
	if n > s.table.core.Settled.MaxModelLen {
		return fmt.Errorf("%w: a context of %d tokens, and it may have %d (see MaxModelLen)", admit.ErrPromptTooLong, n,
			s.table.core.Settled.MaxModelLen)
	}
	return nil
}
