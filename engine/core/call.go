package core

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/tree"
)

// Execute runs a program once: the input up, the state in place, the output down, as the host twin that the program
// has, a T.
func Execute[T any](c *Core, p *device.Compiled, in []tree.Array) (*T, error) {
	end := c.Span(schedule.HostTrack, "input up")
	input, err := c.inputs.upload(p, in)
	end("arrays", len(in))
	if err != nil {
		return nil, err
	}
	if err := c.hosts.announce(p, input.pieces(), nil); err != nil {
		return nil, err
	}
	results, err := c.dispatch(p, input.buffers)
	if err != nil {
		return nil, err
	}
	defer finalize(results)
	end = c.Span(schedule.HostTrack, "output down")
	defer end("arrays", len(results))
	return read[T](c, p, results)
}

// read copies the output of a program to the host, and compares it with what the other processes have.
func read[T any](c *Core, p *device.Compiled, results []compute.Buffer) (*T, error) {
	twin, arrays, err := p.NewOutput()
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	flats, packed := p.Packing.New(), p.Packing.Arrays()
	from := slices.Clone(results[:len(packed)])
	for i, l := range packed {
		if buffer, ok := from[i].(parted); ok && l.Apart { // the first device's
			from[i] = buffer.Parts()[0]
		}
	}
	if err := download(c.backend, from, flats); err != nil {
		return nil, fmt.Errorf("program %s: reading its output: %w", p.Name, err)
	}
	p.Packing.Take(flats, arrays)
	tree.Store(arrays)
	return twin.(*T), c.hosts.confirm(p, arrays)
}

// dispatch runs a program on input that is on the device, and returns what the host gets, still on the device, when the
// program is done. Both are the caller's.
func (c *Core) dispatch(p *device.Compiled, input []compute.Buffer) ([]compute.Buffer, error) {
	args := slices.Clone(c.state)
	if len(p.Extras) > 0 {
		args = append(args, c.extras...)
	}
	numKept := len(args)
	args = append(args, input...)
	if p.Weights {
		args = append(args, c.weights.model...)
	}
	if p.Drafts {
		args = append(args, c.weights.drafter...)
	}
	if p.Adapters {
		args = append(args, c.weights.adapters.buffers...)
	}
	if p.Resident != nil {
		args = append(append(args, c.resident.stops...), c.resident.texts...)
	}
	donate := make([]bool, len(args))
	for i := range numKept {
		donate[i] = !p.Reads
	}
	run := func(_ *device.Compiled, args []compute.Buffer, donate []bool) ([]compute.Buffer, error) {
		return p.Executable.Execute(args, donate, 0)
	}
	if c.hosts != nil {
		run = c.hosts.execute
	}
	c.began = c.Now()
	results, err := run(p, args, donate)
	c.ran = c.Now().Sub(c.began)
	if c.Trace != nil {
		c.Trace.Span(schedule.DeviceTrack, p.Name, c.began, c.began.Add(c.ran))
	}
	if err != nil {
		if !p.Reads {
			c.state = nil // donated
			if len(p.Extras) > 0 {
				c.extras = nil
			}
		}
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	if p.Reads {
		return results, nil
	}
	c.state = results[:p.NumState:p.NumState]
	if len(p.Extras) > 0 {
		c.extras = results[p.NumState:numKept:numKept]
	}
	return results[numKept:], nil
}
