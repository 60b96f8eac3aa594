package xla

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
func (f *function) unary(op compute.OpType, emit func(*stablehlo.Value) (*stablehlo.Value, error),
	x compute.Value) (compute.Value, error) {
	v, err := f.use(x)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := emit(v)
	return f.result(op, out, err)
}

// binary emits an operation of two operands, broadcast to each other first.
func (f *function) binary(op compute.OpType, emit func(l, r *stablehlo.Value) (*stablehlo.Value, error), lhs,
	rhs compute.Value) (compute.Value, error) {
	l, r, err := f.broadcastPair(lhs, rhs)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := emit(l, r)
	return f.result(op, out, err)
}

// broadcastPair gives both operands one shape: a scalar takes the other's, else axes of size 1 grow.
func (f *function) broadcastPair(lhs, rhs compute.Value) (l, r *stablehlo.Value, err error) {
	if l, err = f.use(lhs); err != nil {
		return nil, nil, err
	}
	if r, err = f.use(rhs); err != nil {
		return nil, nil, err
	}
	a, b := fromXLA(l.Shape()), fromXLA(r.Shape())
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
	if l, err = f.broadcastTo(l, dims); err != nil {
		return nil, nil, err
	}
	r, err = f.broadcastTo(r, dims)
	return l, r, err
}

// broadcastTo broadcasts a scalar, or a value of the same rank with axes of size 1, to the dimensions.
func (f *function) broadcastTo(v *stablehlo.Value, dims []int) (*stablehlo.Value, error) {
	s := v.Shape()
	if slices.Equal(s.Dimensions, dims) {
		return v, nil
	}
	axes := make([]int, s.Rank())
	for i := range axes {
		axes[i] = i
	}
	return stablehlo.BroadcastInDim(v, toXLA(shapes.Make(s.DType, dims...)), axes)
}

// compare emits a comparison.
func (f *function) compare(op compute.OpType, direction types.ComparisonDirection, total bool, lhs,
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
func (f *function) IsNaN(x compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeIsNaN, types.CompareNE, false, x, x)
}

func (f *function) Conj(x compute.Value) (compute.Value, error) {
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

func (f *function) Identity(x compute.Value) (compute.Value, error) {
	v, err := f.use(x)
	return f.result(compute.OpTypeIdentity, v, err)
}

func (f *function) Clamp(low, x, high compute.Value) (compute.Value, error) {
	vs, err := f.useAll([]compute.Value{low, x, high})
	if err != nil {
		return nil, f.fail(compute.OpTypeClamp, err)
	}
	out, err := stablehlo.Clamp(vs[0], vs[1], vs[2])
	return f.result(compute.OpTypeClamp, out, err)
}

// Where broadcasts whichever operands are scalars.
func (f *function) Where(condition, onTrue, onFalse compute.Value) (compute.Value, error) {
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
		if vs[i], err = f.broadcastTo(v, dims); err != nil {
			return nil, f.fail(op, err)
		}
	}
	out, err := stablehlo.Select(vs[0], vs[1], vs[2])
	return f.result(op, out, err)
}

func (f *function) ConvertDType(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	return f.unary(compute.OpTypeConvertDType, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		if v.Shape().DType == dtype {
			return v, nil
		}
		return stablehlo.Convert(v, dtype)
	}, x)
}

func (f *function) Bitcast(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	return f.unary(compute.OpTypeBitcast, func(v *stablehlo.Value) (*stablehlo.Value, error) {
		return stablehlo.BitcastConvert(v, dtype)
	}, x)
}

func (f *function) Abs(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeAbs, stablehlo.Abs, x)
}

func (f *function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, stablehlo.Popcnt, x)
}

func (f *function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, stablehlo.Not, x)
}

func (f *function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, stablehlo.Ceil, x)
}

func (f *function) Clz(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeClz, stablehlo.CountLeadingZeros, x)
}

func (f *function) Cos(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCos, stablehlo.Cosine, x)
}

func (f *function) Erf(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeErf, stablehlo.Erf, x)
}

func (f *function) Exp(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExp, stablehlo.Exponential, x)
}

func (f *function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, stablehlo.ExponentialMinusOne, x)
}

func (f *function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, stablehlo.Floor, x)
}

func (f *function) Imag(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeImag, stablehlo.Imag, x)
}

func (f *function) IsFinite(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeIsFinite, stablehlo.IsFinite, x)
}

func (f *function) Log(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog, stablehlo.Log, x)
}

func (f *function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, stablehlo.LogPlusOne, x)
}

func (f *function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, stablehlo.Not, x)
}

func (f *function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, stablehlo.Logistic, x)
}

func (f *function) Neg(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeNeg, stablehlo.Negate, x)
}

func (f *function) Real(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeReal, stablehlo.Real, x)
}

func (f *function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, stablehlo.RoundNearestEven, x)
}

func (f *function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, stablehlo.Rsqrt, x)
}

func (f *function) Sign(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSign, stablehlo.Sign, x)
}

func (f *function) Sin(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSin, stablehlo.Sine, x)
}

func (f *function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, stablehlo.Sqrt, x)
}

func (f *function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, stablehlo.Tanh, x)
}

func (f *function) Add(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, stablehlo.Add, l, r)
}

func (f *function) Atan2(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, stablehlo.Atan2, l, r)
}

func (f *function) BitwiseAnd(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, stablehlo.And, l, r)
}

func (f *function) BitwiseOr(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, stablehlo.Or, l, r)
}

func (f *function) BitwiseXor(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, stablehlo.Xor, l, r)
}

func (f *function) Complex(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeComplex, stablehlo.Complex, l, r)
}

func (f *function) Div(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, stablehlo.Divide, l, r)
}

func (f *function) LogicalAnd(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, stablehlo.And, l, r)
}

func (f *function) LogicalOr(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, stablehlo.Or, l, r)
}

func (f *function) LogicalXor(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, stablehlo.Xor, l, r)
}

func (f *function) Max(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, stablehlo.Maximum, l, r)
}

func (f *function) Min(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, stablehlo.Minimum, l, r)
}

func (f *function) Mul(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, stablehlo.Multiply, l, r)
}

func (f *function) Pow(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, stablehlo.Power, l, r)
}

func (f *function) Rem(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, stablehlo.Remainder, l, r)
}

func (f *function) ShiftLeft(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, stablehlo.ShiftLeft, l, r)
}

func (f *function) ShiftRightArithmetic(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, stablehlo.ShiftRightArithmetic, l, r)
}

func (f *function) ShiftRightLogical(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, stablehlo.ShiftRightLogical, l, r)
}

func (f *function) Sub(l, r compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, stablehlo.Subtract, l, r)
}

func (f *function) Equal(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, types.CompareEQ, false, l, r)
}

func (f *function) EqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqualTotalOrder, types.CompareEQ, true, l, r)
}

func (f *function) NotEqual(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, types.CompareNE, false, l, r)
}

func (f *function) NotEqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqualTotalOrder, types.CompareNE, true, l, r)
}

func (f *function) GreaterThan(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, types.CompareGT, false, l, r)
}

func (f *function) GreaterThanTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThanTotalOrder, types.CompareGT, true, l, r)
}

func (f *function) GreaterOrEqual(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, types.CompareGE, false, l, r)
}

func (f *function) GreaterOrEqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqualTotalOrder, types.CompareGE, true, l, r)
}

func (f *function) LessThan(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, types.CompareLT, false, l, r)
}

func (f *function) LessThanTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThanTotalOrder, types.CompareLT, true, l, r)
}

func (f *function) LessOrEqual(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, types.CompareLE, false, l, r)
}

func (f *function) LessOrEqualTotalOrder(l, r compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqualTotalOrder, types.CompareLE, true, l, r)
}
