package contexts

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefixes"
	"github.com/quire/quire/engine/schedule"
)

// Save runs nothing: it copies the tokens, including waiting ones, and the keys and values of the tokens that were run,
// to the host's memory. They stay there until DeleteSnapshot or the engine's Close. It returns [ErrSnapshotExists], and
// [prefixes.ErrNoHostMemory] if Config.HostKVMemory is too little; prefixes that are kept there give way.
func (c *Context) Save(name string) error {
	s := c.set
	return c.do(func(r *contextRow) error {
		if s.table.saved[name] != nil {
			return fmt.Errorf("%w: %q", ErrSnapshotExists, name)
		}
		bytes := s.table.core.BytesOnHost(r.done)
		if s.table.host == nil || !s.table.host.Take(bytes) {
			return fmt.Errorf("%w: %d bytes are needed for a context of %d tokens (see HostKVMemory)",
				prefixes.ErrNoHostMemory, bytes, r.done)
		}
		pages, err := s.table.swapper.Save(r.row, r.done)
		if err != nil {
			s.table.host.Give(bytes)
			s.table.failed(err)
			return err
		}
		if s.table.saved == nil {
			s.table.saved = map[string]*savedContext{}
		}
		s.table.saved[name] = &savedContext{tokens: slices.Clone(r.tokens), names: slices.Clone(r.names),
			pages: pages, bytes: bytes, mixed: r.mixed}
		return nil
	})
}

// Materialize copies the keys and values of a layer to the host, of the tokens that were run: [tokens, KV heads, head
// dim] each. It is for tests and tools: it runs nothing, and copies the pages of all layers, as Save does.
//
// It returns [admit.ErrInvalidRequest] if there is no such layer, if the layer keeps a state, if keys and values have 8
// bits, and if several devices run the model together.
func (c *Context) Materialize(layer int) (keys, values []float32, err error) {
	t := &c.set.table
	settled := t.core.Settled
	switch {
	case layer < 0 || layer >= len(settled.Model.Layers):
		return nil, nil, fmt.Errorf("%w: there is no layer %d, the model has %d", admit.ErrInvalidRequest, layer,
			len(settled.Model.Layers))
	case settled.Devices > 1:
		return nil, nil, fmt.Errorf("%w: %d devices each have some heads of keys and values", admit.ErrInvalidRequest,
			settled.Devices)
	}
	var pages *schedule.Pages
	err = c.do(func(r *contextRow) error {
		if pages, err = t.swapper.Save(r.row, r.done); err != nil {
			t.failed(err)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	cache := settled.Model.Layers[layer].KVFrom
	for i, b := range pages.Blocks {
		layers, err := b.(*core.Block).Wait()
		if err != nil {
			return nil, nil, err
		}
		whole := device.BlockPages * t.pageSize
		k, v, err := attention.Dense(settled.Sizes.Layouts[cache], layers[cache], min(whole, pages.Tokens-i*whole))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: layer %d: %w", admit.ErrInvalidRequest, layer, err)
		}
		keys, values = append(keys, k...), append(values, v...)
	}
	return keys, values, nil
}

// OpenSnapshot begins a context with what was saved, bit for bit. Pages that the device still has by name are not
// copied there again. It returns [ErrNoSnapshot], [ErrOutOfContexts] and pagetable.ErrOutOfPages. The snapshot stays.
func (s *Contexts) OpenSnapshot(name string) (*Context, error) {
	return s.openContext(func(r *contextRow) error {
		saved := s.table.saved[name]
		if saved == nil {
			return fmt.Errorf("%w: %q", ErrNoSnapshot, name)
		}
		return s.table.load(r, saved)
	})
}

// load begins a context with what was saved.
func (t *table) load(r *contextRow, saved *savedContext) error {
	all := ceilDiv(saved.pages.Tokens, t.pageSize)
	var named []int32
	joined := map[int32]bool{}
	if t.index != nil {
		named = t.index.Longest(saved.names)
	}
	for _, page := range named {
		joined[page] = true
	}
	err := t.enough(all-len(named)+t.notHeld(joined), 0, "opening a snapshot")
	if err != nil {
		return err
	}
	t.join(r, named)
	if len(named) < all {
		taken, err := t.swapper.Load(r.row, saved.pages, schedule.Origin{Named: named, Row: schedule.None,
			Pages: len(named)})
		t.forgetTaken(taken)
		if err != nil {
			t.failed(err)
			return err
		}
		t.grow(r, all)
		for i, page := range taken {
			t.know(r.row, len(named)+i, page)
		}
	}
	r.tokens, r.done, r.mixed = slices.Clone(saved.tokens), saved.pages.Tokens, saved.mixed
	err = t.runVerbs(func(in *device.VerbsInput) {
		if len(named) == all { // nothing was loaded
			in.Open[r.row], in.Counts[r.row] = true, int32(all)
			copy(in.Named, named)
		}
		in.PromptLens[r.row], in.MaxPages[r.row] = int32(r.done), 0
	})
	if err == nil {
		err = t.commit([]*contextRow{r})
	}
	return err
}

// DeleteSnapshot forgets what was saved; contexts opened from it stay. It returns [ErrNoSnapshot].
func (s *Contexts) DeleteSnapshot(name string) error {
	return s.operation(context.Background(), func() error {
		saved := s.table.saved[name]
		if saved == nil {
			return fmt.Errorf("%w: %q", ErrNoSnapshot, name)
		}
		s.table.host.Give(saved.bytes)
		delete(s.table.saved, name)
		return nil
	})
}

// Snapshots are the names of what was saved, sorted.
func (s *Contexts) Snapshots() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.table.saved))
}
