package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/decoder"
	"github.com/quire/quire/tree"
)

// compiled is a program ready to run.
type compiled struct {
	program
	executable compute.Executable
	numState   int
	output     []leaf
}

// donor is a backend that updates arguments in place: parameter name to the index of the result that takes its memory.
type donor interface {
	Donating(alias map[string]int) compute.Backend
}

// compile builds and compiles a program. Panics of graph building become errors here.
func (gr *graphs) compile(backend compute.Backend, p program) (c *compiled, err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = fmt.Errorf("building program %s: %w", p.name, cause)
		}
	}()
	scratch := NewGraph(backend, p.name+" state")
	like := gr.newState(scratch)
	names, leaves := tree.Names(like), tree.Leaves(like)
	if p.build == nil {
		if err := scratch.Compile(leaves...); err != nil {
			return nil, fmt.Errorf("compiling program %s: %w", p.name, err)
		}
		return &compiled{program: p, executable: scratch.Executable(), numState: len(leaves)}, nil
	}
	if d, ok := backend.(donor); ok && !p.reads {
		alias := make(map[string]int, len(names))
		for i, name := range names {
			alias[parameterName("st", name)] = i
		}
		backend = d.Donating(alias)
	}
	g := NewGraph(backend, p.name)
	nodes := make([]*Node, len(leaves))
	for i, leaf := range leaves {
		nodes[i] = Parameter(g, parameterName("st", names[i]), leaf.Shape())
	}
	st := tree.Rebuild(like, nodes)
	nodes = make([]*Node, len(p.input))
	for i, leaf := range p.input {
		nodes[i] = Parameter(g, parameterName("in", leaf.name), leaf.shape)
	}
	var w decoder.Weights
	if p.weights {
		weights := make([]*Node, len(gr.arrays))
		for i, param := range gr.arrays {
			weights[i] = Parameter(g, parameterName("w", param.Name), param.Shape)
		}
		w = decoder.NewWeights(gr.arrays, weights)
	}
	st, out, own := p.build(st, w, nodes)
	results := tree.Leaves(out)
	if !p.reads {
		results = append(tree.Leaves(st), results...)
	}
	if err := g.Compile(results...); err != nil {
		return nil, fmt.Errorf("compiling program %s: %w", p.name, err)
	}
	c = &compiled{program: p, executable: g.Executable(), numState: len(leaves), output: leavesOfNodes(out, own)}
	if p.twin != nil {
		if _, _, err := p.twin(c.output); err != nil {
			return nil, fmt.Errorf("the output of program %s: %w", p.name, err)
		}
	}
	return c, nil
}

func parameterName(of, leaf string) string { return of + "_" + strings.ReplaceAll(leaf, ".", "_") }

// leaf is the name and shape of one array of an input or output.
type leaf struct {
	name  string
	shape shapes.Shape
	// own says that each device of a group has an array of its own: on the host they are one behind the other. All else
	// is the same on all.
	own bool
}

// leavesOf are those of a host twin.
func leavesOf(arrays []tree.Array) []leaf {
	leaves := make([]leaf, len(arrays))
	for i, a := range arrays {
		leaves[i] = leaf{name: a.Name, shape: a.Shape}
	}
	return leaves
}

// leavesOfNodes are those of a tree, some of which are each device's own.
func leavesOfNodes(v any, own []*Node) []leaf {
	names, nodes := tree.Names(v), tree.Leaves(v)
	leaves := make([]leaf, len(names))
	for i, n := range nodes {
		leaves[i] = leaf{names[i], n.Shape(), slices.Contains(own, n)}
	}
	return leaves
}

// twinOf makes a host twin of an output.
func twinOf[T any](output []leaf) (any, []tree.Array, error) {
	names, of := make([]string, len(output)), make([]shapes.Shape, len(output))
	for i, l := range output {
		names[i], of[i] = l.name, l.shape
	}
	return tree.Like[T](names, of)
}
