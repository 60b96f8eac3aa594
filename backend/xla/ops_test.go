package xla_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/compute/support/testutil"
	"github.com/gomlx/go-xla/pjrt"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/ops/control"
)

// Constants arrive bit for bit, alone, repeated and in arrays.
func TestConstantsAreExact(t *testing.T) {
	b := newBackend(t, xla.Options{})
	f32 := []float32{0, float32(math.Copysign(0, -1)), 0.1, math.MaxFloat32, math.SmallestNonzeroFloat32,
		float32(math.Inf(1)), float32(math.Inf(-1)),
		math.Float32frombits(0x7FC00001), math.Float32frombits(0xFFC12345), 1e-6, 1e21}
	var f64 []float64
	var bf []bfloat16.BFloat16
	var f16 []float16.Float16
	for _, x := range f32 {
		f64 = append(f64, float64(x))
		bf = append(bf, bfloat16.FromFloat32(x))
		f16 = append(f16, float16.FromFloat32(x))
	}
	for _, all := range []any{
		f32, append(f64, math.Float64frombits(0x7FF8000000000123), 0.1, math.MaxFloat64), bf, f16,
		[]bool{true, false, false, true, true}, []int8{-128, 127, 0}, []uint8{0, 255, 7}, []int16{math.MinInt16, 3},
		[]uint16{math.MaxUint16, 3},
		[]int32{math.MinInt32, math.MaxInt32, -1}, []uint32{math.MaxUint32, 1}, []int64{math.MinInt64, math.MaxInt64},
		[]uint64{math.MaxUint64, 1},
		[]complex64{complex(1, -2), complex(0, 3)}, []complex128{complex(1, -2), complex(0.1, 3)}, []float32{},
	} {
		v := reflect.ValueOf(all)
		flats, dims := []any{all}, [][]int{{v.Len()}}
		for i := range v.Len() {
			flats, dims = append(flats, v.Slice(i, i+1).Interface()), append(dims, nil)
		}
		if v.Len() > 0 {
			twice := reflect.MakeSlice(v.Type(), 2, 2)
			twice.Index(0).Set(v.Index(0))
			twice.Index(1).Set(v.Index(0))
			flats, dims = append(flats, twice.Interface()), append(dims, []int{2, 1})
		}
		out, err := testutil.Exec(b, nil, func(f compute.Function, _ []compute.Value) ([]compute.Value, error) {
			var values []compute.Value
			for i, flat := range flats {
				c, err := f.Constant(flat, dims[i]...)
				if err != nil {
					return nil, err
				}
				values = append(values, c)
			}
			return values, nil
		})
		if err != nil {
			t.Fatalf("%T: %v", all, err)
		}
		for i, got := range out {
			want := reflect.ValueOf(flats[i])
			flat := reflect.ValueOf(testutil.FlattenSlice(got))
			if len(dims[i]) == 0 {
				flat = reflect.MakeSlice(v.Type(), 1, 1)
				flat.Index(0).Set(reflect.ValueOf(got))
			}
			for j := range want.Len() {
				if a, b := pattern(flat.Index(j)), pattern(want.Index(j)); a != b {
					t.Errorf("%T %v [%d]: got %s, want %s", all, dims[i], j, a, b)
				}
			}
		}
	}
}

// pattern prints a number with all its bits.
func pattern(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case float32:
		return fmt.Sprintf("%#x", math.Float32bits(x))
	case float64:
		return fmt.Sprintf("%#x", math.Float64bits(x))
	default:
		return fmt.Sprint(reflect.ValueOf(x))
	}
}

func TestArgMinMaxTakesTheFirst(t *testing.T) {
	nan := math.NaN()
	x := [][]float64{{1, 3, 3, 2}, {nan, 9, nan, 1}, {math.Inf(-1), math.Inf(-1), math.Inf(-1), math.Inf(-1)},
		{2, 1, 1, nan}}
	out := run(t, newBackend(t, xla.Options{}), func(x *Node) []*Node {
		return []*Node{ArgMax(x, -1), ArgMin(x, 1, dtypes.Int64),
			ArgMax(ConvertDType(x, dtypes.Float32), 0, dtypes.Uint8)}
	}, x)
	if want := []string{"[1 0 0 3]", "[0 0 0 3]", "[1 1 1 3]"}; !slices.Equal(out, want) {
		t.Errorf("got %v, want %v", out, want)
	}
}

func TestScatterSet(t *testing.T) {
	b := newBackend(t, xla.Options{})
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Int32, dtypes.Bool} {
		out := run(t, b, func(x, i, u *Node) *Node {
			return ConvertDType(control.ScatterSet(ConvertDType(x, dtype), i, ConvertDType(u, dtype)), dtypes.Int32)
		}, [][]int32{{1, 0}, {0, 1}, {1, 1}}, []int32{2, -1, 3, 0, math.MinInt32, math.MaxInt32},
			[][]int32{{0, 1}, {0, 0}, {0, 0}, {0, 0}, {1, 0}, {1, 0}})
		if want := "[[0 0] [0 1] [0 1]]"; out[0] != want {
			t.Errorf("%s: got %s, want %s", dtype, out[0], want)
		}
	}
	// Two axes are addressed, one is the window.
	out := run(t, b, func(x, i, u *Node) []*Node {
		return control.Composite("scatter_set", map[string]int{"axes": 2}, []*Node{x, i, u}, []shapes.Shape{x.Shape()},
			func([]*Node) []*Node { t.Fatal("the plain form is used"); return nil })
	}, [][][]int32{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, [][]int32{{1, 0}, {0, 1}, {0, 2}},
		[][]int32{{-1, -2}, {-3, -4}, {-5, -6}})
	if want := "[[[1 2] [-3 -4]] [[-1 -2] [7 8]]]"; out[0] != want {
		t.Errorf("got %s, want %s", out[0], want)
	}
}

func TestDotGeneralDTypes(t *testing.T) {
	b := newBackend(t, xla.Options{})
	for _, c := range []struct{ in, acc, out dtypes.DType }{
		{dtypes.BFloat16, dtypes.InvalidDType, dtypes.InvalidDType},
		{dtypes.BFloat16, dtypes.Float32, dtypes.InvalidDType},
		{dtypes.BFloat16, dtypes.Float32, dtypes.Float32}, {dtypes.Float16, dtypes.InvalidDType, dtypes.Float32},
		{dtypes.Int8, dtypes.Int32, dtypes.Int32}, {dtypes.Float32, dtypes.Float64, dtypes.Float32},
		{dtypes.Float32, dtypes.InvalidDType, dtypes.Float64},
	} {
		out := run(t, b, func(x, y *Node) *Node {
			dot := Dot(ConvertDType(x, c.in), ConvertDType(y, c.in))
			if c.acc != dtypes.InvalidDType {
				dot = dot.WithAccumulatorDType(c.acc)
			}
			if c.out != dtypes.InvalidDType {
				dot = dot.WithOutputDType(c.out)
			}
			z := dot.General([]int{1}, nil, []int{0}, nil)
			want := c.out
			if want == dtypes.InvalidDType {
				want = c.in
			}
			if z.DType() != want {
				t.Errorf("%v: the result has dtype %s", c, z.DType())
			}
			return ConvertDType(z, dtypes.Float32)
		}, [][]float32{{1, 2}, {3, 4}}, [][]float32{{5, 6}, {7, 8}})
		if want := "[[19 22] [43 50]]"; out[0] != want {
			t.Errorf("%v: got %s, want %s", c, out[0], want)
		}
	}
}

// sortBy sorts two arrays by the first times a factor.
func sortBy(b compute.Backend, factor func(main, comparator compute.Function) (compute.Value, error)) ([]any, error) {
	return testutil.Exec(b, []any{[]int32{5, -7, 2, -1}, []int32{0, 1, 2, 3}},
		func(f compute.Function, p []compute.Value) ([]compute.Value, error) {
			c, err := f.Closure()
			if err != nil {
				return nil, err
			}
			k, err := factor(f, c)
			if err != nil {
				return nil, err
			}
			var in [4]compute.Value
			for i := range in {
				if in[i], err = c.Parameter(fmt.Sprint(i), shapes.Make(dtypes.Int32), nil); err != nil {
					return nil, err
				}
			}
			for i := range 2 {
				if in[i], err = c.Mul(in[i], k); err != nil {
					return nil, err
				}
			}
			less, err := c.LessThan(in[0], in[1])
			if err != nil {
				return nil, err
			}
			if err := c.Return([]compute.Value{less}, nil); err != nil {
				return nil, err
			}
			return f.Sort(c, -1, true, p[0], p[1])
		})
}

func TestSort(t *testing.T) {
	b := newBackend(t, xla.Options{})
	out, err := sortBy(b, func(main, _ compute.Function) (compute.Value, error) { return main.Constant([]int32{-1}) })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(out), "[[5 2 -1 -7] [0 2 3 1]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = sortBy(b, func(main, _ compute.Function) (compute.Value, error) {
		c, err := main.Constant([]int32{1})
		if err != nil {
			return nil, err
		}
		return main.Neg(c)
	})
	if err == nil || !strings.Contains(err.Error(), "sort by a computed key") {
		t.Errorf("a comparator that uses an outer value: %v", err)
	}
}

func TestNamedFunctionIsCalledInALoop(t *testing.T) {
	out := run(t, newBackend(t, xla.Options{}), func(x, n *Node) *Node {
		g := x.Graph()
		step := NewFunction(g, "step", func(g *Graph) []*Node {
			v := Parameter(g, "x", x.Shape())
			// A loop inside the function takes the function as its parent, not the main one.
			type state struct{ I, V *Node }
			return []*Node{control.While(state{Const(g, int32(0)), v},
				func(s state) *Node { return LessThan(s.I, Const(g, int32(2))) },
				func(s state) state { return state{AddScalar(s.I, 1), Add(s.V, v)} }).V}
		})
		type state struct{ I, X *Node }
		return control.While(state{ScalarZero(g, dtypes.Int32), x},
			func(s state) *Node { return LessThan(s.I, n) },
			func(s state) state { return state{AddScalar(s.I, 1), step.Call(s.X)[0]} }).X
	}, []float32{1, 2}, int32(3))
	if out[0] != "[27 54]" {
		t.Errorf("got %s, want [27 54]", out[0])
	}
}

func TestOneProgramInManyGoroutines(t *testing.T) {
	b := newBackend(t, xla.Options{})
	e := addOne(t, b, 5)
	alive := pjrt.BuffersAlive()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 50 {
				values := make([]float32, 1000)
				values[n] = float32(i)
				in, err := b.BufferFromFlatData(0, values, shapes.Make(dtypes.Float32, 1000))
				if err != nil {
					t.Error(err)
					return
				}
				out, err := e.ExecuteAsync([]compute.Buffer{in}, []bool{i%2 == 0}).Await()
				if err != nil {
					t.Error(err)
					return
				}
				if err := out[0].ToFlatData(values); err != nil || values[n] != float32(i)+5 {
					t.Errorf("got %v, %v; want %d", values[n], err, i+5)
				}
				if err := errors.Join(in.Finalize(), out[0].Finalize()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if now := pjrt.BuffersAlive(); now > alive {
		t.Errorf("%d buffers are alive, %d were before", now, alive)
	}
}

func TestMissingOperationsSaySo(t *testing.T) {
	b := newBackend(t, xla.Options{})
	f := b.Builder("missing").Main()
	x, err := f.Parameter("x", shapes.Make(dtypes.Complex64, 4), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"FFT":         second(f.FFT(x, compute.FFTForward, []int{4})),
		"softmax":     second(f.FusedSoftmax(x, 0)),
		"collectives": second(f.AllReduce([]compute.Value{x}, compute.ReduceOpSum, nil)),
		"composite":   second(b.Builder("missing").NewFunction(`quire.composite/no_such_op/{}/1`)),
	} {
		if !errors.Is(err, compute.ErrNotImplemented) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
