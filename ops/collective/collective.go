// Package collective sums, concatenates and redistributes arrays over the devices that run one program together, each
// on its own arrays.
//
// Every device must reach each operation, in the same order. On one device each operation returns its operand.
package collective

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// Group is implemented by a backend whose programs run on several devices together.
type Group interface {
	// Partitions is how many devices run each program.
	Partitions() int
	// Places returns this process' devices among the partitions, ascending. These are all of them unless other
	// processes have some.
	Places() []int
	// Member returns a backend for the i-th of this process' devices alone.
	Member(i int) (compute.Backend, error)
	// Join makes one buffer of the members' arrays, which have the same shape and are in the members' order. It takes
	// ownership of them.
	Join(parts []compute.Buffer) (compute.Buffer, error)
}

// Devices returns how many devices run the backend's programs together: 1 unless the backend is a [Group].
func Devices(backend compute.Backend) int {
	if g, ok := backend.(Group); ok {
		return g.Partitions()
	}
	return 1
}

// Places returns this process' devices among all that run the backend's programs together.
func Places(backend compute.Backend) []int {
	if g, ok := backend.(Group); ok {
		return g.Places()
	}
	return []int{0}
}

// Members returns a backend for each of this process' devices alone: the backend itself if it is no group.
func Members(backend compute.Backend) ([]compute.Backend, error) {
	g, ok := backend.(Group)
	if !ok || g.Partitions() == 1 {
		return []compute.Backend{backend}, nil
	}
	members := make([]compute.Backend, len(g.Places()))
	for i := range members {
		var err error
		if members[i], err = g.Member(i); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// Join makes one buffer of the members' arrays, of which it takes ownership: see [Group].
func Join(backend compute.Backend, parts []compute.Buffer) (compute.Buffer, error) {
	if g, ok := backend.(Group); ok && g.Partitions() > 1 {
		return g.Join(parts)
	}
	return parts[0], nil
}

// Sum returns the sum of the devices' arrays x, which have the same shape, on each device. All devices get the same
// bits. The devices exchange numbers of x's dtype; how often a sum of 16-bit numbers is rounded depends on the
// platform.
func Sum(x *graph.Node) *graph.Node {
	if Devices(x.Graph().Backend()) == 1 {
		return x
	}
	return exchange("all_reduce", struct{}{}, x.Shape(), x)
}

// Concatenate concatenates the devices' arrays x, which have the same shape, along an axis, in the order of the
// group. Each device gets the result.
func Concatenate(x *graph.Node, axis int) *graph.Node {
	devices := Devices(x.Graph().Backend())
	if devices == 1 {
		return x
	}
	shape := x.Shape().Clone()
	shape.Dimensions[axis] *= devices
	return exchange("all_gather", map[string]int{"axis": axis}, shape, x)
}

// AllToAll gives each device its part of all devices' arrays x, which have the same shape. It divides the arrays along
// the axis split into as many parts as there are devices. Each device gets the parts of its place in the group, i32[],
// concatenated along the axis concat in the order of the group. The number of devices must divide the axis split.
func AllToAll(x, place *graph.Node, split, concat int) *graph.Node {
	devices := Devices(x.Graph().Backend())
	if devices == 1 {
		return x
	}
	shape := x.Shape().Clone()
	shape.Dimensions[split] /= devices
	shape.Dimensions[concat] *= devices
	return exchange("all_to_all", map[string]int{"split": split, "concat": concat}, shape, x, place)
}

// exchange applies an operation that only the backend provides.
func exchange(op string, attrs any, result shapes.Shape, x ...*graph.Node) *graph.Node {
	plain := func([]*graph.Node) []*graph.Node { panic(fmt.Errorf("collective: the backend has no %s", op)) }
	return control.Composite(op, attrs, x, []shapes.Shape{result}, plain)[0]
}
