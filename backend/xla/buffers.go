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
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Buffer is an array on a device, or one on each device of a group. It implements [compute.Buffer].
type Buffer struct {
	backend *Backend
	parts   []*pjrt.Buffer   // one, or one for each device of the group
	shape   shapes.Shape     // of each part
	pieces  []*hugemem.Piece // the parts' memory, if the host allocated it
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

// Parts returns views of the array on each device of the group. They are valid as long as the buffer, and must not be
// finalized.
func (b *Buffer) Parts() []compute.Buffer {
	views := make([]compute.Buffer, len(b.parts))
	for i, part := range b.parts {
		views[i] = &Buffer{backend: b.backend, parts: []*pjrt.Buffer{part}, shape: b.shape}
	}
	return views
}

// BufferFromFlatData implements [compute.Backend]: it copies flat, a slice of shape's Go type, to the device. For a
// group, whose device is 0, it copies to each device of this process.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if _, err := b.device(device); err != nil {
		return nil, err
	}
	data, err := bytesOf(flat, shape)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 {
		data = make([]byte, 1) // the plugin needs an address even for an empty array
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

// Finalize implements [compute.Buffer]: it frees the array. It does nothing to a buffer that was donated or finalized.
func (b *Buffer) Finalize() error {
	defer func() {
		for _, p := range b.pieces {
			p.Free()
		}
	}()
	if b.backend.valid() != nil {
		return nil // it was freed with the client
	}
	var failures []error
	for _, part := range b.parts {
		failures = append(failures, part.Destroy())
	}
	return errors.Join(failures...)
}

// Shape implements [compute.Buffer].
func (b *Buffer) Shape() (shapes.Shape, error) { return b.shape, b.valid() }

// DeviceNum implements [compute.Buffer]: the number of the device, or of the first device of a group.
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
// group it copies the first device's array: see [Buffer.Parts].
func (b *Buffer) ToFlatData(flat any) error {
	return b.backend.Download([]compute.Buffer{b}, []any{flat})
}

// Download does what [Buffer.ToFlatData] does for several buffers of the backend, whose copies run at the same time.
func (b *Backend) Download(buffers []compute.Buffer, flats []any) error {
	if err := b.valid(); err != nil {
		return err
	}
	var parts []*pjrt.Buffer
	var ranks []int
	var to [][]byte
	for i, buffer := range buffers {
		of, ok := buffer.(*Buffer)
		if !ok {
			return fmt.Errorf("xla: array %d is a buffer of another backend", i)
		}
		if err := of.valid(); err != nil {
			return err
		}
		data, err := bytesOf(flats[i], of.shape)
		if err != nil {
			return err
		}
		if len(data) > 0 {
			parts, ranks, to = append(parts, of.parts[0]), append(ranks, of.shape.Rank()), append(to, data)
		}
	}
	if err := pjrtc.ToHost(b.client, parts, ranks, to); err != nil {
		return fmt.Errorf("xla: copying %d arrays to the host: %w", len(parts), err)
	}
	runtime.KeepAlive(flats)
	return nil
}

// Data implements [compute.Buffer]: a slice over the array's own storage, on the CPU only. It is valid as long as the
// buffer.
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

// NewZeros returns an array of zeros, and a slice of its dtype's Go type over its storage, which the host may write
// until the array is first used. The array can't be donated. NewZeros fails if the host does not reach the device's
// memory, and for a group.
func (b *Backend) NewZeros(device compute.DeviceNum, shape shapes.Shape) (compute.Buffer, any, error) {
	d, err := b.device(device)
	if err != nil {
		return nil, nil, err
	}
	if !b.HostWritable() || shape.Size() == 0 || b.Partitions() > 1 {
		return nil, nil, fmt.Errorf("xla: an array %s that the host writes: %w on %s", shape, compute.ErrNotImplemented,
			b.platform)
	}
	size := uintptr(shape.Size()) * shape.DType.GoType().Size()
	piece, err := hugemem.Take(int(size))
	if err != nil {
		return nil, nil, fmt.Errorf("xla: making %s on device %d: %w", shape, device, err)
	}
	start := unsafe.Pointer(unsafe.SliceData(piece.Bytes))
	buffer, err := b.client.CreateViewOfDeviceBuffer(start, shape.DType, shape.Dimensions, d)
	if err != nil {
		piece.Free()
		return nil, nil, fmt.Errorf("xla: making %s on device %d: %w", shape, device, err)
	}
	runtime.AddCleanup(buffer, (*hugemem.Piece).Free, piece)
	flat := reflect.SliceAt(shape.DType.GoType(), start, shape.Size()).Interface()
	out := &Buffer{backend: b, parts: []*pjrt.Buffer{buffer}, shape: shape.Clone(), pieces: []*hugemem.Piece{piece}}
	return out, flat, nil
}

// HostWritable reports whether [Backend.NewZeros] works.
func (b *Backend) HostWritable() bool {
	return hugemem.Supported && b.platform == "cpu" && b.Partitions() == 1
}
