// Package decoder computes models: it builds the graphs of all kinds of decoders from the records of their layers in
// [models.Config], and knows none by name.
//
// It does not open files: [Arrays] names the arrays it needs and the tensors of a checkpoint that they are made from.
package decoder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
)

// Storage describes how the arrays of a model are held.
type Storage struct {
	// Backend is the backend that holds them: its kernels may need packed matrices. If it is nil, all arrays are held
	// as in a checkpoint.
	Backend compute.Backend
	// DType is the dtype of arrays and activations: Float32, BFloat16 or Float16.
	DType dtypes.DType
	// Matrices is the dtype of matrices that are held as floats; DType by default.
	Matrices dtypes.DType
	// Int8 holds matrices as 8-bit integers with one scale per row.
	Int8 bool
	// Blocks returns the block format that a tensor is held in, by the tensor's name. It is called for matrices whose
	// rows, as devices hold them, are whole units; the zero format holds the tensor as floats. If Blocks is nil, no
	// tensor is held in blocks. Tensors that the checkpoint stores in a different form are rounded.
	Blocks func(tensor string) blocks.Format
	// LayerLoop holds the arrays of equal layers as one, [turns, ...], and makes [Hidden] run them as a loop: a
	// program then has fewer layers. Not every model allows it: see [LoopOf].
	LayerLoop bool
}

// Array is one array of the model on the device.
type Array struct {
	// Name is the array's name, such as "layers.3.qkv.weight". An array of several layers has the name of the first
	// one's array.
	Name string
	// Shape is [out] for a bias or a norm. Matrices [out, in] have the shape in which package linear holds them. If
	// several devices run the model together, it is the shape of each device's array.
	Shape shapes.Shape

	part    part
	plane   int           // the plane's index in linear.Format, for planes of a matrix
	sources []source      // concatenated along the first axis
	format  linear.Format // for matrices
	read    dtypes.DType  // the dtype that the sources are read as
	offset  float32       // added to the elements of a vector of float32

	activations dtypes.DType // dtype of the model's activations
	gateUp      bool         // for a matrix in parts: it has gates and ups

	split   Partition // for firstRow, firstKeys, expertGroup and experts
	perHead perHead   // for matrices of heads that are cut out of a tensor
	members []Array   // for stacks: the arrays along the first axis
	experts int       // how many members each device has, if they are divided; 0: all
	looped  bool      // it belongs to layers that run in a loop
}

// source is a tensor of the checkpoint, [rows, width], or [rows] with a width of 1.
type source struct {
	name        string // its Hugging Face name
	rows, width int
	// columns reports whether spans are columns rather than rows. spans returns the parts of the tensor that a device
	// has.
	columns bool
	spans   func(device int) []span
}

// Matrix returns how the array holds a matrix; ok is false for other arrays.
func (a Array) Matrix() (f linear.Format, ok bool) { return a.format, a.part == matrix }

// part is the role of an array.
type part int

const (
	vector part = iota
	matrix
	plane    // a plane of a matrix after the first
	firstRow // the number of the device's first row of the vocabulary
	// one number for each KV slot of the device: 1, or 0 if an earlier slot has the same head or the slot is empty
	firstKeys
	// The number of the device's group: see [Partition].
	expertGroup
)

// Arrays lists the arrays of a model, in the order in which programs take them. Projections that read the same input
// are one array: q, k and v; gate and up. If the backend is a group of devices, the arrays are one device's: see
// [Partition].
func Arrays(cfg models.Config, s Storage) []Array {
	split := NewPartition(cfg, collective.Devices(s.Backend))
	s.Blocks = alike(cfg, s.Blocks, expertKind)
	turns := loopOf(cfg, s.LayerLoop)
	s.Blocks = alike(cfg, s.Blocks, turns.kind)
	var names []string
	tensors := map[string][]arch.Tensor{} // tensors by the name of their array
	for t := range cfg.Tensors() {
		if tensors[t.Array] == nil {
			names = append(names, t.Array)
		}
		tensors[t.Array] = append(tensors[t.Array], t)
	}
	var list []Array
	for _, name := range names {
		list = append(list, s.of(tensors[name][0].Part).arrays(cfg, split, tensors[name])...)
		if name == string(arch.Embedding) && split.Devices > 1 {
			list = append(list, Array{Name: firstRowName, Shape: shapes.Make(dtypes.Int32), part: firstRow,
				split: split})
			if slices.ContainsFunc(cfg.Layers, func(l arch.Layer) bool { return l.QKNorm == arch.AllHeads }) {
				list = append(list, Array{Name: firstKeysName, Shape: shapes.Make(dtypes.Float32, split.KVHeads),
					part: firstKeys, split: split})
			}
		}
	}
	list = stack(list, expertArray)
	if split.ExpertGroups > 1 {
		list = shareOut(list, split)
	}
	return turns.stack(list)
}

// of returns how the matrices of a part are held. A router's matrix stays as floats, because rounding could change
// its choices.
func (s Storage) of(part arch.Part) Storage {
	if part.IsRouter() {
		s.Blocks, s.Int8 = nil, false
	}
	return s
}

// arrays returns the arrays that concatenated tensors make: a single one, or the planes of a matrix, or the planes of
// a matrix in parts if formats differ.
func (s Storage) arrays(cfg models.Config, split Partition, tensors []arch.Tensor) []Array {
	if parts := s.parts(tensors); len(parts) > 1 {
		var list []Array
		for i, part := range parts {
			for k := range part {
				part[k].Array = fmt.Sprintf("%s.%d", tensors[0].Array, i)
			}
			for _, a := range s.arrays(cfg, split, part) {
				a.gateUp = tensors[0].Part.IsGate()
				list = append(list, a)
			}
		}
		return list
	}
	first := tensors[0]
	cfg = cfg.OfLayer(first.Layer)
	split = NewPartition(cfg, split.Devices)
	if first.Part == arch.LatentUp {
		return s.latentUp(cfg, split, first)
	}
	a := Array{Name: first.Array, read: s.DType, activations: s.DType}
	rows := 0 // rows on a device
	for _, t := range tensors {
		spans, share := split.of(cfg, t)
		from := source{name: t.Name, rows: t.Shape[0], width: 1, columns: t.Axis == 1}
		if len(t.Shape) == 2 {
			from.width = t.Shape[1]
		}
		from.spans = shifted(rows, spans)
		if t.Over == arch.Whole {
			share = t.Shape[0]
			from.spans = shifted(rows, func(int) []span { return []span{{0, 0, share}} })
		}
		if t.Axis == 1 {
			a.format.In, rows = share, rows+t.Shape[0]
		} else {
			a.format.In, rows = from.width, rows+share
		}
		a.sources = append(a.sources, from)
	}
	if first.Part == arch.ConvTaps {
		a.Shape = shapes.Make(s.DType, rows, a.format.In)
		return []Array{a}
	}
	if len(first.Shape) == 1 {
		a.Shape = shapes.Make(s.DType, rows)
		if first.Part.IsWide() {
			a.read, a.Shape.DType = dtypes.Float32, dtypes.Float32
		}
		if cfg.Norm.Wide && (first.Part.IsNorm() || first.Part == arch.NormBias) {
			a.read, a.Shape.DType = dtypes.Float32, dtypes.Float32
		}
		if cfg.Norm.Wide && first.Part.IsNorm() {
			a.offset = float32(cfg.Norm.Offset)
		}
		return []Array{a}
	}
	gateUp := first.Part.IsGate() && len(tensors) > 1
	m := linear.Matrix{Out: rows, In: a.format.In, GateUp: gateUp, DType: s.DType}
	if s.Matrices != dtypes.InvalidDType {
		m.DType, a.read = s.Matrices, s.Matrices
	}
	switch format := s.format(a); {
	case format.Is():
		m.DType, m.Blocks = dtypes.Uint8, format
	case s.Int8:
		m.DType, a.read = dtypes.Int8, dtypes.Float32
	}
	a.format = linear.NewFormat(s.Backend, m)
	return a.planes()
}

// planes returns the arrays of a matrix.
func (a Array) planes() (list []Array) {
	for i, p := range a.format.Planes() {
		of := a
		of.Name, of.Shape, of.part, of.plane = a.Name+p.Suffix, p.Shape, matrix, i
		if i > 0 {
			of.part = plane
		}
		list = append(list, of)
	}
	return list
}

// shifted adds rows to the positions of spans.
func shifted(rows int, spans func(device int) []span) func(device int) []span {
	return func(device int) []span {
		moved := spans(device)
		for i := range moved {
			moved[i].to += rows
		}
		return moved
	}
}

// The names of arrays that are computed, not read.
const (
	firstRowName  = "embed.first"
	firstKeysName = "keys.first"
	groupName     = "experts.group"
)

const biasSuffix = ".bias"

// Weights holds the arrays of a model as graph nodes, by name.
type Weights struct {
	nodes    map[string]*graph.Node
	matrices map[string]Array
	dtype    dtypes.DType // dtype of activations
	looped   bool         // arrays of layers in a loop are [turns, ...]
	prefix   string       // prefix of the names of one layer's arrays
	// If layers run in a loop, stacks are the arrays of all of them, and turn is the current iteration.
	stacks map[string]*graph.Node
	turn   *graph.Node
}

// NewWeights names nodes in the order of [Arrays].
func NewWeights(arrays []Array, nodes []*graph.Node) Weights {
	w := Weights{nodes: make(map[string]*graph.Node, len(arrays)), matrices: map[string]Array{}}
	for i, a := range arrays {
		w.nodes[a.Name] = nodes[i]
		w.looped = w.looped || a.looped
		if a.part == matrix {
			w.matrices[a.Name], w.dtype = a, a.activations
		}
	}
	return w
}

func (w Weights) get(name string) *graph.Node {
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
		held := linear.NewWeight(a.format, func(suffix string) *graph.Node { return w.stacks[w.prefix+name+suffix] })
		held.At = []*graph.Node{w.turn}
		return held
	} else if ok {
		return linear.NewWeight(a.format, func(suffix string) *graph.Node { return w.get(name + suffix) })
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
