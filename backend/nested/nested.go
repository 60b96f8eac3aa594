// Package nested wraps GoMLX's backend in pure Go so that it runs loops and branches inside one another.
//
// GoMLX creates every closure from the main function, so in that backend a closure sees the values of the main function
// only. The wrapper keeps a stack of the closures being built and creates each new one from the innermost. (Package xla
// does so itself.) It also avoids faults that the backend, of compute v0.1.3, has in closures: see the methods of
// function, and docs/upstream.md.
package nested

import (
	"errors"
	"reflect"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
)

// Wrap returns the backend, one of compute/gobackend made with "ops_sequential", with closures that nest. Without that
// option its pool of workers may come to a standstill, waiting for itself.
func Wrap(b compute.Backend) compute.Backend { return backend{b} }

type backend struct{ compute.Backend }

func (b backend) Builder(name string) compute.Builder {
	return &builder{Builder: b.Backend.Builder(name), backend: b}
}

type builder struct {
	compute.Builder
	backend backend
	open    []compute.Function // the backend's functions that have not returned, innermost last
}

func (b *builder) Main() compute.Function { return function{b.Builder.Main(), b} }

func (b *builder) NewFunction(name string) (compute.Function, error) {
	return b.begin(b.Builder.NewFunction(name))
}

func (b *builder) begin(f compute.Function, err error) (compute.Function, error) {
	if err != nil {
		return nil, err
	}
	b.open = append(b.open, f)
	return function{f, b}, nil
}

// function passes every operation on unchanged, except operations that make or take functions.
type function struct {
	compute.Function
	builder *builder
}

func (f function) Builder() compute.Builder { return f.builder }

func (f function) Closure() (compute.Function, error) {
	parent := f.Function
	if n := len(f.builder.open); n > 0 && f.Function == f.builder.Builder.Main() {
		parent = f.builder.open[n-1]
	}
	return f.builder.begin(parent.Closure())
}

func (f function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	open := f.builder.open
	if n := len(open); n > 0 && open[n-1] == f.Function {
		f.builder.open = open[:n-1]
	}
	outputs, err := f.own(outputs)
	if err != nil {
		return err
	}
	return f.Function.Return(outputs, shardings)
}

// own returns outputs that GoMLX's backend can return. No two are the same value, which they may be since the backend
// makes equal operations one node. The last is newer than every parameter and captured value, since the backend's
// arrays end at the newest output.
func (f function) own(outputs []compute.Value) ([]compute.Value, error) {
	outputs = slices.Clone(outputs)
	for i, v := range outputs {
		if i < len(outputs)-1 && !slices.Contains(outputs[:i], v) {
			continue
		}
		var err error
		if outputs[i], err = f.Function.Identity(v); err != nil {
			return nil, err
		}
	}
	return outputs, nil
}

func (f function) While(cond, body compute.Function, state ...compute.Value) ([]compute.Value, error) {
	return f.Function.While(inner(cond), inner(body), state...)
}

// If keeps its branches from owning captured values. On the last use of a buffer GoMLX's backend passes its ownership
// to the branch, and later frees it although the branch may have returned it. It passes no ownership of a value that
// is used twice, so each captured value is named twice.
func (f function) If(pred compute.Value, then, otherwise compute.Function) ([]compute.Value, error) {
	results, err := f.Function.If(pred, inner(then), inner(otherwise))
	if err != nil {
		return nil, err
	}
	unknown := errors.New(
		"nested: this version of GoMLX's Go backend keeps captured values elsewhere; Quire is built for compute v0.1.3")
	result := reflect.Indirect(reflect.ValueOf(results[0]))
	if result.Kind() != reflect.Struct {
		return nil, unknown
	}
	inputs := result.FieldByName("Inputs")
	if !inputs.IsValid() || inputs.Kind() != reflect.Slice || inputs.Len() != 1 {
		return nil, unknown
	}
	capture := inputs.Index(0).MethodByName("AddNodeCapturedInputs")
	for _, branch := range []compute.Function{inner(then), inner(otherwise)} {
		value := reflect.ValueOf(branch)
		if !capture.IsValid() || capture.Type().NumIn() != 1 || capture.Type().In(0) != value.Type() {
			return nil, unknown
		}
		capture.Call([]reflect.Value{value})
	}
	return results, nil
}

func (f function) Sort(comparator compute.Function, axis int, stable bool, inputs ...compute.Value) ([]compute.Value,
	error) {
	return f.Function.Sort(inner(comparator), axis, stable, inputs...)
}

func (f function) Call(callee compute.Function, inputs ...compute.Value) ([]compute.Value, error) {
	return f.Function.Call(inner(callee), inputs...)
}

// BroadcastInDim never keeps the rank: it drops an axis of size 1 before it repeats it. When GoMLX's backend compiles
// the main function, it fuses broadcasts that keep the rank into their users and renumbers the nodes. Closures are
// compiled by then and refer to the old numbers.
func (f function) BroadcastInDim(x compute.Value, shape shapes.Shape, axes []int) (compute.Value, error) {
	from, err := f.Function.Builder().OpShape(x)
	if err != nil {
		return nil, err
	}
	if from.IsDynamic() || shape.IsDynamic() || from.Rank() != shape.Rank() || len(axes) != from.Rank() ||
		!slices.IsSorted(axes) {
		return f.Function.BroadcastInDim(x, shape, axes)
	}
	if from.Equal(shape) {
		return x, nil
	}
	if one := slices.Index(from.Dimensions, 1); one >= 0 {
		dims := slices.Delete(slices.Clone(from.Dimensions), one, one+1)
		if x, err = f.Function.Reshape(x, dims...); err != nil {
			return nil, err
		}
		axes = slices.Delete(slices.Clone(axes), one, one+1)
	}
	return f.Function.BroadcastInDim(x, shape, axes)
}

func inner(f compute.Function) compute.Function {
	if g, ok := f.(function); ok {
		return g.Function
	}
	return f
}
