package engine

import (
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
	defer finalize(input)
	if err := e.inStep.announce(p, in, nil); err != nil {
		return nil, err
	}
	results, err := e.dispatch(p, input)
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
	for i, a := range arrays {
		from := results[i]
		if of, ok := from.(parted); ok && p.Output[i].Own { // the first device's
			from = of.Parts()[0]
		}
		if err := from.ToFlatData(a.Flat); err != nil {
			return nil, fmt.Errorf("program %s: reading %s: %w", p.Name, a.Name, err)
		}
	}
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

// upload copies the first arrays of a program's input to the device.
func (e *Engine) upload(p *device.Compiled, in []tree.Array) ([]compute.Buffer, error) {
	buffers := make([]compute.Buffer, 0, len(p.Input))
	for i, a := range in {
		b, err := toDevices(e.cfg.Backend, p.Input[i], a.Flat)
		if err != nil {
			finalize(buffers)
			return nil, fmt.Errorf("program %s, input %s: %w", p.Name, a.Name, err)
		}
		buffers = append(buffers, b)
	}
	return buffers, nil
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
	args := slices.Concat(e.state, input)
	if p.Weights {
		args = append(args, e.weights...)
	}
	donate := make([]bool, len(args))
	for i := range p.NumState {
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
		}
		return nil, fmt.Errorf("program %s: %w", p.Name, err)
	}
	if p.Reads {
		return results, nil
	}
	e.state = results[:p.NumState:p.NumState]
	return results[p.NumState:], nil
}
