package xla

import (
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/backend/xla/internal/hugemem"
	"github.com/quire/quire/blocks"
)

// packed are the dtypes of matrices that kernels read in panels.
var packed = map[dtypes.DType]cpukernel.DType{dtypes.Float32: cpukernel.F32, dtypes.BFloat16: cpukernel.BF16,
	dtypes.Float16: cpukernel.F16, dtypes.Int8: cpukernel.S8, dtypes.Uint8: cpukernel.U8}

// LinearLayout says how matrices of a dtype are packed for the kernels, where there are kernels: see package linear.
func (b *Backend) LinearLayout(dtype dtypes.DType) (panel, group, multiple int, ok bool) {
	d, ok := packed[dtype]
	if !ok || b.Kernels() == KernelsOff {
		return 0, 0, 0, false
	}
	l := cpukernel.LinearLayout(d)
	return l.Panel, l.Group, l.Multiple, true
}

// PackLinear packs rows of a matrix for the kernels: see package linear.
func (b *Backend) PackLinear(packedBytes, rows []byte, dtype dtypes.DType, out, in int, gateUp bool, from int) error {
	d, ok := packed[dtype]
	if !ok {
		return fmt.Errorf("xla: matrices of %s are not packed", dtype)
	}
	return cpukernel.Pack(packedBytes, rows, d, out, in, gateUp, from)
}

// PackBlocks and BlocksShape are of matrices in blocks: see package linear.
func (b *Backend) PackBlocks(packedBytes []byte, rows *blocks.Rows, out int, gateUp bool, from int) error {
	return cpukernel.PackBlocks(packedBytes, rows, out, gateUp, from)
}

// BlocksShape is the shape of the bytes of a packed matrix in blocks.
func (b *Backend) BlocksShape(f blocks.Format, out, in int, gateUp bool) []int {
	return cpukernel.BlocksShape(f, out, in, gateUp)
}

// NewZeros returns an array of zeros, and a slice of its dtype's Go type over its storage, which the host may write
// until the array is first used. It can't be donated. Where the host does not reach the device's memory, and for a
// group, it is an error.
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
