package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/ops/tree"
)

// Follower does what process 0 does, in another process.
type Follower struct {
	core    *Core
	swapper *Swapper
	blocks  map[uint64]*Block // blocks by the number that process 0 gave them
	// Observe may change what is about to run; nil except in tests.
	Observe func(in *device.Input)
}

// NewFollower makes the follower of a process other than 0.
func NewFollower(c *Core, swapper *Swapper) *Follower {
	return &Follower{core: c, swapper: swapper, blocks: map[uint64]*Block{}}
}

// Leave asks process 0 to end.
func (f *Follower) Leave() { f.core.hosts.group.Leave() }

// Fail ends the other processes.
func (f *Follower) Fail(err error) { f.core.hosts.group.Fail(err) }

// Next returns the next call that process 0 announces, or io.EOF when process 0 is done.
func (f *Follower) Next() ([][]byte, error) { return f.core.hosts.group.Next() }

// Do runs one program as process 0 does, and counts it.
func (f *Follower) Do(call [][]byte, calls *atomic.Int64) error {
	c, s := f.core, f.core.hosts
	var header callHeader
	if len(call) == 0 {
		return errors.New("process 0 announced nothing")
	}
	if err := json.Unmarshal(call[0], &header); err != nil {
		return fmt.Errorf("what process 0 announced: %w", err)
	}
	if header.Program == stopsProgram {
		s.note(call)
		return c.followStops(call[1:])
	}
	if header.Program == featuresProgram {
		s.note(call)
		return c.followFeatures(call[1:], f.swapper.Wait)
	}
	if c.programs.byName[header.Program] == nil {
		return fmt.Errorf("process 0 runs program %q, which is not here", header.Program)
	}
	p := c.Program(header.Program)
	s.note(call)
	for _, number := range header.Dropped {
		delete(f.blocks, number)
	}
	calls.Add(1)
	switch p.Name {
	case "init":
		return c.Reset()
	case "save":
		in := device.NewSave()
		err := c.inputs.receive(p, tree.Arrays(in), call[1:])
		if err == nil {
			f.blocks[header.Block], err = f.swapper.down(in)
		}
		return err
	case "load":
		b := f.blocks[header.Block]
		if b == nil {
			return fmt.Errorf("process 0 loads pages (%d) that are not here", header.Block)
		}
		in := tree.Arrays(c.graphs.NewLoad())
		if err := c.inputs.receive(p, in, call[1:]); err != nil {
			return err
		}
		_, err := f.swapper.place(in, []*Block{b})
		return err
	case "run":
		in := c.graphs.NewInput()
		arrays := tree.Arrays(in)
		if err := c.inputs.receive(p, arrays, call[1:]); err != nil {
			return err
		}
		if f.Observe != nil {
			f.Observe(in)
			arrays = tree.Arrays(in)
		}
		output, err := Execute[device.Output](c, p, arrays)
		if err != nil {
			return err
		}
		return output.Status.Check(output.Rules, 0)
	}
	return fmt.Errorf("process 0 runs program %q, which it should not", header.Program)
}
