package program

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
)

// Constant implements [compute.Function].
func (f *Function) Constant(flat any, dims ...int) (compute.Value, error) {
	op := compute.OpTypeConstant
	v := reflect.ValueOf(flat)
	if v.Kind() != reflect.Slice {
		return nil, f.fail(op, fmt.Errorf("its values are a %T, not a slice", flat))
	}
	dtype := dtypes.FromGoType(v.Type().Elem())
	if dtype == dtypes.InvalidDType {
		return nil, f.fail(op, fmt.Errorf("its values are a %T, not an array of numbers", flat))
	}
	shape := shapes.Make(dtype, dims...)
	if v.Len() != shape.Size() {
		return nil, f.fail(op, fmt.Errorf("%d values are given for shape %s", v.Len(), shape))
	}
	if f.returned {
		return nil, f.fail(op, errReturned)
	}
	// A copy, since the caller may change its slice before the program is printed.
	kept := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(kept, v)
	value, err := f.EmitConstant(kept.Interface(), shape)
	if err != nil {
		return nil, f.fail(op, err)
	}
	return &node{f: f, value: value, shape: shape, constant: kept.Interface()}, nil
}

// EmitConstant emits a constant, in a text form that is exact and short (see literal).
func (f *Function) EmitConstant(flat any, shape shapes.Shape) (*stablehlo.Value, error) {
	v, err := f.fn.ConstantFromFlatAndShape(flat, ToXLA(shape))
	if err != nil {
		return nil, err
	}
	f.LastStatement().Attributes["value"] = literal{flat: flat, shape: shape}
	return v, nil
}

// EmitScalar emits a scalar constant with the dtype of the value's Go type.
func (f *Function) EmitScalar(value any) (*stablehlo.Value, error) {
	flat := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(value)), 1, 1)
	flat.Index(0).Set(reflect.ValueOf(value))
	return f.EmitConstant(flat.Interface(), shapes.Make(dtypes.FromAny(value)))
}

// literal prints a constant as an MLIR dense attribute. It prints one value if all are equal bit for bit, and otherwise
// the raw bytes in hexadecimal, which keep every bit of NaNs, infinities and negative zeros.
type literal struct {
	flat  any // a slice of shape's Go type
	shape shapes.Shape
}

// ToStableHLO is the method through which go-xla's builder prints attributes.
func (l literal) ToStableHLO() string {
	return fmt.Sprintf("dense<%s> : %s", l.values(), ToXLA(l.shape).ToStableHLO())
}

func (l literal) values() string {
	v := reflect.ValueOf(l.flat)
	if v.Len() == 0 {
		return ""
	}
	size := int(v.Type().Elem().Size())
	raw := unsafe.Slice((*byte)(v.UnsafePointer()), v.Len()*size)
	splat := true
	for i := size; i < len(raw) && splat; i++ {
		splat = raw[i] == raw[i-size]
	}
	if bools, ok := l.flat.([]bool); ok {
		// The raw form of i1 has changed between versions of MLIR; this one has not.
		if splat {
			return fmt.Sprint(bools[0])
		}
		return list(bools, l.shape.Dimensions)
	}
	switch {
	case splat && !l.shape.DType.IsFloat() && !l.shape.DType.IsComplex():
		return fmt.Sprint(v.Index(0).Interface())
	case splat && l.shape.DType.IsFloat():
		return bits(raw[:size])
	case splat && l.shape.DType.IsComplex():
		return fmt.Sprintf("(%s, %s)", bits(raw[:size/2]), bits(raw[size/2:size]))
	}
	return `"0x` + strings.ToUpper(hex.EncodeToString(raw)) + `"`
}

// bits prints a little-endian floating-point number as the hexadecimal integer of its bits.
func bits(raw []byte) string {
	text := []byte("0x")
	for i := len(raw) - 1; i >= 0; i-- {
		text = fmt.Appendf(text, "%02X", raw[i])
	}
	return string(text)
}

func list(values []bool, dims []int) string {
	if len(dims) == 0 {
		return fmt.Sprint(values[0])
	}
	parts := make([]string, dims[0])
	for i := range parts {
		n := len(values) / dims[0]
		parts[i] = list(values[i*n:(i+1)*n], dims[1:])
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// numeral returns the small number n as a value of the dtype's Go type; for bool, whether it is not zero.
func numeral(dtype dtypes.DType, n int) (any, error) {
	switch {
	case dtype == dtypes.Bool:
		return n != 0, nil
	case dtype == dtypes.BFloat16:
		return bfloat16.FromFloat32(float32(n)), nil
	case dtype == dtypes.Float16:
		return float16.FromFloat32(float32(n)), nil
	case dtype == dtypes.Complex64:
		return complex(float32(n), 0), nil
	case dtype == dtypes.Complex128:
		return complex(float64(n), 0), nil
	case dtype.IsInt() || dtype.IsFloat():
		return reflect.ValueOf(n).Convert(dtype.GoType()).Interface(), nil
	default:
		return nil, fmt.Errorf("dtype %s has no numbers", dtype)
	}
}
