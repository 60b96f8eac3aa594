package program

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// This file has reductions, scatters and their combiners. Each exported method implements the one of [compute.Function]
// of its name.

// takeSecond is the combiner of a scatter that sets.
const takeSecond = compute.OpTypeInvalid

// reductions maps a reduction to its combiner and its neutral element.
var reductions = map[compute.OpType]struct {
	combine func(l, r *stablehlo.Value) (*stablehlo.Value, error)
	neutral func(dtypes.DType) (any, error)
}{
	compute.OpTypeReduceSum:        {stablehlo.Add, zero},
	compute.OpTypeReduceProduct:    {stablehlo.Multiply, one},
	compute.OpTypeReduceMax:        {stablehlo.Maximum, lowest},
	compute.OpTypeReduceMin:        {stablehlo.Minimum, highest},
	compute.OpTypeReduceBitwiseAnd: {stablehlo.And, allBits},
	compute.OpTypeReduceBitwiseOr:  {stablehlo.Or, zero},
	compute.OpTypeReduceBitwiseXor: {stablehlo.Xor, zero},
	compute.OpTypeReduceLogicalAnd: {stablehlo.And, allBits},
	compute.OpTypeReduceLogicalOr:  {stablehlo.Or, zero},
	compute.OpTypeReduceLogicalXor: {stablehlo.Xor, zero},
	takeSecond:                     {func(_, r *stablehlo.Value) (*stablehlo.Value, error) { return r, nil }, zero},
}

func zero(d dtypes.DType) (any, error) { return numeral(d, 0) }

func one(d dtypes.DType) (any, error) { return numeral(d, 1) }

func lowest(d dtypes.DType) (any, error) { return ordered(d, d.LowestValue()) }

func highest(d dtypes.DType) (any, error) { return ordered(d, d.HighestValue()) }

func ordered(d dtypes.DType, v any) (any, error) {
	if v == nil {
		return nil, fmt.Errorf("dtype %s has no order", d)
	}
	return v, nil
}

func allBits(d dtypes.DType) (any, error) {
	if d.IsUnsigned() || d == dtypes.Bool {
		return highest(d)
	}
	return numeral(d, -1)
}

// combiner returns the body that combines two scalars, as a closure of f.
func (f *Function) combiner(r reducer) (*stablehlo.Function, error) {
	if body := f.reducers[r]; body != nil {
		return body, nil
	}
	body := f.fn.Closure()
	var in [2]*stablehlo.Value
	for i := range in {
		v, err := body.NamedInput(fmt.Sprintf("in%d", f.b.inputs), xlashapes.Make(r.dtype))
		if err != nil {
			return nil, err
		}
		f.b.inputs++
		in[i] = v
	}
	out, err := reductions[r.op].combine(in[0], in[1])
	if err != nil {
		return nil, err
	}
	if err := body.Return(out); err != nil {
		return nil, err
	}
	f.reducers[r] = body
	return body, nil
}

// combinerAndNeutral returns the body of a reduction and its neutral element as a constant.
func (f *Function) combinerAndNeutral(op compute.OpType, d dtypes.DType) (*stablehlo.Function, *stablehlo.Value,
	error) {
	body, err := f.combiner(reducer{op, d})
	if err != nil {
		return nil, nil, err
	}
	neutral, err := reductions[op].neutral(d)
	if err != nil {
		return nil, nil, err
	}
	v, err := f.EmitScalar(neutral)
	return body, v, err
}

// reduce emits the reduction op of v along the axes, all of them if none are given.
func (f *Function) reduce(op compute.OpType, v *stablehlo.Value, axes ...int) (*stablehlo.Value, error) {
	rank := v.Shape().Rank()
	if rank == 0 {
		return v, nil
	}
	along, err := allOf(axes, rank)
	if err != nil {
		return nil, err
	}
	body, neutral, err := f.combinerAndNeutral(op, v.Shape().DType)
	if err != nil {
		return nil, err
	}
	return stablehlo.Reduce(v, neutral, body, along...)
}

// allOf returns the axes counted from the front, or all of them if none are given.
func allOf(axes []int, rank int) ([]int, error) {
	if len(axes) == 0 {
		all := make([]int, rank)
		for i := range all {
			all[i] = i
		}
		return all, nil
	}
	axes = slices.Clone(axes)
	for i, axis := range axes {
		if axis < -rank || axis >= rank {
			return nil, fmt.Errorf("there is no axis %d in %d axes", axis, rank)
		}
		axes[i] = (axis + rank) % rank
	}
	return axes, nil
}

func (f *Function) reduction(op compute.OpType, x compute.Value, axes []int) (compute.Value, error) {
	return f.unary(op, func(v *stablehlo.Value) (*stablehlo.Value, error) { return f.reduce(op, v, axes...) }, x)
}

// logicalReduction is a reduction of truth values: of bools only, as operands of other dtypes would be combined bit by
// bit.
func (f *Function) logicalReduction(op compute.OpType, x compute.Value, axes []int) (compute.Value, error) {
	return f.unary(op, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		if d := v.Shape().DType; d != dtypes.Bool {
			return nil, fmt.Errorf("the operand has dtype %s, not bool", d)
		}
		return f.reduce(op, v, axes...)
	}, x)
}

func (f *Function) ReduceSum(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceSum, x, axes)
}

func (f *Function) ReduceProduct(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceProduct, x, axes)
}

func (f *Function) ReduceMax(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceMax, x, axes)
}

func (f *Function) ReduceMin(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceMin, x, axes)
}

func (f *Function) ReduceBitwiseAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceBitwiseAnd, x, axes)
}

func (f *Function) ReduceBitwiseOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceBitwiseOr, x, axes)
}

func (f *Function) ReduceBitwiseXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.reduction(compute.OpTypeReduceBitwiseXor, x, axes)
}

func (f *Function) ReduceLogicalAnd(x compute.Value, axes ...int) (compute.Value, error) {
	return f.logicalReduction(compute.OpTypeReduceLogicalAnd, x, axes)
}

func (f *Function) ReduceLogicalOr(x compute.Value, axes ...int) (compute.Value, error) {
	return f.logicalReduction(compute.OpTypeReduceLogicalOr, x, axes)
}

func (f *Function) ReduceLogicalXor(x compute.Value, axes ...int) (compute.Value, error) {
	return f.logicalReduction(compute.OpTypeReduceLogicalXor, x, axes)
}

func (f *Function) ReduceWindow(x compute.Value, kind compute.ReduceOpType, window, strides, inputDilations,
	windowDilations []int, paddings [][2]int) (compute.Value, error) {
	return f.unary(compute.OpTypeReduceWindow, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		op, ok := map[compute.ReduceOpType]compute.OpType{
			compute.ReduceOpSum: compute.OpTypeReduceSum, compute.ReduceOpProduct: compute.OpTypeReduceProduct,
			compute.ReduceOpMax: compute.OpTypeReduceMax, compute.ReduceOpMin: compute.OpTypeReduceMin,
		}[kind]
		if !ok {
			return nil, fmt.Errorf("reduction %s: %w", kind, compute.ErrNotImplemented)
		}
		body, neutral, err := f.combinerAndNeutral(op, v.Shape().DType)
		if err != nil {
			return nil, err
		}
		return stablehlo.ReduceWindow(v, neutral, body, window, strides, inputDilations, windowDilations, paddings)
	}, x)
}

// scatter describes the axes of a scatter, as StableHLO names them.
type scatter struct {
	indexVectorAxis                       int
	windowAxes, insertedAxes, operandAxes []int
	sorted, unique                        bool
}

// emitScatter combines updates into operand at the indices.
func (f *Function) emitScatter(combine compute.OpType, operand, indices, updates *stablehlo.Value,
	s scatter) (*stablehlo.Value, error) {
	body, err := f.combiner(reducer{combine, operand.Shape().DType})
	if err != nil {
		return nil, err
	}
	return stablehlo.Scatter(operand, indices, updates, s.windowAxes, s.insertedAxes, nil, nil, s.operandAxes,
		s.indexVectorAxis, s.sorted, s.unique, body)
}

func (f *Function) scatter(op, combine compute.OpType, operand, indices, updates compute.Value,
	s scatter) (compute.Value, error) {
	vs, err := f.useAll([]compute.Value{operand, indices, updates})
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := f.emitScatter(combine, vs[0], vs[1], vs[2], s)
	return f.result(op, out, err)
}

func (f *Function) ScatterSum(operand, indices, updates compute.Value, indexVectorAxis int, windowAxes, insertedAxes,
	operandAxes []int, sorted, unique bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterSum, compute.OpTypeReduceSum, operand, indices, updates,
		scatter{indexVectorAxis, windowAxes, insertedAxes, operandAxes, sorted, unique})
}

func (f *Function) ScatterMax(operand, indices, updates compute.Value, indexVectorAxis int, windowAxes, insertedAxes,
	operandAxes []int, sorted, unique bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMax, compute.OpTypeReduceMax, operand, indices, updates,
		scatter{indexVectorAxis, windowAxes, insertedAxes, operandAxes, sorted, unique})
}

func (f *Function) ScatterMin(operand, indices, updates compute.Value, indexVectorAxis int, windowAxes, insertedAxes,
	operandAxes []int, sorted, unique bool) (compute.Value, error) {
	return f.scatter(compute.OpTypeScatterMin, compute.OpTypeReduceMin, operand, indices, updates,
		scatter{indexVectorAxis, windowAxes, insertedAxes, operandAxes, sorted, unique})
}
