package program

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"
)

// This file has the operations that work element by element. Each method implements the one of [compute.Function] of
// its name.

// unary emits an operation of one operand.
func (f *Function) unary(op compute.OpType, emit func(*stablehlo.Value) (*stablehlo.Value, error),
	x compute.Value) (compute.Value, error) {
	v, err := f.use(x)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := emit(v)
	return f.result(op, out, err)
}

// binary emits an operation of two operands, broadcast to each other first.
func (f *Function) binary(op compute.OpType, emit func(l, r *stablehlo.Value) (*stablehlo.Value, error), lhs,
	rhs compute.Value) (compute.Value, error) {
	l, r, err := f.broadcastPair(lhs, rhs)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := emit(l, r)
	return f.result(op, out, err)
}

// broadcastPair gives both operands one shape: a scalar takes the other's, else axes of size 1 grow.
func (f *Function) broadcastPair(lhs, rhs compute.Value) (l, r *stablehlo.Value, err error) {
	if l, err = f.use(lhs); err != nil {
		return nil, nil, err
	}
	if r, err = f.use(rhs); err != nil {
		return nil, nil, err
	}
	a, b := FromXLA(l.Shape()), FromXLA(r.Shape())
	if a.DType != b.DType {
		return nil, nil, fmt.Errorf("the operands have dtypes %s and %s", a.DType, b.DType)
	}
	var dims []int
	switch {
	case a.IsScalar():
		dims = b.Dimensions
	case b.IsScalar():
		dims = a.Dimensions
	case a.Rank() != b.Rank():
		return nil, nil, fmt.Errorf("shapes %s and %s have different ranks", a, b)
	default:
		dims = make([]int, a.Rank())
		for i := range dims {
			x, y := a.Dimensions[i], b.Dimensions[i]
			if x != y && x != 1 && y != 1 {
				return nil, nil, fmt.Errorf("shapes %s and %s differ in axis %d", a, b, i)
			}
			if dims[i] = x; x == 1 {
				dims[i] = y
			}
		}
	}
	if l, err = broadcastTo(l, dims); err != nil {
		return nil, nil, err
	}
	r, err = broadcastTo(r, dims)
	return l, r, err
}

// broadcastTo broadcasts a scalar, or a value of the same rank with axes of size 1, to the dimensions.
func broadcastTo(v *stablehlo.Value, dims []int) (*stablehlo.Value, error) {
	s := v.Shape()
	if slices.Equal(s.Dimensions, dims) {
		return v, nil
	}
	axes := make([]int, s.Rank())
	for i := range axes {
		axes[i] = i
	}
	return stablehlo.BroadcastInDim(v, ToXLA(shapes.Make(s.DType, dims...)), axes)
}

// compare emits a comparison.
func (f *Function) compare(op compute.OpType, direction types.ComparisonDirection, total bool, lhs,
	rhs compute.Value) (compute.Value, error) {
	return f.binary(op, func(l, r *stablehlo.Value) (*stablehlo.Value, error) {
		kind := comparisonOf(l.Shape().DType)
		if total && l.Shape().DType.IsFloat() {
			kind = types.CompareTotalOrder
		}
		return stablehlo.Compare(l, r, direction, kind)
	}, lhs, rhs)
}

func comparisonOf(d dtypes.DType) types.ComparisonType {
	switch {
	case d.IsFloat() || d.IsComplex():
		return types.CompareFloat
	case d.IsUnsigned() || d == dtypes.Bool:
		return types.CompareUnsigned
	default:
		return types.CompareSigned
	}
}

// IsNaN: only a NaN differs from itself.
func (f *Function) IsNaN(x compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeIsNaN, types.CompareNE, false, x, x)
}

func (f *Function) Conj(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeConj, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		re, err := stablehlo.Real(v)
		if err != nil {
			return nil, err
		}
		im, err := stablehlo.Imag(v)
		if err != nil {
			return nil, err
		}
		if im, err = stablehlo.Negate(im); err != nil {
			return nil, err
		}
		return stablehlo.Complex(re, im)
	}, x)
}

func (f *Function) Identity(x compute.Value) (compute.Value, error) {
	v, err := f.use(x)
	return f.result(compute.OpTypeIdentity, v, err)
}

func (f *Function) Clamp(low, x, high compute.Value) (compute.Value, error) {
	vs, err := f.useAll([]compute.Value{low, x, high})
	if err != nil {
		return nil, f.fail(compute.OpTypeClamp, err)
	}
	out, err := stablehlo.Clamp(vs[0], vs[1], vs[2])
	return f.result(compute.OpTypeClamp, out, err)
}

// Where broadcasts whichever operands are scalars.
func (f *Function) Where(condition, onTrue, onFalse compute.Value) (compute.Value, error) {
	op := compute.OpTypeWhere
	vs, err := f.useAll([]compute.Value{condition, onTrue, onFalse})
	if err != nil {
		return nil, f.fail(op, err)
	}
	var dims []int
	for _, v := range vs {
		if v.Shape().Rank() > 0 {
			dims = v.Shape().Dimensions
		}
	}
	for i, v := range vs {
		if i == 0 || v.Shape().Rank() > 0 { // a scalar condition needs no broadcast
			continue
		}
		if vs[i], err = broadcastTo(v, dims); err != nil {
			return nil, f.fail(op, err)
		}
	}
	out, err := stablehlo.Select(vs[0], vs[1], vs[2])
	return f.result(op, out, err)
}

func (f *Function) ConvertDType(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	return f.unary(compute.OpTypeConvertDType, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		if v.Shape().DType == dtype {
			return v, nil
		}
		return stablehlo.Convert(v, dtype)
	}, x)
}

func (f *Function) Bitcast(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	return f.unary(compute.OpTypeBitcast, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return stablehlo.BitcastConvert(v, dtype)
	}, x)
}

func (f *Function) Abs(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeAbs, stablehlo.Abs, x)
}

func (f *Function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, stablehlo.Popcnt, x)
}

func (f *Function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, stablehlo.Not, x)
}

func (f *Function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, stablehlo.Ceil, x)
}

func (f *Function) Clz(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeClz, stablehlo.CountLeadingZeros, x)
}

func (f *Function) Cos(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCos, stablehlo.Cosine, x)
}

func (f *Function) Erf(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeErf, stablehlo.Erf, x)
}

func (f *Function) Exp(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExp, stablehlo.Exponential, x)
}

func (f *Function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, stablehlo.ExponentialMinusOne, x)
}

func (f *Function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, stablehlo.Floor, x)
}

func (f *Function) Imag(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeImag, stablehlo.Imag, x)
}

func (f *Function) IsFinite(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeIsFinite, stablehlo.IsFinite, x)
}

func (f *Function) Log(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog, stablehlo.Log, x)
}

func (f *Function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, stablehlo.LogPlusOne, x)
}

func (f *Function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, stablehlo.Not, x)
}

func (f *Function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, stablehlo.Logistic, x)
}

func (f *Function) Neg(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeNeg, stablehlo.Negate, x)
}

func (f *Function) Real(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeReal, stablehlo.Real, x)
}

func (f *Function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, stablehlo.RoundNearestEven, x)
}

func (f *Function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, stablehlo.Rsqrt, x)
}

func (f *Function) Sign(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSign, stablehlo.Sign, x)
}

func (f *Function) Sin(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSin, stablehlo.Sine, x)
}

func (f *Function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, stablehlo.Sqrt, x)
}

func (f *Function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, stablehlo.Tanh, x)
}

func (f *Function) Add(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, stablehlo.Add, l, r)
}

func (f *Function) Atan2(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, stablehlo.Atan2, l, r)
}

func (f *Function) BitwiseAnd(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, stablehlo.And, l, r)
}

func (f *Function) BitwiseOr(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, stablehlo.Or, l, r)
}

func (f *Function) BitwiseXor(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, stablehlo.Xor, l, r)
}

func (f *Function) Complex(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeComplex, stablehlo.Complex, l, r)
}

func (f *Function) Div(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, stablehlo.Divide, l, r)
}

func (f *Function) LogicalAnd(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, stablehlo.And, l, r)
}

func (f *Function) LogicalOr(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, stablehlo.Or, l, r)
}

func (f *Function) LogicalXor(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, stablehlo.Xor, l, r)
}

func (f *Function) Max(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, stablehlo.Maximum, l, r)
}

func (f *Function) Min(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, stablehlo.Minimum, l, r)
}

func (f *Function) Mul(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, stablehlo.Multiply, l, r)
}

func (f *Function) Pow(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, stablehlo.Power, l, r)
}

func (f *Function) Rem(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, stablehlo.Remainder, l, r)
}

func (f *Function) ShiftLeft(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, stablehlo.ShiftLeft, l, r)
}

func (f *Function) ShiftRightArithmetic(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, stablehlo.ShiftRightArithmetic, l, r)
}

func (f *Function) ShiftRightLogical(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, stablehlo.ShiftRightLogical, l, r)
}

func (f *Function) Sub(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, stablehlo.Subtract, l, r)
}

func (f *Function) Equal(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, types.CompareEQ, false, l, r)
}

func (f *Function) EqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqualTotalOrder, types.CompareEQ, true, l, r)
}

func (f *Function) NotEqual(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, types.CompareNE, false, l, r)
}

func (f *Function) NotEqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqualTotalOrder, types.CompareNE, true, l, r)
}

func (f *Function) GreaterThan(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, types.CompareGT, false, l, r)
}

func (f *Function) GreaterThanTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThanTotalOrder, types.CompareGT, true, l, r)
}

func (f *Function) GreaterOrEqual(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, types.CompareGE, false, l, r)
}

func (f *Function) GreaterOrEqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqualTotalOrder, types.CompareGE, true, l, r)
}

func (f *Function) LessThan(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, types.CompareLT, false, l, r)
}

func (f *Function) LessThanTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThanTotalOrder, types.CompareLT, true, l, r)
}

func (f *Function) LessOrEqual(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, types.CompareLE, false, l, r)
}

func (f *Function) LessOrEqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqualTotalOrder, types.CompareLE, true, l, r)
}
