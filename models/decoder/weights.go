package decoder

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/linear"
)

// Weights holds the arrays of a model as graph nodes, by name.
type Weights struct {
	nodes    map[string]*Node
	matrices map[string]Array
	dtype    dtypes.DType // dtype of activations
	looped   bool         // arrays of layers in a loop are [turns, ...]
	prefix   string       // prefix of the names of one layer's arrays
	// If layers run in a loop, stacks are the arrays of all of them, and turn is the current iteration.
	stacks map[string]*Node
	turn   *Node
	// adapters are the low-rank adapters of layers, and adapted, i32[T], the place of each token's in their arrays; -1
	// for none. Both are nil if the model has none.
	adapters *Adapters
	adapted  *Node
}

// NewWeights names nodes in the order of [Arrays].
func NewWeights(arrays []Array, nodes []*Node) Weights {
	w := Weights{nodes: make(map[string]*Node, len(arrays)), matrices: map[string]Array{}}
	for i, a := range arrays {
		w.nodes[a.Name] = nodes[i]
		w.looped = w.looped || a.looped
		if a.part == matrix {
			w.matrices[a.Name], w.dtype = a, a.activations
		}
	}
	return w
}

func (w Weights) get(name string) *Node {
	n, ok := w.nodes[w.prefix+name]
	if !ok {
		panic(fmt.Errorf("decoder: the model has no array %q", w.prefix+name))
	}
	return n
}

func (w Weights) matrix(name string) linear.Weight {
	a, ok := w.matrices[w.prefix+name]
	ofExpert := strings.HasPrefix(name, arch.ExpertPrefix) && !a.format.Packed()
	if ok && w.turn != nil && (a.format.InSlices() || ofExpert) {
		// Cut an expert's matrix from the stack of all layers: if it were cut from the layer's stack, that one would
		// be copied with all its experts.
		held := linear.NewWeight(a.format, func(suffix string) *Node { return w.stacks[w.prefix+name+suffix] })
		held.At = []*Node{w.turn}
		return held
	} else if ok {
		return linear.NewWeight(a.format, func(suffix string) *Node { return w.get(name + suffix) })
	}
	var parts []linear.Weight
	gateUp := false
	for i := 0; ; i++ {
		part := fmt.Sprintf("%s.%d", name, i)
		a, ok := w.matrices[w.prefix+part]
		if !ok {
			break
		}
		parts, gateUp = append(parts, w.matrix(part)), a.gateUp
	}
	if parts == nil {
		panic(fmt.Errorf("decoder: the model has no matrix %q", w.prefix+name))
	}
	return linear.NewParts(parts, gateUp)
}

// layer returns the arrays of one layer. For a layer in a loop, they are cut from the stacks on the device.
func (w Weights) layer(layer Layer) Weights {
	one := w
	one.prefix = fmt.Sprintf("%s%d.", layerPrefix, layer.Number)
	if layer.Turn == nil {
		return one
	}
	one = one.ofTurn(layer.Turn)
	one.nodes, one.stacks, one.turn = map[string]*Node{}, w.nodes, layer.Turn
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) { // sorted, so that a program's text is always the same
		if !strings.HasPrefix(name, one.prefix) {
			continue
		}
		n := w.nodes[name]
		dims := n.Shape().Dimensions
		start := []*Node{layer.Turn}
		for len(start) < len(dims) {
			start = append(start, ScalarZero(n.Graph(), dtypes.Int32))
		}
		one.nodes[name] = Reshape(DynamicSlice(n, start, append([]int{1}, dims[1:]...)), dims[1:]...)
	}
	return one
}
