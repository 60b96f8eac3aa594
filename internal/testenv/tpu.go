package testenv

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/mosaic"
)

// TPUOnCPU returns a backend that builds programs as for a TPU and runs them on virtual CPU devices. The kernels in
// them are the published ones, lowered to ordinary operations: scripts/kernels/arrays.py made them, for the shapes
// that it lists. kernels is as in xla.Options.
func TPUOnCPU(t testing.TB, kernels string, devices int) *xla.Backend {
	t.Helper()
	return ownXLA(t, devices, xla.Options{Kernels: kernels, StandIn: tpuKernels(t)})
}

// tpuKernels loads the lowered kernels.
func tpuKernels(t testing.TB) xla.StandIn {
	var kernels []struct {
		Kernel   string
		Versions map[string]string
		Config   mosaic.Config
		Blocks   mosaic.Blocks
		Operands [][2]any // dtype and dimensions
		Module   string
	}
	ReadGolden(t, "tpu_kernels", &kernels)
	return func(call *mosaic.Call) (string, error) {
		p := call.Payload
		blocks := p.Blocks
		blocks.VMEMLimit = 0
		var operands []string
		for _, o := range call.Operands {
			operands = append(operands, fmt.Sprint(mosaic.DTypeName(o.Shape.DType), o.Shape.Dimensions))
		}
		for _, k := range kernels {
			var has []string
			for _, o := range k.Operands {
				has = append(has, fmt.Sprint(o[0], o[1]))
			}
			if k.Kernel != p.Kernel || k.Config != p.Config || k.Blocks != blocks || !slices.Equal(has, operands) {
				continue
			}
			for name, version := range k.Versions {
				if p.Versions[name] != version {
					return "", fmt.Errorf("kernel %s is of %s %s, what stands in for it of %s", p.Kernel, name,
						p.Versions[name], version)
				}
			}
			return k.Module, nil
		}
		return "", fmt.Errorf("nothing stands in for kernel %s of %s, blocks %+v, operands %v: "+
			"add the shape to scripts/kernels/arrays.py", p.Kernel, p.Config, blocks, operands)
	}
}
