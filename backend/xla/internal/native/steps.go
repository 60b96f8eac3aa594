package native

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/go-xla/types"
	xlashapes "github.com/gomlx/go-xla/types/shapes"

	"github.com/quire/quire/backend/xla/internal/program"
)

// lanes is the number of lanes of a TPU's vector registers.
const lanes = 128

// steps emits operations one after the other, and none after the first error.
type steps struct {
	f   *program.Function
	err error
}

func (s *steps) do(emit func() (*stablehlo.Value, error)) *stablehlo.Value {
	if s.err != nil {
		return nil
	}
	v, err := emit()
	s.err = err
	return v
}

func (s *steps) ints(values ...int32) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		return s.f.EmitConstant(values, shapes.Make(dtypes.Int32, len(values)))
	})
}

func (s *steps) max(x, y *stablehlo.Value) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) { return stablehlo.Maximum(x, y) })
}

func (s *steps) reshape(x *stablehlo.Value, dims ...int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		return stablehlo.Reshape(x, xlashapes.Make(x.Shape().DType, dims...))
	})
}

// filled emits an array of x's shape with one value.
func (s *steps) filled(x *stablehlo.Value, value int32) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		v, err := s.f.EmitScalar(value)
		if err != nil {
			return nil, err
		}
		return stablehlo.BroadcastInDim(v, x.Shape(), nil)
	})
}

func (s *steps) atLeast(x *stablehlo.Value, least int32) *stablehlo.Value {
	return s.max(x, s.filled(x, least))
}

func (s *steps) less(x *stablehlo.Value, than int32) *stablehlo.Value {
	bound := s.filled(x, than)
	return s.do(func() (*stablehlo.Value, error) {
		return stablehlo.Compare(x, bound, types.CompareLT, types.CompareSigned)
	})
}

// padColumns widens a table with columns of zeros.
func (s *steps) padColumns(x *stablehlo.Value, columns int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		zero, err := s.f.EmitScalar(int32(0))
		if err != nil {
			return nil, err
		}
		return stablehlo.Pad(x, zero, []int{0, 0}, []int{0, columns - x.Shape().Dimensions[1]}, []int{0, 0})
	})
}

// zeroRows clears the rows of x for which mask, bool[T], is set.
func (s *steps) zeroRows(x, mask *stablehlo.Value) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		shape := x.Shape()
		wide, err := stablehlo.BroadcastInDim(mask, xlashapes.Make(dtypes.Bool, shape.Dimensions...), []int{0})
		if err != nil {
			return nil, err
		}
		zero, err := s.f.EmitScalar(int32(0))
		if err != nil {
			return nil, err
		}
		if zero, err = stablehlo.Convert(zero, shape.DType); err != nil {
			return nil, err
		}
		if zero, err = stablehlo.BroadcastInDim(zero, shape, nil); err != nil {
			return nil, err
		}
		return stablehlo.Select(wide, zero, x)
	})
}

// sinks emits f32[H] as [KVH, G, lanes].
func (s *steps) sinks(x *stablehlo.Value, kvHeads, group int) *stablehlo.Value {
	x = s.reshape(x, kvHeads, group)
	return s.do(func() (*stablehlo.Value, error) {
		return stablehlo.BroadcastInDim(x, xlashapes.Make(x.Shape().DType, kvHeads, group, lanes), []int{0, 1})
	})
}

func (s *steps) transpose(x *stablehlo.Value, axes ...int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) { return stablehlo.Transpose(x, axes...) })
}

func (s *steps) concatenate(axis int, xs ...*stablehlo.Value) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) { return stablehlo.Concatenate(axis, xs...) })
}

// alternate emits x and y, [T, H, D], as [T, H, 2, D]. It selects from the two, because to concatenate them takes a
// TPU's compiler four times as long: it gives them an axis of size 1, which it copies row by row.
func (s *steps) alternate(x, y *stablehlo.Value) *stablehlo.Value {
	first := s.less(s.ints(0, 1), 1)
	return s.do(func() (*stablehlo.Value, error) {
		dims := x.Shape().Dimensions
		shape := xlashapes.Make(x.Shape().DType, dims[0], dims[1], 2, dims[2])
		mask, err := stablehlo.BroadcastInDim(first, xlashapes.Make(dtypes.Bool, shape.Dimensions...), []int{2})
		if err != nil {
			return nil, err
		}
		wideX, err := stablehlo.BroadcastInDim(x, shape, []int{0, 1, 3})
		if err != nil {
			return nil, err
		}
		wideY, err := stablehlo.BroadcastInDim(y, shape, []int{0, 1, 3})
		if err != nil {
			return nil, err
		}
		return stablehlo.Select(mask, wideX, wideY)
	})
}

// fenced emits x so that no operation after it is merged with those before.
func (s *steps) fenced(x *stablehlo.Value) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		both, err := stablehlo.OptimizationBarrier(x, x) // XLA:CPU miscompiles a barrier of one
		if err != nil {
			return nil, err
		}
		return both[0], nil
	})
}

func (s *steps) slice(x *stablehlo.Value, from, to []int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		strides := make([]int, len(from))
		for i := range strides {
			strides[i] = 1
		}
		return stablehlo.Slice(x, from, to, strides)
	})
}

// convert emits x with the dtype of another array.
func (s *steps) convert(x *stablehlo.Value, like shapes.Shape) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		if x.Shape().DType == like.DType {
			return x, nil
		}
		return stablehlo.Convert(x, like.DType)
	})
}

// padTo widens x with zeros at the end of each axis.
func (s *steps) padTo(x *stablehlo.Value, dims ...int) *stablehlo.Value {
	return s.do(func() (*stablehlo.Value, error) {
		was, none := x.Shape().Dimensions, make([]int, len(dims))
		end, wider := make([]int, len(dims)), false
		for i, d := range dims {
			end[i] = d - was[i]
			wider = wider || d > was[i]
		}
		if !wider {
			return x, nil
		}
		zero, err := s.f.EmitScalar(int32(0))
		if err != nil {
			return nil, err
		}
		if zero, err = stablehlo.Convert(zero, x.Shape().DType); err != nil {
			return nil, err
		}
		return stablehlo.Pad(x, zero, none, end, none)
	})
}
