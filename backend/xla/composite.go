package xla

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// compositePrefix begins the names of functions that stand for native operations: "quire.composite/<op>/<json
// attributes>/<unique>".
const compositePrefix = "quire.composite/"

// emitter emits the native form of a composite in function f. results are the shapes the composite was declared with.
type emitter func(f *function, attrs json.RawMessage, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error)

// composite is what the name of a composite says.
type composite struct {
	op     string
	attrs  json.RawMessage
	native emitter
}

// composites are the native operations of every platform.
var composites = map[string]emitter{
	"scatter_set": emitScatterSet,
}

func nativeComposites(platform string) map[string]emitter {
	native := maps.Clone(composites)
	if platform == "cuda" {
		native["barrier"], native["after"] = emitBarrier, emitAfter
	}
	if platform == "tpu" {
		native["row_major"] = emitRowMajor
	}
	return native
}

// emitBarrier is "barrier": its one input, and the compiler may not move operations across it, nor merge those before
// with those behind. XLA:GPU merges a gather from an array with the scatter into the same one, and then has to copy the
// array.
func emitBarrier(_ *function, _ json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	return stablehlo.OptimizationBarrier(inputs...)
}

// emitAfter is "after": its first input, behind a barrier that waits for the second one. XLA:GPU makes one kernel of
// the gathers of all layers, and their results are then held together.
func emitAfter(_ *function, _ json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	out, err := stablehlo.OptimizationBarrier(inputs...)
	if err != nil {
		return nil, err
	}
	return out[:1], nil
}

// emitRowMajor is "row_major": its one input, row-major in memory. XLA:TPU prefers other layouts for operands of some
// operations, and carries its wish to the program's arguments, of which it then makes copies.
func emitRowMajor(f *function, _ json.RawMessage, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error) {
	rowMajor := [][]int{nil}
	out, err := stablehlo.CustomCallV2("LayoutConstraint", "", inputs, rowMajor, []xlashapes.Shape{toXLA(results[0])},
		rowMajor)
	if err != nil {
		return nil, err
	}
	f.lastStatement().Attributes["api_version"] = int32(1) // the builder writes version 2
	return out, nil
}

// ReplacesComposite reports whether the backend has a native form of the composite op: the call of a function named
// "quire.composite/<op>/<json attributes>/<unique>" is then replaced by it, and the function's body only declares
// shapes.
func (b *Backend) ReplacesComposite(op string) bool { return b.composites[op] != nil }

// parseComposite returns what name stands for, or nil if it is an ordinary name.
func (b *builder) parseComposite(name string) (*composite, error) {
	rest, ok := strings.CutPrefix(name, compositePrefix)
	if !ok {
		return nil, nil
	}
	op, rest, found := strings.Cut(rest, "/")
	end := strings.LastIndex(rest, "/")
	if !found || end < 0 || !json.Valid([]byte(rest[:end])) {
		return nil, fmt.Errorf("xla: %q is no name of a composite: it takes the form %s<op>/<json attributes>/<unique>",
			name, compositePrefix)
	}
	native := b.backend.composites[op]
	if native == nil {
		return nil, fmt.Errorf("xla: composite %q on %s: %w", op, b.backend.platform, compute.ErrNotImplemented)
	}
	return &composite{op: op, attrs: json.RawMessage(rest[:end]), native: native}, nil
}

// emit replaces a call, from f, of the stand-in function t.
func (c *composite) emit(f, t *function, inputs []*stablehlo.Value) ([]*stablehlo.Value, error) {
	out, err := c.native(f, c.attrs, inputs, t.outputs)
	if err != nil {
		return nil, fmt.Errorf("composite %q: %w", c.op, err)
	}
	if len(out) != len(t.outputs) {
		return nil, fmt.Errorf("composite %q returns %d results, declared are %d", c.op, len(out), len(t.outputs))
	}
	for i, v := range out {
		if s := fromXLA(v.Shape()); !s.Equal(t.outputs[i]) {
			return nil, fmt.Errorf("composite %q returns %s as result %d, declared is %s", c.op, s, i, t.outputs[i])
		}
	}
	return out, nil
}

// emitScatterSet is "scatter_set" with attribute axes = k (1 if absent): operand [A1..Ak, ...], indices int32 [N, k],
// updates [N, ...]; the result is operand with the elements at indices[i] of its first k axes replaced by updates[i].
// Indices out of range are dropped; where two are the same, either update may stay.
func emitScatterSet(f *function, attrs json.RawMessage, inputs []*stablehlo.Value,
	_ []shapes.Shape) ([]*stablehlo.Value, error) {
	a := struct{ Axes int }{Axes: 1}
	if err := json.Unmarshal(attrs, &a); err != nil {
		return nil, fmt.Errorf("attributes %s: %w", attrs, err)
	}
	if len(inputs) != 3 {
		return nil, fmt.Errorf("it takes an operand, indices and updates, not %d inputs", len(inputs))
	}
	operand, indices, updates := inputs[0], inputs[1], inputs[2]
	if s := indices.Shape(); s.Rank() != 2 || s.Dimensions[1] != a.Axes || a.Axes > operand.Shape().Rank() {
		return nil,
			fmt.Errorf("indices of shape %s do not address %d axes of an operand of shape %s: they must be [N, %d]", s,
				a.Axes, operand.Shape(), a.Axes)
	}
	s := scatter{indexVectorAxis: 1}
	for axis := range a.Axes {
		s.insertedAxes = append(s.insertedAxes, axis)
		s.operandAxes = append(s.operandAxes, axis)
	}
	for axis := 1; axis < updates.Shape().Rank(); axis++ {
		s.windowAxes = append(s.windowAxes, axis)
	}
	out, err := f.emitScatter(takeSecond, operand, indices, updates, s)
	return []*stablehlo.Value{out}, err
}
