package core

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/models/adapter"
	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/collective"
)

// placer is a backend whose device memory the host can write.
type placer interface {
	NewZeros(device compute.DeviceNum, shape shapes.Shape) (buffer compute.Buffer, flat any, err error)
	HostWritable() bool
}

// Adapters are the arrays of low-rank adapters on the device, or on the devices that run the model together.
type Adapters struct {
	backend compute.Backend
	arrays  []decoder.AdapterArray
	buffers []compute.Buffer
	// flats are the elements of the arrays if the host can write the device's memory. Otherwise they are the
	// numbers of one slot, for each of this process' devices in turn, which placement copies to the devices.
	flats     []any
	placement compute.Executable
}

// newAdapters makes arrays without adapters.
func newAdapters(backend compute.Backend, gr *device.Graphs) (a Adapters, err error) {
	a = Adapters{backend: backend, arrays: gr.AdapterArrays}
	p, ok := backend.(placer)
	if inSite := ok && p.HostWritable(); !inSite && len(a.arrays) > 0 {
		if a.placement, err = gr.CompilePlacement(backend); err != nil {
			return Adapters{}, err
		}
	}
	for _, one := range a.arrays {
		var buffer compute.Buffer
		var flat any
		if a.placement == nil {
			buffer, flat, err = p.NewZeros(0, one.Shape)
		} else {
			flat = zeros(one.Shape.DType, one.OfSlot().Shape.Size()*len(collective.Places(backend)))
			buffer, err = backend.BufferFromFlatData(0, zeros(one.Shape.DType, one.Shape.Size()), one.Shape)
		}
		if err != nil {
			a.close()
			return Adapters{}, fmt.Errorf("making room for adapters: %s: %w", one.Name, err)
		}
		a.buffers, a.flats = append(a.buffers, buffer), append(a.flats, flat)
	}
	return a, nil
}

// zeros are n elements of an array on the host.
func zeros(dtype dtypes.DType, n int) any {
	return reflect.MakeSlice(reflect.SliceOf(dtype.GoType()), n, n).Interface()
}

func (a *Adapters) close() {
	finalize(a.buffers)
	if a.placement != nil {
		a.placement.Finalize()
	}
	*a = Adapters{}
}

// Place puts an adapter into a slot, from 0, before the next call.
func (a *Adapters) Place(slot int, from *adapter.Adapter) error {
	to, at := a.arrays, slot
	if a.placement != nil {
		to, at = make([]decoder.AdapterArray, len(a.arrays)), 0
		for i, one := range a.arrays {
			to[i] = one.OfSlot()
		}
	}
	places, workers := collective.Places(a.backend), runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(to)*len(places) && errs[w] == nil; i += workers {
				one, device := to[i/len(places)], i%len(places)
				flat := ofDevice(a.flats[i/len(places)], one.Shape, device)
				errs[w] = one.Put(a.backend, places[device], flat, at, from)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil || a.placement == nil {
		return err
	}
	if err := a.send(slot); err != nil {
		return fmt.Errorf("sending an adapter to the device: %w", err)
	}
	return nil
}

// send brings what flats hold to a slot on the device.
func (a *Adapters) send(slot int) error {
	var sent []compute.Buffer
	defer func() { finalize(sent) }()
	for i, one := range a.arrays {
		buffer, err := toDevices(a.backend, device.Leaf{Shape: one.OfSlot().Shape, Own: true}, a.flats[i])
		if err != nil {
			return err
		}
		sent = append(sent, buffer)
	}
	number, err := a.backend.BufferFromFlatData(0, []int32{int32(slot)}, shapes.Make(dtypes.Int32))
	if err != nil {
		return err
	}
	sent = append(sent, number)
	args := slices.Concat(a.buffers, sent)
	donate := make([]bool, len(args))
	for i := range a.buffers {
		donate[i] = true
	}
	a.buffers, err = a.placement.Execute(args, donate, 0)
	return err
}
