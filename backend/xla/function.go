package xla

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
)

// function is one function of a program: the main one, a named one, or a closure (the body of a loop, a branch, a
// comparator).
//
// GoMLX makes every closure from the main function and calls each operation on the function being built, with operands
// of any enclosing function. So a new closure becomes the child of the innermost function still open, operands of
// ancestors are imported, and constants of other functions are made anew.
type function struct {
	notimplemented.Function
	b         *builder
	fn        *stablehlo.Function
	name      string
	parent    *function
	children  []*function
	composite *composite // not nil for a stand-in of a native operation

	params      []string
	paramShapes []shapes.Shape
	outputs     []shapes.Shape
	returned    bool

	imports  map[*node]*stablehlo.Value // values of ancestors and constants of others, as seen from here
	captured []*function                // owners of the imported values
	reducers map[reducer]*stablehlo.Function
	calls    map[*stablehlo.Statement]*call // of kernels in C
}

var _ compute.Function = (*function)(nil)

// node is a value of a program: the result of an operation, a parameter or a constant of function f.
type node struct {
	f        *function
	value    *stablehlo.Value
	shape    shapes.Shape
	constant any // for a constant its flat values, else nil
}

// copiedConstant is the number of values up to which a constant is repeated in each function that uses it.
const copiedConstant = 16

func (f *function) node(v *stablehlo.Value) *node {
	return &node{f: f, value: v, shape: fromXLA(v.Shape())}
}

func (f *function) nodes(values []*stablehlo.Value) []compute.Value {
	out := make([]compute.Value, len(values))
	for i, v := range values {
		out[i] = f.node(v)
	}
	return out
}

// within reports whether f is outer or one of its descendants.
func (f *function) within(outer *function) bool {
	for ; f != nil; f = f.parent {
		if f == outer {
			return true
		}
	}
	return false
}

// use returns x as a value of f.
func (f *function) use(x compute.Value) (*stablehlo.Value, error) {
	n, err := f.b.node(x)
	if err != nil {
		return nil, err
	}
	if f.returned {
		return nil, errReturned
	}
	if n.f == f {
		return n.value, nil
	}
	if v := f.imports[n]; v != nil {
		return v, nil
	}
	var v *stablehlo.Value
	switch {
	case n.constant != nil && (n.shape.Size() <= copiedConstant || !f.within(n.f)):
		// Small constants are made anew even where they are in reach: the parent of a closure may yet change (see
		// adopt), and comparators of sorts may not use any value from outside.
		if v, err = f.constant(n.constant, n.shape); err != nil {
			return nil, err
		}
	case f.within(n.f):
		if v, err = f.fn.UseParentValue(n.value); err != nil {
			return nil, err
		}
		f.captured = append(f.captured, n.f)
	default:
		return nil, fmt.Errorf("a value of %s is used in %s, which is not inside it", n.f.describe(), f.describe())
	}
	f.imports[n] = v
	return v, nil
}

func (f *function) useAll(xs []compute.Value) ([]*stablehlo.Value, error) {
	values := make([]*stablehlo.Value, len(xs))
	for i, x := range xs {
		v, err := f.use(x)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func (f *function) describe() string {
	if f.parent == nil {
		return fmt.Sprintf("function %q", f.name)
	}
	return fmt.Sprintf("a closure of %s", f.parent.describe())
}

// fail names the operation and the program in an error.
func (f *function) fail(op compute.OpType, err error) error {
	return fmt.Errorf("xla: %s in program %q: %w", op, f.b.name, err)
}

// result makes a node of the value an emitter returned.
func (f *function) result(op compute.OpType, v *stablehlo.Value, err error) (compute.Value, error) {
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.node(v), nil
}

// Name implements [compute.Function].
func (f *function) Name() string { return f.name }

// Builder implements [compute.Function].
func (f *function) Builder() compute.Builder { return f.b }

// Parent implements [compute.Function].
func (f *function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}

// Shape implements [compute.Function].
func (f *function) Shape(x compute.Value) (shapes.Shape, error) { return f.b.OpShape(x) }

// Closure implements [compute.Function]. A closure made from the main function while others are open belongs to the
// innermost of them: GoMLX always asks the main function. The operation that takes the closure settles it (see adopt).
func (f *function) Closure() (compute.Function, error) {
	parent := f
	if f == f.b.main && len(f.b.open) > 0 {
		parent = f.b.open[len(f.b.open)-1]
	}
	return f.b.newFunction(parent.fn.Closure(), "", parent), nil
}

// adopt makes closure c a child of f, the function whose operation takes it, and returns its body.
func (f *function) adopt(closure compute.Function, op compute.OpType) (*stablehlo.Function, error) {
	c, ok := closure.(*function)
	switch {
	case !ok || c.b != f.b || c.parent == nil:
		return nil, f.fail(op, errors.New("its bodies must be closures of the same program"))
	case !c.returned:
		return nil, f.fail(op, errors.New("a body has not returned"))
	case c.parent == f:
		return c.fn, nil
	}
	if root(c) != root(f) {
		return nil, f.fail(op, fmt.Errorf("a closure of %s is used in %s", root(c).describe(), f.describe()))
	}
	c.parent.children = slices.DeleteFunc(c.parent.children, func(child *function) bool { return child == c })
	c.parent, c.fn.Parent = f, f.fn
	f.children = append(f.children, c)
	return c.fn, c.checkCaptures(op)
}

func (f *function) checkCaptures(op compute.OpType) error {
	for _, owner := range f.captured {
		if !f.within(owner) {
			return f.fail(op, fmt.Errorf("a body uses a value of %s, which does not enclose it", owner.describe()))
		}
	}
	for _, child := range f.children {
		if err := child.checkCaptures(op); err != nil {
			return err
		}
	}
	return nil
}

func root(f *function) *function {
	for f.parent != nil {
		f = f.parent
	}
	return f
}

// Parameter implements [compute.Function]. Shardings are not supported.
func (f *function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
	op := compute.OpTypeParameter
	switch {
	case f.returned:
		return nil, f.fail(op, errReturned)
	case sharding != nil:
		return nil, f.fail(op, fmt.Errorf("the sharding of parameter %q: %w", name, compute.ErrNotImplemented))
	case shape.IsDynamic():
		return nil, f.fail(op, fmt.Errorf("the dynamic shape %s of parameter %q: %w", shape, name,
			compute.ErrNotImplemented))
	case slices.Contains(f.params, name):
		return nil, f.fail(op, fmt.Errorf("there are two parameters %q", name))
	}
	var attributes map[string]any
	if output, ok := f.b.alias[name]; ok && f == f.b.main && f.b.backend.spmd() == 1 {
		attributes = map[string]any{"tf.aliasing_output": int32(output)}
	}
	// Nested regions share one name space with the functions around them, so every input gets a number.
	unique := fmt.Sprintf("in%d_%s", f.b.inputs, stablehlo.ConvertToValidName(name))
	f.b.inputs++
	v, err := f.fn.NamedInputWithAttributes(unique, toXLA(shape), attributes)
	if err != nil {
		return nil, f.fail(op, err)
	}
	f.params = append(f.params, name)
	f.paramShapes = append(f.paramShapes, shape.Clone())
	return f.node(v), nil
}

// Constant implements [compute.Function].
func (f *function) Constant(flat any, dims ...int) (compute.Value, error) {
	op := compute.OpTypeConstant
	v := reflect.ValueOf(flat)
	if v.Kind() != reflect.Slice {
		return nil, f.fail(op, fmt.Errorf("its values are a %T, not a slice", flat))
	}
	dtype := dtypes.FromGoType(v.Type().Elem())
	if dtype == dtypes.InvalidDType {
		return nil, f.fail(op, fmt.Errorf("its values are a %T, which is no array of numbers", flat))
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
	value, err := f.constant(kept.Interface(), shape)
	if err != nil {
		return nil, f.fail(op, err)
	}
	return &node{f: f, value: value, shape: shape, constant: kept.Interface()}, nil
}

// constant emits a constant, in a text form that is exact and short (see literal).
func (f *function) constant(flat any, shape shapes.Shape) (*stablehlo.Value, error) {
	v, err := f.fn.ConstantFromFlatAndShape(flat, toXLA(shape))
	if err != nil {
		return nil, err
	}
	f.fn.Statements[len(f.fn.Statements)-1].Attributes["value"] = literal{flat: flat, shape: shape}
	return v, nil
}

// scalar emits a scalar constant of the dtype: value converted, whose Go type must be convertible to the dtype's.
func (f *function) scalar(value any) (*stablehlo.Value, error) {
	flat := reflect.MakeSlice(reflect.SliceOf(reflect.TypeOf(value)), 1, 1)
	flat.Index(0).Set(reflect.ValueOf(value))
	return f.constant(flat.Interface(), shapes.Make(dtypes.FromAny(value)))
}

// Return implements [compute.Function].
func (f *function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	for _, s := range shardings {
		if s != nil {
			return fmt.Errorf("xla: sharded outputs: %w", compute.ErrNotImplemented)
		}
	}
	values, err := f.useAll(outputs)
	if err != nil {
		return fmt.Errorf("xla: returning from %s: %w", f.describe(), err)
	}
	if err := f.joinCalls(values); err != nil {
		return fmt.Errorf("xla: returning from %s: %w", f.describe(), err)
	}
	if err := f.fn.Return(values...); err != nil {
		return fmt.Errorf("xla: returning from %s: %w", f.describe(), err)
	}
	for _, v := range values {
		f.outputs = append(f.outputs, fromXLA(v.Shape()))
	}
	f.returned = true
	f.b.closed(f)
	return nil
}
