package xla

import (
	"fmt"
	"maps"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/cpukernel"
)

func init() {
	matrix := map[string]attribute{"in": integer, "out": integer, "gate_up": boolean}
	cpuKernels["linear_rows"] = kernel{target: "quire_linear_rows", attrs: matrix}
	product := maps.Clone(matrix)
	product["bias"], product["residual"] = boolean, boolean
	cpuKernels["linear"] = kernel{target: "quire_linear", attrs: product}
}

// packed are the dtypes of matrices that kernels read in panels.
var packed = map[dtypes.DType]cpukernel.DType{dtypes.Float32: cpukernel.F32, dtypes.BFloat16: cpukernel.BF16, dtypes.Float16: cpukernel.F16}

// LinearLayout says how matrices of a dtype are packed for the kernels, where there are kernels: see package linear.
func (b *Backend) LinearLayout(dtype dtypes.DType) (panel, group, multiple int, ok bool) {
	d, ok := packed[dtype]
	if !ok || b.Kernels() == KernelsOff {
		return 0, 0, 0, false
	}
	l := cpukernel.LinearLayout(d)
	return l.Panel, l.Group, l.Multiple, true
}

// PackLinear packs a matrix for the kernels: see package linear.
func (b *Backend) PackLinear(packedBytes, matrix []byte, dtype dtypes.DType, out, in int, gateUp bool) error {
	d, ok := packed[dtype]
	if !ok {
		return fmt.Errorf("xla: matrices of %s are not packed", dtype)
	}
	return cpukernel.Pack(packedBytes, matrix, d, out, in, gateUp)
}
