package device

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/ops/tree"
)

// Compiled is a program ready to run.
type Compiled struct {
	Program
	Executable compute.Executable
	NumState   int // leaves of the state, without extras
	State      []Leaf
	Extras     []Leaf // leaves of the state after these: see package feature
	Output     []Leaf // what the host gets
	// Packing describes how the arrays that the program returns hold the output; nil if each leaf is an array of its
	// own.
	Packing *tree.Packing
}

// packed is how the arrays of an input's twin are given to a program.
func packed(arrays []tree.Array) *tree.Packing { return tree.NewPacking(tree.LeavesOf(arrays)) }

// donor is a backend that updates arguments in place: parameter name to the index of the result that takes its memory.
type donor interface {
	Donating(alias map[string]int) compute.Backend
}

// recovered makes an error of a panic while a program was built. It is to be deferred.
func recovered(program string, err *error) {
	if r := recover(); r != nil {
		cause, ok := r.(error)
		if !ok {
			cause = fmt.Errorf("%v", r)
		}
		*err = fmt.Errorf("building program %s: %w", program, cause)
	}
}

// Compile builds and compiles a program. Panics of graph building become errors here.
func (gr *Graphs) Compile(backend compute.Backend, p Program) (c *Compiled, err error) {
	defer recovered(p.Name, &err)
	scratch := NewGraph(backend, p.Name+" state")
	like := gr.newState(scratch)
	numState := len(tree.Leaves(like))
	if p.hasExtras {
		like.Extras = gr.newExtras(scratch)
	}
	names, leaves := tree.Names(like), tree.Leaves(like)
	if p.build == nil {
		if err := scratch.Compile(leaves...); err != nil {
			return nil, fmt.Errorf("compiling program %s: %w", p.Name, err)
		}
		return &Compiled{Program: p, Executable: scratch.Executable(), NumState: len(leaves),
			State: leavesOfNodes(like, nil)}, nil
	}
	if d, ok := backend.(donor); ok && !p.Reads {
		alias := make(map[string]int, len(names))
		for i, name := range names {
			alias[parameterName("st", name)] = i
		}
		backend = d.Donating(alias)
	}
	g := NewGraph(backend, p.Name)
	nodes := make([]*Node, len(leaves))
	for i, leaf := range leaves {
		nodes[i] = Parameter(g, parameterName("st", names[i]), leaf.Shape())
	}
	st := tree.Rebuild(like, nodes)
	nodes = nil
	for _, leaf := range p.Input.Arrays() {
		nodes = append(nodes, Parameter(g, parameterName("in", leaf.Name), leaf.Shape))
	}
	nodes = p.Input.Unpack(nodes)
	for _, leaf := range p.Own {
		nodes = append(nodes, Parameter(g, parameterName("in", leaf.Name), leaf.Shape))
	}
	var w weights
	if p.Weights {
		w.Weights = gr.weights(g, "w")
	}
	if p.Drafts {
		w.Drafter = gr.Drafter.weights(g, "dw")
	}
	if p.Adapters {
		w.Weights = w.Weights.WithAdapters(gr.adapters(g))
	}
	for _, leaf := range p.Resident {
		nodes = append(nodes, Parameter(g, parameterName("re", leaf.Name), leaf.Shape))
	}
	st, out, own := p.build(st, w, nodes)
	all := leavesOfNodes(like, nil)
	c = &Compiled{Program: p, NumState: numState, State: all[:numState], Extras: all[numState:],
		Output: leavesOfNodes(out, own)}
	results := tree.Leaves(out)
	if p.twin != nil {
		if _, _, err := p.twin(c.Output); err != nil {
			return nil, fmt.Errorf("the output of program %s: %w", p.Name, err)
		}
		c.Packing = packingOf(c.Output)
		results = c.Packing.Pack(results)
	}
	if !p.Reads {
		results = append(tree.Leaves(st), results...)
	}
	if err := g.Compile(results...); err != nil {
		return nil, fmt.Errorf("compiling program %s: %w", p.Name, err)
	}
	c.Executable = g.Executable()
	return c, nil
}

// weights are the parameters that have the model's arrays.
func (gr *Graphs) weights(g *Graph, owner string) decoder.Weights {
	nodes := make([]*Node, len(gr.Arrays))
	for i, param := range gr.Arrays {
		nodes[i] = Parameter(g, parameterName(owner, param.Name), param.Shape)
	}
	return decoder.NewWeights(gr.Arrays, nodes)
}

// adapters are the parameters that have the arrays of adapters.
func (gr *Graphs) adapters(g *Graph) *decoder.Adapters {
	nodes := make([]*Node, len(gr.AdapterArrays))
	for i, a := range gr.AdapterArrays {
		nodes[i] = Parameter(g, parameterName("ad", a.Name), a.Shape)
	}
	return decoder.NewAdapters(gr.AdapterArrays, nodes)
}

// CompilePlacement compiles a program that places an adapter on a device whose memory the host cannot write. It takes
// the arrays of adapters, for each the adapter's numbers, shaped as [decoder.AdapterArray.OfSlot], and the slot's
// number, i32. It updates the arrays in place and returns them.
func (gr *Graphs) CompilePlacement(backend compute.Backend) (_ compute.Executable, err error) {
	const name = "place adapter"
	defer recovered(name, &err)
	alias := map[string]int{}
	for i, a := range gr.AdapterArrays {
		alias[parameterName("ad", a.Name)] = i
	}
	if d, ok := backend.(donor); ok {
		backend = d.Donating(alias)
	}
	g := NewGraph(backend, name)
	all := make([]*Node, len(gr.AdapterArrays))
	for i, a := range gr.AdapterArrays {
		all[i] = Parameter(g, parameterName("ad", a.Name), a.Shape)
	}
	ones := make([]*Node, len(all))
	for i, a := range gr.AdapterArrays {
		ones[i] = Parameter(g, parameterName("slot", a.Name), a.OfSlot().Shape)
	}
	slot := Parameter(g, "slot", shapes.Make(dtypes.Int32))
	for i, one := range ones {
		all[i] = gr.AdapterArrays[i].PlaceSlot(all[i], one, slot)
	}
	if err := g.Compile(all...); err != nil {
		return nil, fmt.Errorf("compiling program %s: %w", name, err)
	}
	return g.Executable(), nil
}

func parameterName(owner, leaf string) string {
	return owner + "_" + strings.ReplaceAll(leaf, ".", "_")
}

// Leaf is the name and shape of one array of an input or output.
type Leaf struct {
	Name  string
	Shape shapes.Shape
	// Own reports that each device of a group has an array of its own, which the host holds one after another. All
	// other arrays are the same on all devices.
	Own bool
}

// packingOf is the packing of an output: what is each device's own stays apart.
func packingOf(output []Leaf) *tree.Packing {
	leaves := make([]tree.Leaf, len(output))
	for i, l := range output {
		leaves[i] = tree.Leaf{Name: l.Name, Shape: l.Shape, Apart: l.Own}
	}
	return tree.NewPacking(leaves)
}

// leavesOfNodes returns the leaves of a tree. The leaves in own differ from device to device.
func leavesOfNodes(v any, own []*Node) []Leaf {
	names, nodes := tree.Names(v), tree.Leaves(v)
	leaves := make([]Leaf, len(names))
	for i, n := range nodes {
		leaves[i] = Leaf{names[i], n.Shape(), slices.Contains(own, n)}
	}
	return leaves
}

// twinOf makes a host twin of an output.
func twinOf[T any](output []Leaf) (any, []tree.Array, error) {
	names, leafShapes := make([]string, len(output)), make([]shapes.Shape, len(output))
	for i, l := range output {
		names[i], leafShapes[i] = l.Name, l.Shape
	}
	return tree.Like[T](names, leafShapes)
}

// NewOutput makes the host twin of the output, and views of its arrays.
func (c *Compiled) NewOutput() (twin any, arrays []tree.Array, err error) { return c.twin(c.Output) }

// UpdatesState reports whether the program takes the state and returns it updated in place. Programs that make or only
// read the state don't.
func (p Program) UpdatesState() bool { return p.build != nil && !p.Reads }

// MakesState reports whether the program makes the state.
func (p Program) MakesState() bool { return p.build == nil }
