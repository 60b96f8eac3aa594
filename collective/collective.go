// Package collective sums and concatenates arrays over the devices that run one program together, each on its own
// arrays.
//
// Every device must reach each operation, in the same order. On one device each operation returns its operand.
package collective

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
)

// Group is what a backend implements whose programs run on several devices together.
type Group interface {
	// Partitions is how many devices run each program.
	Partitions() int
	// Places are those of this process' devices among them, ascending: all, unless other processes have some.
	Places() []int
	// Member is a backend on one of this process' devices alone, the i-th.
	Member(i int) (compute.Backend, error)
	// Join makes one buffer of arrays of the same shape that the members hold, in their order, which it takes over.
	Join(parts []compute.Buffer) (compute.Buffer, error)
}

// Devices returns how many devices run the backend's programs together; 1 for a backend that is no [Group].
func Devices(backend compute.Backend) int {
	if g, ok := backend.(Group); ok {
		return g.Partitions()
	}
	return 1
}

// Places returns those of this process' devices among all that run the backend's programs together.
func Places(backend compute.Backend) []int {
	if g, ok := backend.(Group); ok {
		return g.Places()
	}
	return []int{0}
}

// Sum returns the sum of the devices' arrays x, all of one shape, on each of them: bit for bit the same on all.
func Sum(x *graph.Node) *graph.Node {
	if Devices(x.Graph().Backend()) == 1 {
		return x
	}
	return exchange("all_reduce", struct{}{}, x, x.Shape())
}

// Concatenate returns the devices' arrays x, all of one shape, one behind the other on an axis, in the order of the
// group, on each of them.
func Concatenate(x *graph.Node, axis int) *graph.Node {
	devices := Devices(x.Graph().Backend())
	if devices == 1 {
		return x
	}
	shape := x.Shape().Clone()
	shape.Dimensions[axis] *= devices
	return exchange("all_gather", map[string]int{"axis": axis}, x, shape)
}

// exchange is an operation that only the backend has.
func exchange(op string, attrs any, x *graph.Node, result shapes.Shape) *graph.Node {
	return control.Composite(op, attrs, []*graph.Node{x}, []shapes.Shape{result}, func([]*graph.Node) []*graph.Node {
		panic(fmt.Errorf("collective: the backend has no %s", op))
	})[0]
}
