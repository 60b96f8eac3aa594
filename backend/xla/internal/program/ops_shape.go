package program

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// This file has the operations that move data, the dot product and random bits. Each method implements the one of
// [compute.Function] of its name.

func (f *Function) Reshape(x compute.Value, dims ...int) (compute.Value, error) {
	return f.unary(compute.OpTypeReshape, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return stablehlo.Reshape(v, xlashapes.Make(v.Shape().DType, slices.Clone(dims)...))
	}, x)
}

func (f *Function) Transpose(x compute.Value, permutation ...int) (compute.Value, error) {
	return f.unary(compute.OpTypeTranspose, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return stablehlo.Transpose(v, slices.Clone(permutation)...)
	}, x)
}

func (f *Function) BroadcastInDim(x compute.Value, shape shapes.Shape, axes []int) (compute.Value, error) {
	return f.unary(compute.OpTypeBroadcastInDim, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return stablehlo.BroadcastInDim(v, ToXLA(shape), axes)
	}, x)
}

func (f *Function) Iota(shape shapes.Shape, axis int) (compute.Value, error) {
	if f.returned {
		return nil, f.fail(compute.OpTypeIota, errReturned)
	}
	v, err := f.fn.Iota(ToXLA(shape), axis)
	return f.result(compute.OpTypeIota, v, err)
}

func (f *Function) Slice(x compute.Value, starts, limits, strides []int) (compute.Value, error) {
	return f.unary(compute.OpTypeSlice, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return stablehlo.Slice(v, starts, limits, strides)
	}, x)
}

// scalarStarts returns one scalar per axis: the values themselves, or the elements of a single vector.
func scalarStarts(indices []*stablehlo.Value, rank int) ([]*stablehlo.Value, error) {
	if len(indices) != 1 || indices[0].Shape().Rank() != 1 {
		return indices, nil
	}
	scalars := make([]*stablehlo.Value, rank)
	for i := range scalars {
		v, err := stablehlo.Slice(indices[0], []int{i}, []int{i + 1}, nil)
		if err != nil {
			return nil, err
		}
		if scalars[i], err = stablehlo.Reshape(v, xlashapes.Make(v.Shape().DType)); err != nil {
			return nil, err
		}
	}
	return scalars, nil
}

func (f *Function) DynamicSlice(operand compute.Value, startIndices []compute.Value, dims []int) (compute.Value,
	error) {
	op := compute.OpTypeDynamicSlice
	vs, err := f.useAll(append([]compute.Value{operand}, startIndices...))
	if err != nil {
		return nil, f.fail(op, err)
	}
	starts, err := scalarStarts(vs[1:], vs[0].Shape().Rank())
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := stablehlo.DynamicSlice(vs[0], starts, dims)
	return f.result(op, out, err)
}

func (f *Function) DynamicUpdateSlice(operand, update compute.Value, startIndices []compute.Value) (compute.Value,
	error) {
	op := compute.OpTypeDynamicUpdateSlice
	vs, err := f.useAll(append([]compute.Value{operand, update}, startIndices...))
	if err != nil {
		return nil, f.fail(op, err)
	}
	starts, err := scalarStarts(vs[2:], vs[0].Shape().Rank())
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := stablehlo.DynamicUpdateSlice(vs[0], vs[1], starts)
	return f.result(op, out, err)
}

func (f *Function) Concatenate(axis int, operands ...compute.Value) (compute.Value, error) {
	op := compute.OpTypeConcatenate
	vs, err := f.useAll(operands)
	if err != nil {
		return nil, f.fail(op, err)
	}
	if len(vs) == 1 {
		return f.node(vs[0]), nil
	}
	out, err := stablehlo.Concatenate(axis, vs...)
	return f.result(op, out, err)
}

func (f *Function) Pad(x, fill compute.Value, config ...compute.PadAxis) (compute.Value, error) {
	op := compute.OpTypePad
	vs, err := f.useAll([]compute.Value{x, fill})
	if err != nil {
		return nil, f.fail(op, err)
	}
	rank := vs[0].Shape().Rank()
	if len(config) > rank {
		return nil, f.fail(op, fmt.Errorf("%d axes are to be padded, of %d", len(config), rank))
	}
	if rank == 0 {
		return f.node(vs[0]), nil
	}
	low, high, between := make([]int, rank), make([]int, rank), make([]int, rank)
	for i, c := range config {
		low[i], high[i], between[i] = c.Start, c.End, c.Interior
	}
	out, err := stablehlo.Pad(vs[0], vs[1], low, high, between)
	return f.result(op, out, err)
}

func (f *Function) Reverse(x compute.Value, axes ...int) (compute.Value, error) {
	return f.unary(compute.OpTypeReverse, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		if len(axes) == 0 {
			return v, nil
		}
		return stablehlo.Reverse(v, slices.Clone(axes)...)
	}, x)
}

func (f *Function) Gather(operand, indices compute.Value, indexVectorAxis int, offsetAxes, collapsedAxes, startIndexMap,
	sliceSizes []int, sorted bool) (compute.Value, error) {
	op := compute.OpTypeGather
	vs, err := f.useAll([]compute.Value{operand, indices})
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := stablehlo.Gather(vs[0], vs[1], indexVectorAxis, offsetAxes, collapsedAxes, nil, nil, startIndexMap,
		sliceSizes, sorted)
	return f.result(op, out, err)
}

// DotGeneral computes in the accumulator's dtype and returns the output's; both default to the operands'. A wider
// accumulator of the same kind (bfloat16 to float32, int8 to int32) is the result type of the dot itself; for any other
// the operands are converted first.
func (f *Function) DotGeneral(lhs compute.Value, lhsContracting, lhsBatch []int, rhs compute.Value, rhsContracting,
	rhsBatch []int, config compute.DotGeneralConfig) (compute.Value, error) {
	op := compute.OpTypeDotGeneral
	vs, err := f.useAll([]compute.Value{lhs, rhs})
	if err != nil {
		return nil, f.fail(op, err)
	}
	l, r := vs[0], vs[1]
	in := l.Shape().DType
	if r.Shape().DType != in {
		return nil, f.fail(op, fmt.Errorf("the operands have dtypes %s and %s", in, r.Shape().DType))
	}
	acc, output := config.AccumulatorDType, config.OutputDType
	if output == dtypes.InvalidDType {
		output = in
	}
	if acc == dtypes.InvalidDType {
		acc = in
		if widens(in, output) {
			acc = output
		}
	}
	if acc != in && !widens(in, acc) {
		if l, err = stablehlo.Convert(l, acc); err != nil {
			return nil, f.fail(op, err)
		}
		if r, err = stablehlo.Convert(r, acc); err != nil {
			return nil, f.fail(op, err)
		}
	}
	dot := stablehlo.DotGeneral(l, lhsContracting, lhsBatch, r, rhsContracting, rhsBatch).OutputDType(acc)
	if f.b.target.Platform != "cpu" && l.Shape().DType == dtypes.Float32 {
		// GPUs and TPUs would otherwise round the operands to shorter mantissas.
		dot.Precision(types.DotGeneralPrecisionHighest, types.DotGeneralPrecisionHighest)
	}
	out, err := dot.Done()
	if err == nil && acc != output {
		out, err = stablehlo.Convert(out, output)
	}
	return f.result(op, out, err)
}

// widens reports whether a dot of dtype in may accumulate in acc by itself.
func widens(in, acc dtypes.DType) bool {
	switch acc {
	case dtypes.Float32:
		return in == dtypes.BFloat16 || in == dtypes.Float16
	case dtypes.Int32:
		return in == dtypes.Int8
	default:
		return false
	}
}

// RNGBitGenerator uses the Philox algorithm.
func (f *Function) RNGBitGenerator(state compute.Value, shape shapes.Shape) (newState, values compute.Value,
	err error) {
	op := compute.OpTypeRNGBitGenerator
	v, err := f.use(state)
	if err != nil {
		return nil, nil, f.fail(op, err)
	}
	s, out, err := stablehlo.RNGBitGenerator(v, ToXLA(shape), types.RNGPhilox)
	if err != nil {
		return nil, nil, f.fail(op, err)
	}
	return f.node(s), f.node(out), nil
}
