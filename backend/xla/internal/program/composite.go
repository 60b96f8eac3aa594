package program

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"
	xlashapes "github.com/gomlx/go-xla/types/shapes"
)

// composites are the native operations of every platform.
var composites = map[string]Emitter{
	"scatter_set": emitScatterSet,
}

// Composites returns the native operations of a platform that need no kernel.
func Composites(platform string) map[string]Emitter {
	native := maps.Clone(composites)
	if platform == "cuda" {
		native["barrier"], native["after"] = emitBarrier, emitAfter
	}
	if platform == "tpu" {
		native["row_major"] = emitRowMajor
	}
	return native
}

// emitBarrier is "barrier": its one input. The compiler may not move operations across it, nor merge operations before
// it with operations after it. Without it XLA:GPU merges a gather from an array with the scatter into the same array,
// and then has to copy the array.
func emitBarrier(_ *Function, _ json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	return stablehlo.OptimizationBarrier(inputs...)
}

// emitAfter is "after": its first input, after a barrier that waits for the second. Without it XLA:GPU makes one kernel
// of the gathers of all layers, whose results then take memory at the same time.
func emitAfter(_ *Function, _ json.RawMessage, inputs []*stablehlo.Value, _ []shapes.Shape) ([]*stablehlo.Value,
	error) {
	out, err := stablehlo.OptimizationBarrier(inputs...)
	if err != nil {
		return nil, err
	}
	return out[:1], nil
}

// emitRowMajor is "row_major": its one input, row-major in memory. XLA:TPU prefers other layouts for operands of some
// operations and propagates them to the program's arguments, which it then has to copy.
func emitRowMajor(f *Function, _ json.RawMessage, inputs []*stablehlo.Value,
	results []shapes.Shape) ([]*stablehlo.Value, error) {
	rowMajor := [][]int{nil}
	out, err := stablehlo.CustomCallV2("LayoutConstraint", "", inputs, rowMajor, []xlashapes.Shape{ToXLA(results[0])},
		rowMajor)
	if err != nil {
		return nil, err
	}
	f.LastStatement().Attributes["api_version"] = int32(1) // the builder writes version 2
	return out, nil
}

// emitScatterSet is "scatter_set" with attribute axes = k (1 if absent): operand [A1..Ak, ...], indices int32 [N, k],
// updates [N, ...]; the result is operand with the elements at indices[i] of its first k axes replaced by updates[i].
// Indices out of range are dropped; if two are equal, either update may stay.
func emitScatterSet(f *Function, attrs json.RawMessage, inputs []*stablehlo.Value,
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
