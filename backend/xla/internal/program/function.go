package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// Function is one function of a program: the main function, a named one, or a closure (the body of a loop, a branch, a
// comparator).
//
// GoMLX makes every closure from the main function and calls each operation on the function being built, with operands
// of any enclosing function. So a new closure becomes the child of the innermost function still open, operands of
// ancestors are imported, and constants of other functions are emitted again.
type Function struct {
	notimplemented.Function
	b         *Builder
	fn        *stablehlo.Function
	name      string
	parent    *Function
	children  []*Function
	composite *composite // not nil if the function stands for a native operation

	params      []string
	paramShapes []shapes.Shape
	outputs     []shapes.Shape
	returned    bool

	imports  map[*node]*stablehlo.Value // values of ancestors, and constants of others, in this function
	captured []*Function                // owners of the imported values
	reducers map[reducer]*stablehlo.Function
	calls    map[*stablehlo.Statement]*call // of kernels in C
}

var _ compute.Function = (*Function)(nil)

// node is a value of a program: the result of an operation, a parameter or a constant of function f.
type node struct {
	f        *Function
	value    *stablehlo.Value
	shape    shapes.Shape
	constant any // for a constant its flat values, else nil
}

// reducer names a combiner: an operation on two scalars of a dtype.
type reducer struct {
	op    compute.OpType // a key of reductions
	dtype dtypes.DType
}

// Emitter emits the native form of a composite in function f. results are the shapes with which the composite was
// declared.
type Emitter func(f *Function, attrs json.RawMessage, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error)

// copiedConstant is the number of values up to which a constant is emitted again in each function that uses it.
const copiedConstant = 16

func (f *Function) node(v *stablehlo.Value) *node {
	return &node{f: f, value: v, shape: FromXLA(v.Shape())}
}

func (f *Function) nodes(values []*stablehlo.Value) []compute.Value {
	out := make([]compute.Value, len(values))
	for i, v := range values {
		out[i] = f.node(v)
	}
	return out
}

// within reports whether f is outer or one of its descendants.
func (f *Function) within(outer *Function) bool {
	for ; f != nil; f = f.parent {
		if f == outer {
			return true
		}
	}
	return false
}

// use returns x as a value of f.
func (f *Function) use(x compute.Value) (*stablehlo.Value, error) {
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
		// Small constants are emitted again even if they are in reach: the parent of a closure may still change (see
		// adopt), and comparators of sorts may not use any value from outside.
		if v, err = f.EmitConstant(n.constant, n.shape); err != nil {
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

func (f *Function) useAll(xs []compute.Value) ([]*stablehlo.Value, error) {
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

func (f *Function) describe() string {
	if f.parent == nil {
		return fmt.Sprintf("function %q", f.name)
	}
	return fmt.Sprintf("a closure of %s", f.parent.describe())
}

// fail names the operation and the program in an error.
func (f *Function) fail(op compute.OpType, err error) error {
	return fmt.Errorf("xla: %s in program %q: %w", op, f.b.name, err)
}

// result makes a node of the value an emitter returned.
func (f *Function) result(op compute.OpType, v *stablehlo.Value, err error) (compute.Value, error) {
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.node(v), nil
}

// Name implements [compute.Function].
func (f *Function) Name() string { return f.name }

// Program returns the program that the function belongs to.
func (f *Function) Program() *Builder { return f.b }

// Builder implements [compute.Function].
func (f *Function) Builder() compute.Builder { return f.b }

// Parent implements [compute.Function].
func (f *Function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}

// Shape implements [compute.Function].
func (f *Function) Shape(x compute.Value) (shapes.Shape, error) { return f.b.OpShape(x) }

// Closure implements [compute.Function]. A closure made from the main function while others are open belongs to the
// innermost of them: GoMLX always asks the main function. The operation that takes the closure settles it (see adopt).
func (f *Function) Closure() (compute.Function, error) {
	parent := f
	if f == f.b.main && len(f.b.open) > 0 {
		parent = f.b.open[len(f.b.open)-1]
	}
	return f.b.newFunction(parent.fn.Closure(), "", parent), nil
}

// adopt makes closure c a child of f, the function whose operation takes it, and returns its body.
func (f *Function) adopt(closure compute.Function, op compute.OpType) (*stablehlo.Function, error) {
	c, ok := closure.(*Function)
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
	c.parent.children = slices.DeleteFunc(c.parent.children, func(child *Function) bool { return child == c })
	c.parent, c.fn.Parent = f, f.fn
	f.children = append(f.children, c)
	return c.fn, c.checkCaptures(op)
}

func (f *Function) checkCaptures(op compute.OpType) error {
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

func root(f *Function) *Function {
	for f.parent != nil {
		f = f.parent
	}
	return f
}

// Parameter implements [compute.Function]. Shardings are not supported.
func (f *Function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
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
	if output, ok := f.b.alias[name]; ok && f == f.b.main && f.b.target.compiledFor() == 1 {
		attributes = map[string]any{"tf.aliasing_output": int32(output)}
	}
	// Nested regions share one name space with the functions around them, so every input gets a number.
	unique := fmt.Sprintf("in%d_%s", f.b.inputs, stablehlo.ConvertToValidName(name))
	f.b.inputs++
	v, err := f.fn.NamedInputWithAttributes(unique, ToXLA(shape), attributes)
	if err != nil {
		return nil, f.fail(op, err)
	}
	f.params = append(f.params, name)
	f.paramShapes = append(f.paramShapes, shape.Clone())
	return f.node(v), nil
}

// Return implements [compute.Function].
func (f *Function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	for _, s := range shardings {
		if s != nil {
			return fmt.Errorf("xla: sharded outputs: %w", compute.ErrNotImplemented)
		}
	}
	values, err := f.useAll(outputs)
	if err != nil {
		return fmt.Errorf("xla: returning from %s: %w", f.describe(), err)
	}
	if f.fn.Statements, err = joinCalls(f.fn.Statements, f.calls, values, f.chainedCall); err != nil {
		return fmt.Errorf("xla: returning from %s: %w", f.describe(), err)
	}
	if err := f.fn.Return(values...); err != nil {
		return fmt.Errorf("xla: returning from %s: %w", f.describe(), err)
	}
	for _, v := range values {
		f.outputs = append(f.outputs, FromXLA(v.Shape()))
	}
	f.returned = true
	f.b.closed(f)
	return nil
}

// errReturned is the error of an operation in a function that has returned.
var errReturned = errors.New("the function has returned already")

// FFICall emits a custom call of the typed FFI. config is a dictionary of its attributes.
func (f *Function) FFICall(target, config string, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error) {
	outputs := make([]xlashapes.Shape, len(results))
	for i, s := range results {
		outputs[i] = ToXLA(s)
	}
	row := func(n int) [][]int { return make([][]int, n) } // row-major
	out, err := stablehlo.CustomCallV2(target, "", inputs, row(len(inputs)), outputs, row(len(results)))
	if err != nil {
		return nil, err
	}
	// The builder writes version 2; version 4 is the typed FFI, whose configuration is a dictionary.
	statement := f.LastStatement()
	statement.Attributes["api_version"] = int32(4)
	statement.Attributes["backend_config"] = MLIR(config)
	return out, nil
}

// chainedCall returns the statement of a custom call without adding it to the function. It is an [emitCall].
func (f *Function) chainedCall(target, config string, inputs []*stablehlo.Value, results []shapes.Shape,
	alias map[int]int) (*stablehlo.Statement, error) {
	if _, err := f.FFICall(target, config, inputs, results); err != nil {
		return nil, err
	}
	s := f.LastStatement()
	f.fn.Statements = f.fn.Statements[:len(f.fn.Statements)-1]
	SetAliases(s, alias, len(results))
	return s, nil
}

// LastStatement returns the statement that was emitted last.
func (f *Function) LastStatement() *stablehlo.Statement {
	return f.fn.Statements[len(f.fn.Statements)-1]
}

// JoinChain lets the last statement, a custom call of a kernel in C, become a part of a chain: see chain.go.
func (f *Function) JoinChain(target, config string, alias map[int]int) {
	f.calls[f.LastStatement()] = &call{target, config, alias}
}

// SetAliases sets which of a call's results are operands updated in place: result r is operand alias[r].
func SetAliases(s *stablehlo.Statement, alias map[int]int, results int) {
	var aliases []string
	for _, result := range slices.Sorted(maps.Keys(alias)) {
		place := "[]"
		if results > 1 {
			place = fmt.Sprintf("[%d]", result)
		}
		aliases = append(aliases,
			fmt.Sprintf(
				"#stablehlo.output_operand_alias<output_tuple_indices = %s, operand_index = %d, "+
					"operand_tuple_indices = []>", place, alias[result]))
	}
	if len(aliases) > 0 {
		s.Attributes["output_operand_aliases"] = MLIR("[" + strings.Join(aliases, ", ") + "]")
	}
}

// CallModule emits the call of a module's main function, which has inputs and outputs of these shapes: see
// [Builder.AddModule].
func CallModule(f *Function, key string, inputs, outputs []shapes.Shape, operands []*stablehlo.Value) (
	[]*stablehlo.Value, error) {
	// The function is declared in a module that is never printed, because its text comes from elsewhere.
	name, scratch := f.b.modules.names[key], f.b.scratch
	declared, results := scratch.NewFunction(name), scratch.NewFunction(name+"_results")
	for _, s := range inputs {
		if _, err := declared.Input(ToXLA(s)); err != nil {
			return nil, err
		}
	}
	for _, s := range outputs {
		v, err := results.Input(ToXLA(s))
		if err != nil {
			return nil, err
		}
		declared.Outputs = append(declared.Outputs, v)
	}
	declared.Returned = true
	return stablehlo.Call(declared, operands...)
}

// MLIR is an attribute that is already printed.
type MLIR string

// ToStableHLO is the method through which go-xla's builder prints attributes.
func (m MLIR) ToStableHLO() string { return string(m) }

// ToXLA returns a shape in go-xla's form.
func ToXLA(s shapes.Shape) xlashapes.Shape {
	return xlashapes.Make(s.DType, slices.Clone(s.Dimensions)...)
}

// FromXLA returns a shape in GoMLX's form.
func FromXLA(s xlashapes.Shape) shapes.Shape {
	return shapes.Make(s.DType, slices.Clone(s.Dimensions)...)
}
