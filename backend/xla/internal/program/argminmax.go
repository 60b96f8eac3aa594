package program

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// ArgMinMax implements [compute.Function]. It emits two reductions that vectorize, instead of one over pairs that does
// not: the extreme value, then the least index that has it. A NaN comes before any value. Whether a NaN makes the
// extreme NaN depends on the platform, so NaNs are found separately.
func (f *Function) ArgMinMax(x compute.Value, axis int, outputDType dtypes.DType, isMin bool) (compute.Value, error) {
	return f.unary(compute.OpTypeArgMinMax, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return argMinMax(f, v, axis, outputDType, isMin)
	}, x)
}

func argMinMax(f *Function, v *stablehlo.Value, axis int, outputDType dtypes.DType, isMin bool) (*stablehlo.Value,
	error) {
	s := v.Shape()
	axes, err := allOf([]int{axis}, s.Rank())
	if err != nil {
		return nil, err
	}
	axis = axes[0]
	if s.Dimensions[axis] == 0 {
		return nil, fmt.Errorf("axis %d of %s is empty", axis, s)
	}
	op := compute.OpTypeReduceMax
	if isMin {
		op = compute.OpTypeReduceMin
	}
	extreme, err := f.reduce(op, v, axis)
	if err != nil {
		return nil, err
	}
	var kept []int
	for i := range s.Rank() {
		if i != axis {
			kept = append(kept, i)
		}
	}
	if extreme, err = stablehlo.BroadcastInDim(extreme, s, kept); err != nil {
		return nil, err
	}
	index, err := f.fn.Iota(xlashapes.Make(dtypes.Int32, slices.Clone(s.Dimensions)...), axis)
	if err != nil {
		return nil, err
	}
	// The candidates: the index if the value is the extreme, else the last index; for a NaN, the index minus the size.
	size := int32(s.Dimensions[axis])
	last, err := filled(f, size-1, s.Dimensions)
	if err != nil {
		return nil, err
	}
	mark, err := stablehlo.Compare(v, extreme, types.CompareEQ, comparisonOf(s.DType))
	if err != nil {
		return nil, err
	}
	candidate, err := stablehlo.Select(mark, index, last)
	if err != nil {
		return nil, err
	}
	if s.DType.IsFloat() {
		if candidate, err = preferNaN(f, v, index, candidate, size); err != nil {
			return nil, err
		}
	}
	best, err := f.reduce(compute.OpTypeReduceMin, candidate, axis)
	if err != nil {
		return nil, err
	}
	if s.DType.IsFloat() { // undo the subtraction
		if best, err = wrapNegative(f, best, size); err != nil {
			return nil, err
		}
	}
	if outputDType == dtypes.Int32 {
		return best, nil
	}
	return stablehlo.Convert(best, outputDType)
}

// preferNaN replaces the candidates of NaNs in v by index - size, which is below every index.
func preferNaN(f *Function, v, index, candidate *stablehlo.Value, size int32) (*stablehlo.Value, error) {
	nan, err := stablehlo.Compare(v, v, types.CompareNE, types.CompareFloat)
	if err != nil {
		return nil, err
	}
	all, err := filled(f, size, v.Shape().Dimensions)
	if err != nil {
		return nil, err
	}
	below, err := stablehlo.Subtract(index, all)
	if err != nil {
		return nil, err
	}
	return stablehlo.Select(nan, below, candidate)
}

// wrapNegative adds size to the negative elements of v.
func wrapNegative(f *Function, v *stablehlo.Value, size int32) (*stablehlo.Value, error) {
	zeros, err := filled(f, 0, v.Shape().Dimensions)
	if err != nil {
		return nil, err
	}
	all, err := filled(f, size, v.Shape().Dimensions)
	if err != nil {
		return nil, err
	}
	sum, err := stablehlo.Add(v, all)
	if err != nil {
		return nil, err
	}
	negative, err := stablehlo.Compare(v, zeros, types.CompareLT, types.CompareSigned)
	if err != nil {
		return nil, err
	}
	return stablehlo.Select(negative, sum, v)
}

// filled emits an int32 array of one value.
func filled(f *Function, value int32, dims []int) (*stablehlo.Value, error) {
	v, err := f.EmitScalar(value)
	if err != nil {
		return nil, err
	}
	return stablehlo.BroadcastInDim(v, xlashapes.Make(dtypes.Int32, slices.Clone(dims)...), nil)
}
