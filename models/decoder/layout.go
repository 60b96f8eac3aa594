package decoder

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/linear"
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
		list = append(list, s.forPart(tensors[name][0].Part).arrays(cfg, split, tensors[name])...)
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

// forPart returns how the matrices of a part are held. A router's matrix stays as floats, because rounding could change
// its choices, and so do small tables and layers that an encoder applies once.
func (s Storage) forPart(part arch.Part) Storage {
	if part.IsRouter() || part.IsOfEncoder() {
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
	a.sources, a.format.In = split.sources(cfg, tensors)
	for _, from := range a.sources {
		rows += from.held
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

// sources lists the parts of tensors that are concatenated to one array, and returns its columns on each device.
func (s Partition) sources(cfg models.Config, tensors []arch.Tensor) (list []source, in int) {
	rows := 0 // rows on a device
	for _, t := range tensors {
		spans, share := s.spansOf(cfg, t)
		from := source{name: t.Name, rows: t.Shape[0], width: 1, columns: t.Axis == 1}
		if len(t.Shape) == 2 {
			from.width = t.Shape[1]
		}
		from.spans = shifted(rows, spans)
		if t.Over == arch.Whole {
			share = t.Shape[0]
			from.spans = shifted(rows, func(int) []span { return []span{{0, 0, share}} })
		}
		in, from.held = from.width, share
		if t.Axis == 1 {
			in, from.held = share, t.Shape[0]
		}
		list, rows = append(list, from), rows+from.held
	}
	return list, in
}

// planes returns the arrays of a matrix.
func (a Array) planes() (list []Array) {
	for i, p := range a.format.Planes() {
		array := a
		array.Name, array.Shape, array.part, array.plane = a.Name+p.Suffix, p.Shape, matrix, i
		if i > 0 {
			array.part = plane
		}
		list = append(list, array)
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
