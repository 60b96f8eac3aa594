package xla

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/hugemem"
)

// Buffer is an array on a device, or one on each device of a group. It implements [compute.Buffer].
type Buffer struct {
	backend *Backend
	parts   []*pjrt.Buffer   // one, or one for each device of the group
	shape   shapes.Shape     // of each part
	pieces  []*hugemem.Piece // the parts' memory, where the host made it
}

var _ compute.Buffer = (*Buffer)(nil)

// bytesOf views the storage of flat, a slice of shape's Go type and size, as bytes.
func bytesOf(flat any, shape shapes.Shape) ([]byte, error) {
	v := reflect.ValueOf(flat)
	if v.Kind() != reflect.Slice || v.Type().Elem() != shape.DType.GoType() || v.Len() != shape.Size() {
		return nil, fmt.Errorf("xla: data of type %T does not fit %s: it takes a []%s of %d values", flat, shape,
			shape.DType.GoType(), shape.Size())
	}
	return unsafe.Slice((*byte)(v.UnsafePointer()), uintptr(v.Len())*v.Type().Elem().Size()), nil
}

// BufferFromFlatData implements [compute.Backend]: it copies flat, a slice of shape's Go type, to the device; for a
// group, whose device is 0, to each of its devices that this process has.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if _, err := b.device(device); err != nil {
		return nil, err
	}
	data, err := bytesOf(flat, shape)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		data = make([]byte, 1) // the plugin wants an address even of an empty array
	}
	out := &Buffer{backend: b, shape: shape.Clone()}
	for i := range b.here() {
		d, err := b.device(device + compute.DeviceNum(i))
		var part *pjrt.Buffer
		if err == nil {
			part, err = b.client.BufferFromHost().FromRawData(data, shape.DType, shape.Dimensions).ToDevice(d).Done()
		}
		if err != nil {
			_ = out.Finalize()
			return nil, fmt.Errorf("xla: copying %s to device %d: %w", shape, int(device)+i, err)
		}
		out.parts = append(out.parts, part)
	}
	runtime.KeepAlive(flat)
	return out, nil
}

func (b *Buffer) valid() error {
	if err := b.backend.valid(); err != nil {
		return err
	}
	for _, part := range b.parts {
		if part.Check() != nil {
			return errors.New("xla: the buffer was finalized or donated")
		}
	}
	return nil
}

// Backend implements [compute.Buffer].
func (b *Buffer) Backend() compute.Backend { return b.backend }

// Finalize implements [compute.Buffer]: it frees the array. It is a no-op on a buffer that was donated or finalized.
func (b *Buffer) Finalize() error {
	defer func() {
		for _, p := range b.pieces {
			p.Free()
		}
	}()
	if b.backend.valid() != nil {
		return nil // the client's end freed it
	}
	var failures []error
	for _, part := range b.parts {
		failures = append(failures, part.Destroy())
	}
	return errors.Join(failures...)
}

// Shape implements [compute.Buffer].
func (b *Buffer) Shape() (shapes.Shape, error) { return b.shape, b.valid() }

// DeviceNum implements [compute.Buffer]: the number of the device, of the first one for a group.
func (b *Buffer) DeviceNum() (compute.DeviceNum, error) {
	if err := b.valid(); err != nil {
		return 0, err
	}
	d, err := b.parts[0].Device()
	if err != nil {
		return 0, err
	}
	num := b.backend.client.NumForDevice(d)
	if b.backend.group != nil {
		num = slices.Index(b.backend.group, num)
	}
	return compute.DeviceNum(num), nil
}

// ToFlatData implements [compute.Buffer]: it copies the array to flat, a slice of the shape's Go type and size. For a
// group it is the first device's: see [Buffer.Parts].
func (b *Buffer) ToFlatData(flat any) error {
	if err := b.valid(); err != nil {
		return err
	}
	data, err := bytesOf(flat, b.shape)
	if err != nil || len(data) == 0 {
		return err
	}
	if err := b.parts[0].ToHost(data); err != nil {
		return fmt.Errorf("xla: copying %s to the host: %w", b.shape, err)
	}
	runtime.KeepAlive(flat)
	return nil
}

// Data implements [compute.Buffer]: a slice over the array's own storage, on the CPU only. It is valid as long as the
// buffer is.
func (b *Buffer) Data() (any, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	if b.backend.platform != "cpu" {
		return nil, fmt.Errorf("xla: the storage of a buffer is not readable on %s: copy it with ToFlatData",
			b.backend.platform)
	}
	return b.parts[0].Data()
}

// CopyToDevice implements [compute.Buffer].
func (b *Buffer) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	d, err := b.backend.device(device)
	if err != nil {
		return nil, err
	}
	if len(b.parts) > 1 {
		return nil, fmt.Errorf("xla: copying an array of %d devices to one: %w", len(b.parts),
			compute.ErrNotImplemented)
	}
	buffer, err := b.parts[0].CopyToDevice(d)
	if err != nil {
		return nil, fmt.Errorf("xla: copying %s to device %d: %w", b.shape, device, err)
	}
	return &Buffer{backend: b.backend, parts: []*pjrt.Buffer{buffer}, shape: b.shape}, nil
}
