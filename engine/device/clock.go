package device

import (
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// clockSums is the index of the first sum in a clock: the time of the rounds with number 0.
const clockSums = 2

var clockShape = shapes.Make(dtypes.Int64, clockSums+decode+1)

// newClock makes a clock of the rounds of the program's loop: see quire_step_clock in package cpukernel. It returns nil
// if the backend has no clock; nothing is measured then.
func newClock(g *Graph) *Node {
	kind := shapes.Make(dtypes.Int32)
	shapes := []shapes.Shape{clockShape, kind}
	if !control.Replaces(g.Backend(), "step_clock", struct{}{}, shapes, shapes) {
		return nil
	}
	return Zeros(g, clockShape)
}

// tick marks everything from now on as work of kind todo. It returns todo, and whatever depends on the result runs
// after the tick.
func tick(clock, todo *Node) (after, same *Node) {
	if clock == nil {
		return nil, todo
	}
	in := []*Node{clock, todo}
	out := control.Composite("step_clock", struct{}{}, in, []shapes.Shape{clock.Shape(), todo.Shape()},
		func(in []*Node) []*Node { return in })
	return out[0], out[1]
}

// Spent returns how long the rounds of a call ran prompts and decoded; false if there was no clock.
func Spent(o *Output) (prompts, decoding time.Duration, ok bool) {
	if o.Clock == nil {
		return 0, 0, false
	}
	return time.Duration(o.Clock[clockSums+prefill]), time.Duration(o.Clock[clockSums+decode]), true
}
