package core

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/models/adapter"
	"github.com/quire/quire/models/decoder"
)

// placer is a backend whose device memory the host can write.
type placer interface {
	NewZeros(device compute.DeviceNum, shape shapes.Shape) (buffer compute.Buffer, flat any, err error)
	HostWritable() bool
}

// Adapters are the arrays of low-rank adapters on the device.
type Adapters struct {
	backend compute.Backend
	arrays  []decoder.AdapterArray
	buffers []compute.Buffer
	// flats are the elements of the arrays: the device's own memory if the host can write it, otherwise copies that are
	// sent to the device when they have changed.
	flats  []any
	inSite bool
	dirty  bool
}

// newAdapters makes arrays without adapters.
func newAdapters(backend compute.Backend, arrays []decoder.AdapterArray) (a Adapters, err error) {
	a = Adapters{backend: backend, arrays: arrays}
	p, ok := backend.(placer)
	a.inSite = ok && p.HostWritable()
	for _, one := range arrays {
		var buffer compute.Buffer
		var flat any
		if a.inSite {
			buffer, flat, err = p.NewZeros(0, one.Shape)
		} else {
			flat = reflect.MakeSlice(reflect.SliceOf(one.Shape.DType.GoType()), one.Shape.Size(),
				one.Shape.Size()).Interface()
			buffer, err = backend.BufferFromFlatData(0, flat, one.Shape)
		}
		if err != nil {
			a.close()
			return Adapters{}, fmt.Errorf("making room for adapters: %s: %w", one.Name, err)
		}
		a.buffers, a.flats = append(a.buffers, buffer), append(a.flats, flat)
	}
	return a, nil
}

// send brings arrays to the device that the host has changed.
func (a *Adapters) send() error {
	if !a.dirty || a.inSite {
		return nil
	}
	for i, one := range a.arrays {
		buffer, err := a.backend.BufferFromFlatData(0, a.flats[i], one.Shape)
		if err != nil {
			return fmt.Errorf("sending adapters to the device: %s: %w", one.Name, err)
		}
		_ = a.buffers[i].Finalize()
		a.buffers[i] = buffer
	}
	a.dirty = false
	return nil
}

func (a *Adapters) close() {
	finalize(a.buffers)
	a.buffers, a.flats = nil, nil
}

// Place puts an adapter into a slot, from 0, before the next call.
func (a *Adapters) Place(slot int, from *adapter.Adapter) error {
	a.dirty = true
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(a.arrays) && errs[w] == nil; i += workers {
				errs[w] = a.arrays[i].Put(a.backend, a.flats[i], slot, from)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
