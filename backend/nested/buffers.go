package nested

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
)

// buffer names the wrapper as its backend: GoMLX refuses a tensor that one backend made as the input of another.
type buffer struct {
	compute.Buffer
	backend backend
}

func (b buffer) Backend() compute.Backend { return b.backend }

func (b backend) own(inner compute.Buffer, err error) (compute.Buffer, error) {
	if err != nil {
		return nil, err
	}
	return buffer{inner, b}, nil
}

func (b backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	return b.own(b.Backend.BufferFromFlatData(device, flat, shape))
}

func (b backend) NewSharedBuffer(device compute.DeviceNum, shape shapes.Shape) (compute.Buffer, any, error) {
	inner, flat, err := b.Backend.NewSharedBuffer(device, shape)
	shared, err := b.own(inner, err)
	return shared, flat, err
}

func (b buffer) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	return b.backend.own(b.Buffer.CopyToDevice(device))
}

func (b *builder) Compile() (compute.Executable, error) {
	e, err := b.Builder.Compile()
	if err != nil {
		return nil, err
	}
	return executable{e, b.backend}, nil
}

type executable struct {
	compute.Executable
	backend backend
}

func (e executable) Execute(inputs []compute.Buffer, donate []bool, device compute.DeviceNum) ([]compute.Buffer,
	error) {
	theirs := make([]compute.Buffer, len(inputs))
	for i, in := range inputs {
		theirs[i] = in
		if ours, ok := in.(buffer); ok {
			theirs[i] = ours.Buffer
		}
	}
	outputs, err := e.Executable.Execute(theirs, donate, device)
	if err != nil {
		return nil, err
	}
	for i, out := range outputs {
		outputs[i] = buffer{out, e.backend}
	}
	return outputs, nil
}
