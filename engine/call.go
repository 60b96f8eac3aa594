package engine

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/tree"
)

// execute runs a program once: the input up, the state in place, the output down, as the host twin that the program
// has, a T.
func execute[T any](e *Engine, p *device.Compiled, in []tree.Array) (*T, error) {
	end := e.span(schedule.HostTrack, "input up")
	input, err := e.upload(p, in)
	end("arrays", len(in))
	if err != nil {
		return nil, err
	}
	if err := e.inStep.announce(p, input.pieces(), nil); err != nil {
		return nil, err
	}
	results, err := e.dispatch(p, input.buffers)
	if err != nil {
		return nil, err
	}
	defer finalize(results)
	end = e.span(schedule.HostTrack, "output down")
	defer end("arrays", len(results))
	return read[T](e, p, results)
}

// read copies the output of a program to the host, and compares it with what the other processes have.
func read[T any](e *Engine, p *device.Compiled, results []compute.Buffer) (*T, error) {
	twin, arrays, err := p.NewOutput()
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	flats := p.Packing.New()
	for i, l := range p.Packing.Arrays() {
		from := results[i]
		if of, ok := from.(parted); ok && l.Apart { // the first device's
			from = of.Parts()[0]
		}
		if err := from.ToFlatData(flats[i]); err != nil {
			return nil, fmt.Errorf("program %s: reading %s: %w", p.Name, l.Name, err)
		}
	}
	p.Packing.Take(flats, arrays)
	tree.Store(arrays)
	return twin.(*T), e.inStep.confirm(p, arrays)
}

// parted is a buffer that may be of several devices.
type parted interface {
	// Parts are what each of them has.
	Parts() []compute.Buffer
}

// readParts copies the output of a program to the host as it is, that of several devices one behind the other.
func readParts(p *device.Compiled, results []compute.Buffer) ([]any, error) {
	list := make([]any, len(results))
	for i, l := range p.Output {
		parts := []compute.Buffer{results[i]}
		if of, ok := results[i].(parted); ok && l.Own {
			parts = of.Parts()
		}
		size := l.Shape.Size()
		flat := reflect.MakeSlice(reflect.SliceOf(l.Shape.DType.GoType()), size*len(parts), size*len(parts))
		for j, part := range parts {
			if err := part.ToFlatData(flat.Slice(j*size, (j+1)*size).Interface()); err != nil {
				return nil, fmt.Errorf("program %s: reading %s: %w", p.Name, l.Name, err)
			}
		}
		list[i] = flat.Interface()
	}
	return list, nil
}

// sent is the input that a program had last. It stays on the device: an array that is the same in the next call is not
// sent again.
type sent struct {
	flats   []any // of the packing
	spare   []any // memory for the next ones
	buffers []compute.Buffer
	changed []bool // with the last call
}

// pieces are the arrays that changed with the last call; nil in place of the others.
func (s *sent) pieces() [][]byte {
	list := make([][]byte, len(s.flats))
	for i, flat := range s.flats {
		if s.changed[i] {
			list[i] = tree.Bytes(flat)
		}
	}
	return list
}

// lastInput is what a program was given last: nothing, at first.
func (e *Engine) lastInput(p *device.Compiled) *sent {
	s := e.sent[p.Name]
	if s == nil {
		n := len(p.Input.Arrays())
		s = &sent{flats: p.Input.New(), spare: p.Input.New(), buffers: make([]compute.Buffer, n),
			changed: make([]bool, n)}
		e.sent[p.Name] = s
	}
	return s
}

// upload brings a program's input to the device, as far as it is not there. The buffers stay the engine's.
func (e *Engine) upload(p *device.Compiled, in []tree.Array) (*sent, error) {
	s := e.lastInput(p)
	for i := range s.flats {
		copy(tree.Bytes(s.spare[i]), tree.Bytes(s.flats[i])) // of leaves that are absent
	}
	p.Input.Put(s.spare, in)
	for i, a := range p.Input.Arrays() {
		s.changed[i] = s.buffers[i] == nil || !bytes.Equal(tree.Bytes(s.spare[i]), tree.Bytes(s.flats[i]))
		if !s.changed[i] {
			continue
		}
		b, err := e.cfg.Backend.BufferFromFlatData(0, s.spare[i], a.Shape)
		if err != nil {
			return nil, fmt.Errorf("program %s, input %s: %w", p.Name, a.Name, err)
		}
		if s.buffers[i] != nil {
			_ = s.buffers[i].Finalize()
		}
		s.buffers[i] = b
		s.flats[i], s.spare[i] = s.spare[i], s.flats[i]
	}
	return s, nil
}

// toDevices copies one array of an input to the backend's device, or to each of them its own.
func toDevices(backend compute.Backend, l device.Leaf, flat any) (compute.Buffer, error) {
	group, ok := backend.(collective.Group)
	if !ok || !l.Own || group.Partitions() == 1 {
		return backend.BufferFromFlatData(0, flat, l.Shape)
	}
	var parts []compute.Buffer
	for i := range group.Places() {
		member, err := group.Member(i)
		var part compute.Buffer
		if err == nil {
			part, err = member.BufferFromFlatData(0, reflect.ValueOf(flat).Slice(i*l.Shape.Size(),
				(i+1)*l.Shape.Size()).Interface(), l.Shape)
		}
		if err != nil {
			finalize(parts)
			return nil, err
		}
		parts = append(parts, part)
	}
	return group.Join(parts)
}

// dispatch runs a program on input that is on the device, and returns what the host gets, still on the device, when the
// program is through. Both are the caller's.
func (e *Engine) dispatch(p *device.Compiled, input []compute.Buffer) ([]compute.Buffer, error) {
	args := slices.Clone(e.state)
	if len(p.Extras) > 0 {
		args = append(args, e.extras...)
	}
	numKept := len(args)
	args = append(args, input...)
	if p.Weights {
		args = append(args, e.weights...)
	}
	if p.Drafts {
		args = append(args, e.drafter...)
	}
	if p.Resident != nil {
		args = append(append(args, e.stops.tables...), e.masks.texts...)
	}
	donate := make([]bool, len(args))
	for i := range numKept {
		donate[i] = !p.Reads
	}
	run := func(_ *device.Compiled, args []compute.Buffer, donate []bool) ([]compute.Buffer, error) {
		return p.Executable.Execute(args, donate, 0)
	}
	if e.inStep != nil {
		run = e.inStep.execute
	}
	e.began = e.now()
	results, err := run(p, args, donate)
	e.ran = e.now().Sub(e.began)
	if e.trace != nil {
		e.trace.Span(schedule.DeviceTrack, p.Name, e.began, e.began.Add(e.ran))
	}
	if err != nil {
		if !p.Reads {
			e.state = nil // donated
			if len(p.Extras) > 0 {
				e.extras = nil
			}
		}
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	if p.Reads {
		return results, nil
	}
	e.state = results[:p.NumState:p.NumState]
	if len(p.Extras) > 0 {
		e.extras = results[p.NumState:numKept:numKept]
	}
	return results[numKept:], nil
}
