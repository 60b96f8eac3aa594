package engine

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/llama"
	"github.com/quire/quire/tree"
)

// compiled is a program ready to run.
type compiled struct {
	program
	executable compute.Executable
	numState   int
	input      []leaf
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
	var inputLeaves []leaf
	if p.input != nil {
		inputLeaves = leavesOf(p.input(scratch))
	}
	g := NewGraph(backend, p.name)
	nodes := make([]*Node, len(leaves))
	for i, leaf := range leaves {
		nodes[i] = Parameter(g, parameterName("st", names[i]), leaf.Shape())
	}
	st := tree.Rebuild(like, nodes)
	nodes = make([]*Node, len(inputLeaves))
	for i, leaf := range inputLeaves {
		nodes[i] = Parameter(g, parameterName("in", leaf.name), leaf.shape)
	}
	var w llama.Weights
	if p.weights {
		weights := make([]*Node, len(gr.arrays))
		for i, param := range gr.arrays {
			weights[i] = Parameter(g, parameterName("w", param.Name), param.Shape)
		}
		w = llama.NewWeights(gr.arrays, weights)
	}
	st, out := p.build(st, w, nodes)
	results := tree.Leaves(out)
	if !p.reads {
		results = append(tree.Leaves(st), results...)
	}
	if err := g.Compile(results...); err != nil {
		return nil, fmt.Errorf("compiling program %s: %w", p.name, err)
	}
	return &compiled{program: p, executable: g.Executable(), numState: len(leaves), input: inputLeaves,
		output: leavesOf(out)}, nil
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

// pagesLeaf begins the names of leaves that are pages of a cache.
const pagesLeaf = "Layers."

// size is how many elements the leaf has on the host.
func (l leaf) size(devices int) int {
	if l.own {
		return devices * l.shape.Size()
	}
	return l.shape.Size()
}

func leavesOf(v any) []leaf {
	names, nodes := tree.Names(v), tree.Leaves(v)
	leaves := make([]leaf, len(names))
	for i, n := range nodes {
		leaves[i] = leaf{names[i], n.Shape(), names[i] == clockLeaf || strings.HasPrefix(names[i], pagesLeaf)}
	}
	return leaves
}
