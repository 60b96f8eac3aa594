package core

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/tree"
)

// Swapper makes the copies between device and host, which continue while the program runs. The device's part of them,
// gathering pages into arrays of their own and placing such arrays, is short and between two calls; the copies
// themselves are made by other goroutines:
//
//   - down: the arrays that program save returned are copied to the host while the next calls run. Nobody waits for
//     that but who needs the contents.
//   - up: blocks that will probably be wanted by the next call are copied to the device while this one runs, so that
//     program load finds its input there.
//
// Both are bounded, since the arrays take memory of the device in addition to the pool.
type Swapper struct {
	core *Core
	// Each direction makes one copy at a time, in the order asked for.
	downLane, upLane chan struct{}
	free             chan struct{} // holds as many as blocks are on the device on their way down
	pending          sync.WaitGroup
	copying          atomic.Int64 // nanoseconds that copies took
	waiting          atomic.Int64 // nanoseconds that the engine's own goroutine spent on transfers
	staged           map[*Block]*stagedBlock
	// Observe, if not nil, receives each event: for tests of the order.
	Observe func(event string)
}

func NewSwapper(core *Core) *Swapper {
	return &Swapper{core: core, downLane: make(chan struct{}, 1), upLane: make(chan struct{}, 1),
		free: make(chan struct{}, max(1, core.Settled.Sizes.Staged)), staged: map[*Block]*stagedBlock{}}
}

// pointers are the blocks that the scheduler knows as values of any type.
func pointers(blocks []schedule.Block) []*Block {
	list := make([]*Block, len(blocks))
	for i, b := range blocks {
		list[i] = b.(*Block)
	}
	return list
}

// stagedBlock is a block that is on the device, or on its way there.
type stagedBlock struct {
	there    chan struct{}
	unwanted atomic.Bool // set by unstage: the device memory is then free as soon as the lane is
	buffers  []compute.Buffer
	err      error
}

func (m *Swapper) Note(event string) {
	if m.Observe != nil {
		m.Observe(event)
	}
}

// timed adds what f takes to the time that the engine spends on transfers.
func (m *Swapper) timed(f func() error) error {
	begin := time.Now()
	defer func() { m.waiting.Add(int64(time.Since(begin))) }()
	return f()
}

// copy runs f in a lane, as soon as that is free.
func (m *Swapper) copy(lane chan struct{}, event string, f func()) {
	lane <- struct{}{}
	defer func() { <-lane }()
	m.Note(event + " begins")
	begin, end := time.Now(), m.core.Span("copies "+event, "copy "+event)
	f()
	end()
	m.copying.Add(int64(time.Since(begin)))
	m.Note(event + " ends")
}

// Save begins to move the first length tokens of a row to the host. The row stays as it is, and may go as soon as save
// returns.
func (m *Swapper) Save(row, length int) (out *schedule.Pages, err error) {
	out = &schedule.Pages{Tokens: length}
	end := m.core.Span(schedule.HostTrack, "save pages")
	defer end("row", row, "tokens", length)
	err = m.timed(func() error {
		for from := 0; from*m.core.Settled.Sizes.PageSize < length; from += device.BlockPages {
			b, err := m.down(&device.SaveInput{Row: int32(row), From: int32(from),
				Pages: make([]int32, device.BlockPages)})
			if err != nil {
				return err
			}
			out.Blocks = append(out.Blocks, b)
		}
		return nil
	})
	return out, err
}

// Keep begins to move pages, device.BlockPages at most, to the host. They may be taken as soon as it returns.
func (m *Swapper) Keep(pages []int32) (b *Block, err error) {
	err = m.timed(func() error {
		b, err = m.down(device.NewSave(pages...))
		return err
	})
	return b, err
}

// down gathers a block on the device, and copies it from there meanwhile.
func (m *Swapper) down(save *device.SaveInput) (*Block, error) {
	p, err := m.core.programs.waitLater(device.Save)
	if err != nil {
		return nil, err
	}
	in := tree.Arrays(save)
	b := &Block{there: make(chan struct{})}
	input, err := m.core.inputs.upload(p, in)
	if err != nil {
		return nil, err
	}
	m.free <- struct{}{}
	m.Note("gather")
	var results []compute.Buffer
	if err = m.core.hosts.announce(p, input.pieces(), b); err == nil {
		results, err = m.core.dispatch(p, input.buffers)
	}
	if err != nil {
		<-m.free
		return nil, err
	}
	m.pending.Go(func() {
		defer close(b.there)
		defer func() { <-m.free }()
		defer finalize(results)
		m.copy(m.downLane, "down", func() {
			b.layers, b.err = readParts(m.core.backend, p, results)
		})
	})
	return b, nil
}

// Stage starts to copy blocks to the device, as many of the first as may be there, and gives up others that were
// staged.
func (m *Swapper) Stage(blocks []schedule.Block) {
	want := pointers(blocks[:min(len(blocks), m.core.Settled.Sizes.Staged)])
	for b := range m.staged {
		if !slices.Contains(want, b) {
			m.unstage(b)
		}
	}
	for _, b := range want {
		if m.staged[b] == nil {
			m.staged[b] = m.up(b)
		}
	}
}

// IsStaged reports whether the first of blocks, as many as may be staged, are on the device or on their way there.
func (m *Swapper) IsStaged(blocks []schedule.Block) bool {
	return !slices.ContainsFunc(pointers(blocks[:min(len(blocks), m.core.Settled.Sizes.Staged)]),
		func(b *Block) bool { return m.staged[b] == nil })
}

// Staged returns, for each block that is staged, a channel that is closed when the block is on the device.
func (m *Swapper) Staged() (there []<-chan struct{}) {
	for _, s := range m.staged {
		there = append(there, s.there)
	}
	return there
}

// up copies a block to the device meanwhile.
func (m *Swapper) up(b *Block) *stagedBlock {
	s := &stagedBlock{there: make(chan struct{})}
	m.pending.Go(func() {
		defer close(s.there)
		if _, s.err = b.Wait(); s.err == nil {
			m.copy(m.upLane, "up", func() {
				if !s.unwanted.Load() {
					s.buffers, s.err = m.uploadBlock(b)
				}
				if s.unwanted.Load() {
					finalize(s.buffers)
					s.buffers = nil
				}
			})
		}
	})
	return s
}

// uploadBlock copies the arrays of a block that is on the host to the device.
func (m *Swapper) uploadBlock(b *Block) ([]compute.Buffer, error) {
	p, err := m.core.programs.waitLater(device.Load)
	if err != nil {
		return nil, err
	}
	var buffers []compute.Buffer
	for i, layer := range b.layers {
		buffer, err := toDevices(m.core.backend, p.Own[i], layer)
		if err != nil {
			finalize(buffers)
			return nil, fmt.Errorf("program %s, layer %d: %w", p.Name, i, err)
		}
		buffers = append(buffers, buffer)
	}
	return buffers, nil
}

// unstage gives up a staged block.
func (m *Swapper) unstage(b *Block) {
	s := m.staged[b]
	delete(m.staged, b)
	s.unwanted.Store(true)
	select {
	case <-s.there:
		finalize(s.buffers)
	default:
		m.pending.Go(func() {
			<-s.there
			finalize(s.buffers)
		})
	}
}

// take returns a block on the device: as it was staged, or copied now, together with the blocks after it.
func (m *Swapper) take(behind []*Block) ([]compute.Buffer, error) {
	b := behind[0]
	if m.staged[b] == nil {
		m.Note("not staged")
	}
	for _, next := range behind[:min(len(behind), m.core.Settled.Sizes.Staged)] {
		if m.staged[next] == nil && (next == b || len(m.staged) < m.core.Settled.Sizes.Staged) {
			m.staged[next] = m.up(next)
		}
	}
	s := m.staged[b]
	<-s.there
	delete(m.staged, b)
	return s.buffers, s.err
}

// Load begins a sequence in an unused row with what was saved, bit for bit, and returns the pages that it took.
func (m *Swapper) Load(row int, pages *schedule.Pages, origin schedule.Origin) (taken []int32, err error) {
	end := m.core.Span(schedule.HostTrack, "load pages")
	defer end("row", row, "tokens", pages.Tokens)
	err = m.timed(func() error {
		pageSize := m.core.Settled.Sizes.PageSize
		open := int32(1)
		first := origin.Pages / device.BlockPages
		for i := first; i < len(pages.Blocks); i++ {
			length := min(pages.Tokens, (i+1)*device.BlockPages*pageSize)
			in := m.core.graphs.NewLoad()
			in.Row, in.Open, in.Source, in.Held = int32(row), open, int32(origin.Row), int32(origin.Pages*pageSize)
			in.From, in.Length = int32(i*device.BlockPages), int32(length)
			copy(in.Named, origin.Named)
			more, err := m.place(tree.Arrays(in), pointers(pages.Blocks[i:]))
			if err != nil {
				return err
			}
			taken = append(taken, more...)
			open = 0
		}
		return nil
	})
	return taken, err
}

// Restore puts pages of a block into free pages, which it returns: see [schedule.Device].
func (m *Swapper) Restore(b *Block, from, to, place int, hold []int32) (pages []int32, err error) {
	in := m.core.graphs.NewLoad()
	in.Row, in.Source = schedule.None, schedule.None
	in.From, in.Length, in.Place = int32(-from), int32(to-from), int32(place)
	copy(in.Named, hold)
	err = m.timed(func() error {
		pages, err = m.place(tree.Arrays(in), []*Block{b})
		return err
	})
	return pages, err
}

// place gives the row that the input names, or none, the first of blocks, and returns the pages that were taken for it.
func (m *Swapper) place(in []tree.Array, blocks []*Block) (taken []int32, err error) {
	p, err := m.core.programs.waitLater(device.Load)
	if err != nil {
		return nil, err
	}
	arrays, err := m.take(blocks)
	defer func() { finalize(arrays) }()
	if err != nil {
		return nil, err
	}
	scalars, err := m.core.inputs.upload(p, in)
	if err != nil {
		return nil, err
	}
	m.Note("place")
	if err := m.core.hosts.announce(p, scalars.pieces(), blocks[0]); err != nil {
		return nil, err
	}
	results, err := m.core.dispatch(p, slices.Concat(scalars.buffers, arrays))
	if err != nil {
		return nil, err
	}
	defer finalize(results)
	output, err := read[device.LoadOutput](m.core, p, results)
	if err != nil {
		return nil, err
	}
	if err := output.Status.Check(nil, m.core.Pinned()); err != nil {
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	return slices.DeleteFunc(output.Pages, func(page int32) bool { return page < 0 }), nil
}

// WaitCopies waits for the copies that are under way.
func (m *Swapper) WaitCopies() { m.pending.Wait() }

// Wait waits for all copies, after which nothing is on its way or staged.
func (m *Swapper) Wait() {
	m.Stage(nil)
	m.pending.Wait()
}

// Seconds returns the seconds since its last call that copies took, and that the engine's own goroutine spent on
// transfers.
func (m *Swapper) Seconds() (copying, waiting float64) {
	return time.Duration(m.copying.Swap(0)).Seconds(), time.Duration(m.waiting.Swap(0)).Seconds()
}
