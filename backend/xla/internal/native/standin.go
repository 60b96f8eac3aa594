package native

import (
	"fmt"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/mosaic"
)

// StandIn returns what computes a TPU kernel's call elsewhere: a StableHLO module, as text, whose function main takes
// the call's operands and gives its results. scripts/kernels/arrays.py lowers the kernels to such modules.
type StandIn func(call *mosaic.Call) (module string, err error)

// call emits the call of the function that replaces the kernel.
func (stand StandIn) call(f *program.Function, call *mosaic.Call, operands []*stablehlo.Value) (
	[]*stablehlo.Value, error) {
	key := call.BackendConfig // which has the kernel's sizes
	if p := f.Program(); !p.HasModule(key) {
		module, err := stand(call)
		if err != nil {
			return nil, err
		}
		if err := p.AddModule(key, module); err != nil {
			return nil, fmt.Errorf("what stands in for kernel %s: %w", call.Payload.Kernel, err)
		}
	}
	var inputs, outputs []shapes.Shape
	for _, t := range call.Operands {
		inputs = append(inputs, t.Shape)
	}
	for _, t := range call.Results {
		outputs = append(outputs, t.Shape)
	}
	return program.CallModule(f, key, inputs, outputs, operands)
}
