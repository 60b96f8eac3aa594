package decoder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// rankMultiple is what ranks are rounded up to, so that sums have the same order whatever the largest rank is.
const rankMultiple = 16

// AdapterArray is an array of low-rank matrices: those that each slot's adapter has for one matrix of the model.
type AdapterArray struct {
	Name string
	// Shape is [slots, ...], or [turns*slots, ...] for layers in a loop.
	Shape shapes.Shape

	matrix string // the array of the model
	up     bool   // it is B, else A
	embeds bool   // the matrix is of embeddings: B is [vocabulary, ranks], and A is transposed
	format linear.Format
	turns  [][]source // what the matrix is concatenated from, for each turn of a loop
	slots  int
	rank   int // of an adapter, for each tensor
}

// AdapterArrays lists the arrays of adapters, with room for slots of them of a rank. adapts reports which tensors of
// the model any of the adapters changes. A matrix of several tensors, such as q, k and v, has the ranks of all of them:
// its A is their As one after the other, and its B has theirs on the diagonal.
//
// If the backend is a group of devices, the arrays are one device's: B of a matrix whose rows are divided has the
// device's rows, and A of one whose columns are divided has the device's columns, so that what it makes of the device's
// inputs is a part of the sum.
func AdapterArrays(cfg models.Config, s Storage, slots, rank int, adapts func(tensor string) bool) []AdapterArray {
	loop := loopOf(cfg, s.LayerLoop)
	var names []string
	turns := map[string][][]arch.Tensor{}
	wanted := map[string]bool{}
	last := map[string]string{} // the array that the last tensors of a matrix were for
	for t := range cfg.Untied().Tensors() {
		name := t.Array
		switch {
		case len(t.Shape) != 2:
			continue
		case strings.HasPrefix(t.Array, layerPrefix):
			body, _, _ := loop.Body(t.Layer)
			_, rest, _ := strings.Cut(strings.TrimPrefix(t.Array, layerPrefix), ".")
			name = fmt.Sprintf("%s%d.%s", layerPrefix, body, rest)
		case t.Part != arch.Embedding && t.Part != arch.Head:
			continue
		}
		if turns[name] == nil {
			names = append(names, name)
		}
		if last[name] != t.Array {
			turns[name], last[name] = append(turns[name], nil), t.Array
		}
		n := len(turns[name]) - 1
		turns[name][n] = append(turns[name][n], t)
		wanted[name] = wanted[name] || adapts(t.Name)
	}
	rank = ceilDiv(rank, rankMultiple) * rankMultiple
	devices := collective.Devices(s.Backend)
	var list []AdapterArray
	for _, name := range names {
		if !wanted[name] {
			continue
		}
		a := AdapterArray{matrix: name, slots: slots, rank: rank}
		in := 0
		for _, tensors := range turns[name] {
			layer := cfg.OfLayer(tensors[0].Layer)
			var sources []source
			sources, in = NewPartition(layer, devices).sources(layer, tensors)
			a.turns = append(a.turns, sources)
		}
		first, out := turns[name][0][0], 0
		for _, n := range a.parts() {
			out += n
		}
		ranks := rank * len(a.turns[0])
		down, up := a, a
		down.Name, down.format = name+".adapters.a", linear.NewFormat(s.Backend, linear.Matrix{Out: ranks, In: in,
			DType: s.DType})
		up.Name, up.up, up.format = name+".adapters.b", true, linear.Format{Matrix: linear.Matrix{Out: ranks, In: out,
			DType: s.DType}} // its transpose: rows are ranks
		if first.Part == arch.Embedding {
			down.embeds, up.embeds = true, true
			down.format = linear.NewFormat(s.Backend, linear.Matrix{Out: in, In: rank, DType: s.DType})
			up.format = linear.Format{Matrix: linear.Matrix{Out: out, In: rank, DType: s.DType}}
		}
		for _, a := range []AdapterArray{down, up} {
			one := a.format.Shape()
			a.Shape = shapes.Make(one.DType, append([]int{slots * len(a.turns)}, one.Dimensions...)...)
			list = append(list, a)
		}
	}
	return list
}

// parts are a device's outputs of the tensors that the matrix is concatenated from.
func (a AdapterArray) parts() (outputs []int) {
	for _, from := range a.turns[0] {
		outputs = append(outputs, from.held)
	}
	return outputs
}

// OfSlot is the array of a single slot.
func (a AdapterArray) OfSlot() AdapterArray {
	a.slots, a.Shape = 1, a.Shape.Clone()
	a.Shape.Dimensions[0] = len(a.turns)
	return a
}

// PlaceSlot returns the array all after one slot, number slot i32[] from 0, was replaced by one, which is shaped as
// [AdapterArray.OfSlot].
func (a AdapterArray) PlaceSlot(all, one, slot *Node) *Node {
	rest, first := a.Shape.Dimensions[1:], ZerosLike(slot)
	starts := []*Node{first, slot}
	for range rest {
		starts = append(starts, first)
	}
	byTurn := Reshape(all, append([]int{len(a.turns), a.slots}, rest...)...)
	one = Reshape(one, append([]int{len(a.turns), 1}, rest...)...)
	return Reshape(DynamicUpdateSlice(byTurn, one, starts), a.Shape.Dimensions...)
}

// Put writes what an adapter has for the matrix to its slot in flat, the elements of the array on a device of
// [collective.Places]. The slot has zeros at first, or what Put wrote for another adapter.
func (a AdapterArray) Put(backend compute.Backend, device int, flat any, slot int, from *adapter.Adapter) error {
	to := slotOf{a, backend, device, slot, from}
	switch flat := flat.(type) {
	case []float32:
		return put(to, flat)
	case []bfloat16.BFloat16:
		return put(to, flat)
	case []float16.Float16:
		return put(to, flat)
	}
	return fmt.Errorf("decoder: adapters are not held as %T", flat)
}

// slotOf is a slot of an array on a device, and the adapter that it is to hold.
type slotOf struct {
	AdapterArray
	backend compute.Backend
	device  int
	slot    int
	from    *adapter.Adapter
}

func put[E adapter.Element](a slotOf, flat []E) error {
	size := a.format.Shape().Size()
	for turn, sources := range a.turns {
		to := flat[(turn*a.slots+a.slot)*size:][:size]
		var err error
		switch {
		case a.embeds:
			err = putEmbedding(a, to, sources[0])
		case a.up:
			err = putUp(a, to, sources)
		default:
			err = putDown(a, to, sources)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// putDown writes the As of the tensors one after the other.
func putDown[E adapter.Element](a slotOf, to []E, sources []source) error {
	if slices.ContainsFunc(sources, func(s source) bool { return a.from.RankOf(s.name) < a.rank }) {
		clear(to) // not all is written
	}
	in := a.format.In
	for part, s := range sources {
		rank := a.from.RankOf(s.name)
		if rank == 0 {
			continue
		}
		rows := make([]E, rank*s.width)
		if err := adapter.WriteDown(a.from, s.name, adapter.Grid[E]{To: rows, Rank: s.width, Place: 1}); err != nil {
			return err
		}
		if cuts := s.spans(a.device); s.columns && !slices.Equal(cuts, []span{{0, 0, s.width}}) {
			rows = cutColumns(rows, source{rows: rank, width: s.width}, cuts, in).([]E)
		}
		if err := a.format.Pack(a.backend, to, rows, part*a.rank); err != nil {
			return err
		}
	}
	return nil
}

// putUp writes scale * B of the tensors, transposed, on the diagonal. What is not on it stays zero.
func putUp[E adapter.Element](a slotOf, to []E, sources []source) error {
	outputs, column := a.format.In, 0
	for part, s := range sources {
		block, rank, cuts := to[part*a.rank*outputs:], a.from.RankOf(s.name), s.spans(a.device)
		switch {
		case rank == 0:
		case s.columns, slices.Equal(cuts, []span{{0, column, s.rows}}): // all of it
			err := adapter.WriteUp(a.from, s.name, adapter.Grid[E]{To: block[column:], Rank: outputs, Place: 1})
			if err != nil {
				return err
			}
		default:
			all := make([]E, rank*s.rows)
			if err := adapter.WriteUp(a.from, s.name, adapter.Grid[E]{To: all, Rank: s.rows, Place: 1}); err != nil {
				return err
			}
			for _, cut := range cuts {
				for k := range rank {
					copy(block[k*outputs+cut.to:][:cut.n], all[k*s.rows+cut.from:])
				}
			}
		}
		for k := rank; k < a.rank; k++ {
			clear(block[k*outputs+column:][:s.held])
		}
		column += s.held
	}
	return nil
}

// putEmbedding writes scale * B, or A transposed, with rows of all ranks.
func putEmbedding[E adapter.Element](a slotOf, to []E, s source) error {
	rank, cuts := a.from.RankOf(s.name), s.spans(a.device)
	if rank < a.rank {
		clear(to)
	}
	switch {
	case rank == 0:
		return nil
	case a.up && slices.Equal(cuts, []span{{0, 0, s.rows}}):
		return adapter.WriteUp(a.from, s.name, adapter.Grid[E]{To: to, Rank: 1, Place: a.rank})
	case a.up:
		all := make([]E, s.rows*a.rank)
		if err := adapter.WriteUp(a.from, s.name, adapter.Grid[E]{To: all, Rank: 1, Place: a.rank}); err != nil {
			return err
		}
		for _, cut := range cuts {
			copy(to[cut.to*a.rank:][:cut.n*a.rank], all[cut.from*a.rank:])
		}
		return nil
	}
	rows := make([]E, a.format.Out*a.rank)
	if err := adapter.WriteDown(a.from, s.name, adapter.Grid[E]{To: rows, Rank: 1, Place: a.rank}); err != nil {
		return err
	}
	return a.format.Pack(a.backend, to, rows, 0)
}

// Adapters are the arrays of adapters as graph nodes.
type Adapters struct {
	arrays map[string]linear.Adapters // by the array of the model, without the rows'
	slots  int
}

// NewAdapters names nodes in the order of [AdapterArrays]; nil if there are none.
func NewAdapters(arrays []AdapterArray, nodes []*Node) *Adapters {
	if len(arrays) == 0 {
		return nil
	}
	all := &Adapters{arrays: map[string]linear.Adapters{}, slots: arrays[0].slots}
	for i, a := range arrays {
		pair := all.arrays[a.matrix]
		if pair.Parts = a.parts(); a.up {
			pair.Up = nodes[i]
		} else {
			pair.Down = linear.NewWeight(a.format, func(string) *Node { return nodes[i] })
		}
		all.arrays[a.matrix] = pair
	}
	return all
}

// WithAdapters returns weights that have adapters.
func (w Weights) WithAdapters(all *Adapters) Weights {
	w.adapters = all
	return w
}

// Adapting returns weights for tokens with adapters of these numbers, i32[T]: 1 is the one in the first slot, and 0
// stands for none. Numbers of nil leave the weights as they are.
func (w Weights) Adapting(numbers *Node) Weights {
	if w.adapters != nil && numbers != nil {
		w.adapted = SubScalar(numbers, 1)
	}
	return w
}

// adaptersOf returns the adapters of a matrix of the layer; nil if there are none.
func (w Weights) adaptersOf(name string) *linear.Adapters {
	if w.adapted == nil {
		return nil
	}
	pair, ok := w.adapters.arrays[w.prefix+name]
	if !ok {
		return nil
	}
	pair.Of = w.adapted
	return &pair
}

// ofTurn are the weights in a turn of a loop, in which slots have other places in the arrays.
func (w Weights) ofTurn(turn *Node) Weights {
	if w.adapted == nil {
		return w
	}
	first := BroadcastToDims(MulScalar(turn, w.adapters.slots), w.adapted.Shape().Dimensions...)
	w.adapted = Where(LessThan(w.adapted, ZerosLike(w.adapted)), w.adapted, Add(w.adapted, first))
	return w
}
