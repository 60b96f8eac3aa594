package core

import (
	"fmt"
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/ops/collective"
)

// parted is a buffer that may be of several devices.
type parted interface {
	// Parts are what each of them has.
	Parts() []compute.Buffer
}

// download copies arrays to the host, each to a slice of its Go type: all at once if the backend can.
func download(backend compute.Backend, from []compute.Buffer, flats []any) error {
	if together, ok := backend.(interface {
		Download(from []compute.Buffer, flats []any) error
	}); ok {
		return together.Download(from, flats)
	}
	for i, b := range from {
		if err := b.ToFlatData(flats[i]); err != nil {
			return err
		}
	}
	return nil
}

// readParts copies the output of a program to the host as it is, one device after the other if there are several.
func readParts(backend compute.Backend, p *device.Compiled, results []compute.Buffer) ([]any, error) {
	list := make([]any, len(results))
	var from []compute.Buffer
	var flats []any
	for i, l := range p.Output {
		parts := []compute.Buffer{results[i]}
		if buffer, ok := results[i].(parted); ok && l.Own {
			parts = buffer.Parts()
		}
		size := l.Shape.Size()
		flat := reflect.MakeSlice(reflect.SliceOf(l.Shape.DType.GoType()), size*len(parts), size*len(parts))
		for j, part := range parts {
			from, flats = append(from, part), append(flats, flat.Slice(j*size, (j+1)*size).Interface())
		}
		list[i] = flat.Interface()
	}
	if err := download(backend, from, flats); err != nil {
		return nil, fmt.Errorf("program %s: reading its output: %w", p.Name, err)
	}
	return list, nil
}

// toDevices copies one array of an input to the backend's device, or to each of them its own.
func toDevices(backend compute.Backend, l device.Leaf, flat any) (compute.Buffer, error) {
	if !l.Own {
		return backend.BufferFromFlatData(0, flat, l.Shape)
	}
	members, err := collective.Members(backend)
	if err != nil {
		return nil, err
	}
	var parts []compute.Buffer
	for i, member := range members {
		part, err := member.BufferFromFlatData(0, ofDevice(flat, l.Shape, i), l.Shape)
		if err != nil {
			finalize(parts)
			return nil, err
		}
		parts = append(parts, part)
	}
	return collective.Join(backend, parts)
}

// ofDevice is the array of one of several devices, which flat holds one after another.
func ofDevice(flat any, shape shapes.Shape, i int) any {
	return reflect.ValueOf(flat).Slice(i*shape.Size(), (i+1)*shape.Size()).Interface()
}

func finalize(buffers []compute.Buffer) {
	for _, b := range buffers {
		if b != nil {
			_ = b.Finalize()
		}
	}
}
