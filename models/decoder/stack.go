package decoder

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/control"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
)

// ErrLayersDiffer is what [CheckLayerLoop] wraps.
var ErrLayersDiffer = errors.New("the layers of the model are not alike")

// CheckLayerLoop tells whether the layers can be run as a loop: all of them compute the same with other numbers.
func CheckLayerLoop(cfg models.Config) error {
	if cfg.LayerEmbedding > 0 {
		return fmt.Errorf("%w: each has an embedding of its own", ErrLayersDiffer)
	}
	for i := range cfg.NumLayers {
		first, layer := cfg.Layers[0], cfg.Layers[i]
		layer.KVFrom = first.KVFrom
		switch {
		case layer.Mixer != arch.Attention:
			return fmt.Errorf("%w: layer %d keeps a state", ErrLayersDiffer, i)
		case layer.Latent != arch.Latent{}:
			return fmt.Errorf("%w: layer %d attends to latents, which is not done in a loop", ErrLayersDiffer, i)
		case layer.Rope != first.Rope:
			return fmt.Errorf("%w: layer %d turns queries and keys otherwise than layer 0", ErrLayersDiffer, i)
		case layer.Window != first.Window:
			return fmt.Errorf("%w: layer %d has a window of %d tokens, layer 0 of %d", ErrLayersDiffer, i,
				layer.Window, first.Window)
		case !cfg.Owns(i):
			return fmt.Errorf("%w: layer %d has no keys and values of its own", ErrLayersDiffer, i)
		case layer != first:
			return fmt.Errorf("%w: layer %d is of another kind than layer 0", ErrLayersDiffer, i)
		}
	}
	return nil
}

const layerPrefix = "layers."

// layerArray and expertArray name the stack that an array of a layer, or of an expert, is a member of.
func layerArray(a Array) (stack string, ok bool) {
	_, name, ok := strings.Cut(strings.TrimPrefix(a.Name, layerPrefix), ".")
	return layerPrefix + name, ok && strings.HasPrefix(a.Name, layerPrefix)
}

func expertArray(a Array) (stack string, ok bool) {
	layer, name, ok := strings.Cut(a.Name, "."+arch.ExpertPrefix)
	_, name, _ = strings.Cut(name, ".")
	return layer + "." + arch.ExpertPrefix + name, ok
}

// stack makes one array, [members, ...], of the arrays that are members of the same: "layers.qkv.weight" of
// "layers.0.qkv.weight" and so on.
func stack(list []Array, member func(a Array) (stack string, ok bool)) []Array {
	var out []Array
	at := map[string]int{}
	for _, a := range list {
		name, ok := member(a)
		if !ok {
			out = append(out, a)
			continue
		}
		i, seen := at[name]
		if !seen {
			i = len(out)
			at[name] = i
			whole := a
			whole.Name, whole.sources, whole.members, whole.experts = name, nil, nil, 0
			out = append(out, whole)
		}
		whole := &out[i]
		whole.members = append(whole.members, a)
		whole.Shape = shapes.Make(a.Shape.DType, slices.Insert(slices.Clone(a.Shape.Dimensions), 0,
			len(whole.members))...)
	}
	return out
}

// shareOut cuts the stacks of experts for groups of devices, each of which has some, and adds the number of the group.
func shareOut(list []Array, split Partition) []Array {
	for i := range list {
		a := &list[i]
		if a.members != nil {
			a.split, a.experts = split, split.experts(len(a.members))
			a.Shape = a.Shape.Clone()
			a.Shape.Dimensions[0] = a.experts
		}
	}
	return append(list, Array{Name: groupName, Shape: shapes.Make(dtypes.Int32), part: expertGroup, split: split})
}

// loop makes stacks of the arrays of layers.
func loop(list []Array) []Array {
	list = stack(list, layerArray)
	for i := range list {
		list[i].looped = strings.HasPrefix(list[i].Name, layerPrefix)
	}
	return list
}

// fillStack is fill of a stack.
func (a Array) fillStack(backend compute.Backend, flats []any, from *models.Checkpoint) error {
	places := collective.Places(backend)
	for i, member := range a.members {
		size := member.Shape.Size()
		parts := make([]any, len(flats)) // nil of devices without it
		for device, flat := range flats {
			at := i
			if a.experts > 0 {
				at -= a.split.group(places[device]) * a.experts
			}
			if flat != nil && at >= 0 && (a.experts == 0 || at < a.experts) {
				parts[device] = reflect.ValueOf(flat).Slice(at*size, (at+1)*size).Interface()
			}
		}
		if err := member.fill(backend, parts, from); err != nil {
			return fmt.Errorf("%s: %w", member.Name, err)
		}
	}
	return nil
}

// layer returns the arrays of one layer, by their names without it. Those of a stack are cut from it at a number on the
// device, i32[].
func (w Weights) layer(number int, at *Node) Weights {
	one := w
	one.nodes = map[string]*Node{}
	one.matrices = w.matrices
	if !w.stacked {
		one.prefix = fmt.Sprintf("%s%d.", layerPrefix, number)
		one.nodes = w.nodes
		return one
	}
	one.prefix, one.stacks, one.at = layerPrefix, w.nodes, at
	for name, n := range w.nodes {
		if !strings.HasPrefix(name, layerPrefix) {
			continue
		}
		dims := n.Shape().Dimensions
		start := []*Node{at}
		for len(start) < len(dims) {
			start = append(start, ScalarZero(at.Graph(), dtypes.Int32))
		}
		one.nodes[name] = Reshape(DynamicSlice(n, start, append([]int{1}, dims[1:]...)), dims[1:]...)
	}
	return one
}

// eachLayer runs the layers one after the other on hidden states and what attention keeps: as a loop where the weights
// are stacked.
func eachLayer(layers int, w Weights, x *Node, state []*Node,
	run func(layer Layer, w Weights, x *Node, state []*Node) (*Node, []*Node)) (*Node, []*Node) {
	if !w.stacked {
		for i := range layers {
			x, state = run(Layer{Number: i}, w.layer(i, nil), x, state)
		}
		return x, state
	}
	type progress struct {
		At, X *Node
		State []*Node
	}
	g := x.Graph()
	end := control.While(progress{ScalarZero(g, dtypes.Int32), x, state},
		func(p progress) *Node { return LessThan(p.At, Scalar(p.At.Graph(), dtypes.Int32, float64(layers))) },
		func(p progress) progress {
			x, state := run(Layer{At: p.At}, w.layer(0, p.At), p.X, p.State)
			return progress{AddScalar(p.At, 1), x, state}
		})
	return end.X, end.State
}
