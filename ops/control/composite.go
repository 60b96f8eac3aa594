package control

import (
	"encoding/json"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// CompositePrefix starts the name of a function that stands for a native operation. The rest is the operation's name,
// its attributes as JSON and a number that makes the name unique, separated by slashes. The body of such a function
// only declares shapes: it is never run.
const CompositePrefix = "quire.composite/"

// Replacer is implemented by backends that have native forms of composites.
type Replacer interface {
	// ReplacesComposite reports whether the backend emits the operation itself when a function named
	// "quire.composite/<op>/..." is called.
	ReplacesComposite(op string) bool
}

// ShapedReplacer is implemented by a Replacer whose native forms exist only for certain shapes.
type ShapedReplacer interface {
	Replacer
	// ReplacesCompositeFor reports whether the backend emits the operation itself with these attributes, as JSON, and
	// for inputs and results of these shapes. It is asked in place of ReplacesComposite.
	ReplacesCompositeFor(op string, attrs json.RawMessage, inputs, results []shapes.Shape) bool
}

// replaces asks the backend whether it has a native form.
func replaces(backend compute.Backend, op string, attrs json.RawMessage, inputs, results []shapes.Shape) bool {
	switch r := backend.(type) {
	case ShapedReplacer:
		return r.ReplacesCompositeFor(op, attrs, inputs, results)
	case Replacer:
		return r.ReplacesComposite(op)
	}
	return false
}

// Replaces reports whether [Composite] would emit a native form of op with attrs, for inputs and results of these
// shapes.
func Replaces(backend compute.Backend, op string, attrs any, inputs, results []shapes.Shape) bool {
	encoded, err := json.Marshal(attrs)
	return err == nil && replaces(backend, op, encoded, inputs, results)
}

// HasKernel reports whether the backend has a kernel for op that is made for inputs of these shapes; false if it has no
// such kernels.
func HasKernel(backend compute.Backend, op string, attrs any, inputs []shapes.Shape) bool {
	b, ok := backend.(interface {
		HasKernelFor(op string, attrs json.RawMessage, inputs []shapes.Shape) bool
	})
	encoded, err := json.Marshal(attrs)
	return ok && err == nil && b.HasKernelFor(op, encoded, inputs)
}

// Composite applies the operation op to inputs. If the backend has a native form, one call to it is emitted, with
// attrs (any JSON value) and results of the given shapes. Otherwise plain builds the results from ordinary
// operations. The plain form defines what the operation means and is the oracle of every native form.
func Composite(op string, attrs any, inputs []*graph.Node, results []shapes.Shape,
	plain func(inputs []*graph.Node) []*graph.Node) []*graph.Node {
	g := inputs[0].Graph()
	encoded, err := json.Marshal(attrs)
	if err != nil {
		panic(fmt.Errorf("attributes of composite %q: %w", op, err))
	}
	in := make([]shapes.Shape, len(inputs))
	for i, n := range inputs {
		in[i] = n.Shape()
	}
	if !replaces(g.Backend(), op, encoded, in, results) {
		return plain(inputs)
	}
	restore := scopeScalars(g, false)
	fn := graph.NewFunction(g, g.UniqueName(CompositePrefix+op+"/"+string(encoded)+"/"),
		func(g *graph.Graph) []*graph.Node {
			for i, input := range inputs {
				graph.Parameter(g, fmt.Sprintf("%d", i), input.Shape())
			}
			placeholders := make([]*graph.Node, len(results))
			for i, shape := range results {
				placeholders[i] = graph.Zeros(g, shape)
			}
			return placeholders
		})
	restore()
	return fn.Call(inputs...)
}

// ScatterSet returns operand with rows replaced: row indices[i] of its first axis becomes updates[i].
//
// operand is [A, ...], indices int32 [N], updates [N, ...] of operand's dtype. An index outside [0, A) is dropped.
// Indices within the range must not repeat. The plain form is exact too: it adds the wrapping integer difference of the
// bit patterns, since GoMLX has scatters that add, but none that set.
func ScatterSet(operand, indices, updates *graph.Node) *graph.Node {
	indices = graph.InsertAxes(indices, -1)
	return Composite("scatter_set", map[string]int{"axes": 1}, []*graph.Node{operand, indices, updates},
		[]shapes.Shape{operand.Shape()},
		func(in []*graph.Node) []*graph.Node { return []*graph.Node{scatterSetPlain(in[0], in[1], in[2])} })[0]
}

func scatterSetPlain(operand, indices, updates *graph.Node) *graph.Node {
	g := operand.Graph()
	dtype := operand.DType()
	rows := operand.Shape().Dimensions[0]
	inRange := graph.LogicalAnd(graph.GreaterOrEqual(indices, graph.ScalarZero(g, dtypes.Int32)),
		graph.LessThan(indices, graph.Scalar(g, dtypes.Int32, float64(rows))))
	safe := graph.Where(inRange, indices, graph.ZerosLike(indices))
	toBits, fromBits := bitPattern(dtype)
	bits := toBits(operand)
	change := graph.Sub(toBits(updates), graph.Gather(bits, safe))
	mask := inRange
	for mask.Rank() > change.Rank() {
		mask = graph.Squeeze(mask, -1)
	}
	for mask.Rank() < change.Rank() {
		mask = graph.InsertAxes(mask, -1)
	}
	change = graph.Where(graph.BroadcastToDims(mask, change.Shape().Dimensions...), change, graph.ZerosLike(change))
	return fromBits(graph.ScatterSum(bits, safe, change, false, false))
}

// bitPattern returns two conversions: to an integer dtype whose wrapping sums are exact, and back.
func bitPattern(dtype dtypes.DType) (to, from func(*graph.Node) *graph.Node) {
	bitcast := func(d dtypes.DType) func(*graph.Node) *graph.Node {
		return func(x *graph.Node) *graph.Node { return graph.Bitcast(x, d) }
	}
	convert := func(d dtypes.DType) func(*graph.Node) *graph.Node {
		return func(x *graph.Node) *graph.Node { return graph.ConvertDType(x, d) }
	}
	same := func(x *graph.Node) *graph.Node { return x }
	switch {
	case dtype == dtypes.Bool:
		return convert(dtypes.Int32), convert(dtypes.Bool)
	case dtype.IsInt():
		return same, same
	case dtype == dtypes.Float32:
		return bitcast(dtypes.Uint32), bitcast(dtypes.Float32)
	case dtype == dtypes.BFloat16 || dtype == dtypes.Float16:
		return bitcast(dtypes.Uint16), bitcast(dtype)
	default:
		panic(fmt.Errorf("control.ScatterSet: dtype %s is not supported", dtype))
	}
}

// RowMajor returns x, laid out row-major in memory on backends that would otherwise rewrite x and its operands in a
// different order. On other backends it returns x.
func RowMajor(x *graph.Node) *graph.Node {
	return Composite("row_major", struct{}{}, []*graph.Node{x}, []shapes.Shape{x.Shape()},
		func(in []*graph.Node) []*graph.Node { return in })[0]
}

// Barrier returns x. On backends that would copy an array because of it, it keeps the computation of x from being
// fused with its uses.
func Barrier(x *graph.Node) *graph.Node {
	return Composite("barrier", struct{}{}, []*graph.Node{x}, []shapes.Shape{x.Shape()},
		func(in []*graph.Node) []*graph.Node { return in })[0]
}

// After returns x, to be read only after before was computed. It matters on backends that would otherwise do equal
// work for several arrays at once and hold all results in memory.
func After(x, before *graph.Node) *graph.Node {
	return Composite("after", struct{}{}, []*graph.Node{x, before}, []shapes.Shape{x.Shape()},
		func(in []*graph.Node) []*graph.Node { return in[:1] })[0]
}
