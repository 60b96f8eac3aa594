package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/prefix"
)

// savedContext is a context that was saved by name.
type savedContext struct {
	tokens []int32
	names  []prefix.Hash // of the full pages
	pages  *schedule.Pages
	bytes  int64
}

// Save runs nothing: it copies the tokens, with those that wait, and the keys and values of those that were run, to the
// host's memory, where they stay until DeleteSnapshot or the engine's Close. It returns [ErrSnapshotExists], and
// [ErrNoHostMemory] where Config.HostKVMemory is too little; prefixes that were kept there make way.
func (c *Context) Save(name string) error {
	e := c.e
	return c.do(func(r *contextRow) error {
		if e.contexts.saved[name] != nil {
			return fmt.Errorf("%w: %q", ErrSnapshotExists, name)
		}
		bytes := e.bytesOnHost(r.done)
		if e.hostCache == nil || !e.hostCache.Take(bytes) {
			return fmt.Errorf("%w: %d bytes are needed for a context of %d tokens (see HostKVMemory)", ErrNoHostMemory,
				bytes, r.done)
		}
		pages, err := e.swapper.save(r.row, r.done)
		if err != nil {
			e.hostCache.Give(bytes)
			e.failed(err)
			return err
		}
		if e.contexts.saved == nil {
			e.contexts.saved = map[string]*savedContext{}
		}
		e.contexts.saved[name] = &savedContext{tokens: slices.Clone(r.tokens), names: slices.Clone(r.names),
			pages: pages, bytes: bytes}
		return nil
	})
}

// OpenSnapshot begins a context with what was saved, bit for bit. Pages that are on the device by their names are not
// copied there again. It returns [ErrNoSnapshot], [ErrOutOfContexts] and pagetable.ErrOutOfPages. The snapshot stays.
func (e *Engine) OpenSnapshot(name string) (*Context, error) {
	return e.openContext(func(r *contextRow) error {
		saved := e.contexts.saved[name]
		if saved == nil {
			return fmt.Errorf("%w: %q", ErrNoSnapshot, name)
		}
		return e.load(r, saved)
	})
}

// load begins a context with what was saved.
func (e *Engine) load(r *contextRow, saved *savedContext) error {
	all := ceilDiv(saved.pages.Tokens, e.plan.PageSize)
	var named []int32
	joined := map[int32]bool{}
	if e.index != nil {
		named = e.index.Longest(saved.names)
	}
	for _, page := range named {
		joined[page] = true
	}
	err := e.enough(all-len(named)+e.contexts.notHeld(joined), 0, "opening a snapshot")
	if err != nil {
		return err
	}
	e.contexts.join(r, named)
	if len(named) < all {
		taken, err := e.swapper.load(r.row, saved.pages, schedule.Origin{Named: named, Row: schedule.None,
			Pages: len(named)})
		e.forgetTaken(taken)
		if err != nil {
			e.failed(err)
			return err
		}
		e.contexts.grow(r, all)
		for i, page := range taken {
			e.contexts.know(r.row, len(named)+i, page)
		}
	}
	r.tokens, r.done = slices.Clone(saved.tokens), saved.pages.Tokens
	err = e.contextVerbs(func(in *device.VerbsInput) {
		if len(named) == all { // nothing was loaded
			in.Open[r.row], in.Counts[r.row] = true, int32(all)
			copy(in.Named, named)
		}
		in.PromptLens[r.row], in.MaxPages[r.row] = int32(r.done), 0
	})
	if err == nil {
		err = e.commit([]*contextRow{r})
	}
	return err
}

// DeleteSnapshot forgets what was saved; contexts opened from it stay. It returns [ErrNoSnapshot].
func (e *Engine) DeleteSnapshot(name string) error {
	return e.operation(context.Background(), func() error {
		saved := e.contexts.saved[name]
		if saved == nil {
			return fmt.Errorf("%w: %q", ErrNoSnapshot, name)
		}
		e.hostCache.Give(saved.bytes)
		delete(e.contexts.saved, name)
		return nil
	})
}

// Snapshots are the names of what was saved, sorted.
func (e *Engine) Snapshots() []string {
	e.contexts.mu.Lock()
	defer e.contexts.mu.Unlock()
	return slices.Sorted(maps.Keys(e.contexts.saved))
}
