package native

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/backend/xla/cpukernel"
)

// packed has the dtypes of matrices that kernels read in panels.
var packed = map[dtypes.DType]cpukernel.DType{dtypes.Float32: cpukernel.F32, dtypes.BFloat16: cpukernel.BF16,
	dtypes.Float16: cpukernel.F16, dtypes.Int8: cpukernel.S8, dtypes.Uint8: cpukernel.U8}

// LinearLayout returns how matrices of a dtype are packed for the kernels, if there are any: see package linear.
func (f *Forms) LinearLayout(dtype dtypes.DType) (panel, group, multiple int, ok bool) {
	d, ok := packed[dtype]
	if !ok || f.Kernels() == KernelsOff {
		return 0, 0, 0, false
	}
	l := cpukernel.LinearLayout(d)
	return l.Panel, l.Group, l.Multiple, true
}

// PackLinear packs rows of a matrix for the kernels: see package linear.
func (f *Forms) PackLinear(packedBytes, rows []byte, dtype dtypes.DType, out, in int, gateUp bool, from int) error {
	d, ok := packed[dtype]
	if !ok {
		return fmt.Errorf("xla: matrices of %s are not packed", dtype)
	}
	return cpukernel.Pack(packedBytes, rows, d, out, in, gateUp, from)
}

// PackBlocks packs rows of a matrix in blocks for the kernels: see package linear.
func (f *Forms) PackBlocks(packedBytes []byte, rows *blocks.Rows, out int, gateUp bool, from int) error {
	return cpukernel.PackBlocks(packedBytes, rows, out, gateUp, from)
}

// BlocksShape returns the shape of the bytes of a packed matrix in blocks.
func (f *Forms) BlocksShape(format blocks.Format, out, in int, gateUp bool) []int {
	return cpukernel.BlocksShape(format, out, in, gateUp)
}
