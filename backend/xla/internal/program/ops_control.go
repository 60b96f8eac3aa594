package program

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/stablehlo"
)

// This file has the operations that take functions, and barriers. Each method implements the one of [compute.Function]
// of its name.

func (f *Function) While(cond, body compute.Function, initial ...compute.Value) ([]compute.Value, error) {
	op := compute.OpTypeWhile
	c, err := f.adopt(cond, op)
	if err != nil {
		return nil, err
	}
	b, err := f.adopt(body, op)
	if err != nil {
		return nil, err
	}
	state, err := f.useAll(initial)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := stablehlo.While(c, b, state...)
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.nodes(out), nil
}

func (f *Function) If(pred compute.Value, onTrue, onFalse compute.Function) ([]compute.Value, error) {
	op := compute.OpTypeIf
	t, err := f.adopt(onTrue, op)
	if err != nil {
		return nil, err
	}
	e, err := f.adopt(onFalse, op)
	if err != nil {
		return nil, err
	}
	p, err := f.use(pred)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := stablehlo.If(p, t, e)
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.nodes(out), nil
}

func (f *Function) Sort(comparator compute.Function, axis int, stable bool, inputs ...compute.Value) ([]compute.Value,
	error) {
	op := compute.OpTypeSort
	c, err := f.adopt(comparator, op)
	if err != nil {
		return nil, err
	}
	if owners := comparator.(*Function).captured; len(owners) > 0 {
		return nil,
			f.fail(op,
				fmt.Errorf(
					"its comparator uses a value of %s, which XLA does not allow: sort by a computed key instead",
					owners[0].describe()))
	}
	vs, err := f.useAll(inputs)
	if err != nil {
		return nil, f.fail(op, err)
	}
	out, err := stablehlo.Sort(c, axis, stable, vs...)
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.nodes(out), nil
}

func (f *Function) Call(target compute.Function, inputs ...compute.Value) ([]compute.Value, error) {
	op := compute.OpTypeCall
	t, ok := target.(*Function)
	switch {
	case !ok || t.b != f.b || t.parent != nil:
		return nil, f.fail(op, errors.New("its target must be a named function of the same program"))
	case !t.returned:
		return nil, f.fail(op, fmt.Errorf("function %q has not returned", t.name))
	case len(inputs) != len(t.params):
		return nil, f.fail(op, fmt.Errorf("function %q takes %d inputs, not %d", t.name, len(t.params), len(inputs)))
	}
	vs, err := f.useAll(inputs)
	if err != nil {
		return nil, f.fail(op, err)
	}
	for i, v := range vs {
		if s := FromXLA(v.Shape()); !s.Equal(t.paramShapes[i]) {
			return nil, f.fail(op, fmt.Errorf("input %q of function %q is %s, not %s", t.params[i], t.name, s,
				t.paramShapes[i]))
		}
	}
	var out []*stablehlo.Value
	switch {
	case t.composite != nil:
		out, err = t.composite.emit(f, t, vs)
	case len(vs) == 0:
		err = fmt.Errorf("function %q has no inputs: %w", t.name, compute.ErrNotImplemented)
	default:
		out, err = stablehlo.Call(t.fn, vs...)
	}
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.nodes(out), nil
}

// composite is what the name of a composite contains.
type composite struct {
	op     string
	attrs  json.RawMessage
	native Emitter
}

// emit replaces a call of the stand-in function t in f.
func (c *composite) emit(f, t *Function, inputs []*stablehlo.Value) ([]*stablehlo.Value, error) {
	out, err := c.native(f, c.attrs, inputs, t.outputs)
	if err != nil {
		return nil, fmt.Errorf("composite %q: %w", c.op, err)
	}
	if len(out) != len(t.outputs) {
		return nil, fmt.Errorf("composite %q returns %d results, declared are %d", c.op, len(out), len(t.outputs))
	}
	for i, v := range out {
		if s := FromXLA(v.Shape()); !s.Equal(t.outputs[i]) {
			return nil, fmt.Errorf("composite %q returns %s as result %d, declared is %s", c.op, s, i, t.outputs[i])
		}
	}
	return out, nil
}

// OptimizationBarrier doubles a lone operand, as XLA:CPU miscompiles a barrier of one.
func (f *Function) OptimizationBarrier(operands ...compute.Value) ([]compute.Value, error) {
	op := compute.OpTypeOptimizationBarrier
	vs, err := f.useAll(operands)
	if err != nil {
		return nil, f.fail(op, err)
	}
	if len(vs) == 1 {
		vs = append(vs, vs[0])
	}
	out, err := stablehlo.OptimizationBarrier(vs...)
	if err != nil {
		return nil, f.fail(op, err)
	}
	return f.nodes(out[:len(operands)]), nil
}

// SchedulingBarrier is an optimization barrier over the operand and its dependencies.
func (f *Function) SchedulingBarrier(operand compute.Value, dependencies ...compute.Value) (compute.Value, error) {
	out, err := f.OptimizationBarrier(append([]compute.Value{operand}, dependencies...)...)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}
