package tree

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Leaf describes a leaf of a tree.
type Leaf struct {
	Name  string // as in [Names]
	Shape shapes.Shape
	// Apart reports whether the leaf gets its own array in a [Packing].
	Apart bool
}

// LeavesOf describes the leaves of a host twin.
func LeavesOf(arrays []Array) []Leaf {
	leaves := make([]Leaf, len(arrays))
	for i, a := range arrays {
		leaves[i] = Leaf{Name: a.Name, Shape: a.Shape, Apart: a.apart}
	}
	return leaves
}

// Packing describes how the leaves of a tree are held in few arrays. Each array that is copied to or from a device has
// a fixed cost, independent of its size. Leaves of bool, int32, uint32 and float32 are concatenated in the first array;
// a bool takes 32 bits. Other leaves, and leaves with Apart set, have their own array.
type Packing struct {
	leaves []Leaf
	places []place // one for each leaf
	arrays []Leaf
}

// place is the position of a leaf in the packing: the array, and the offset of its first element there.
type place struct{ array, offset int }

// packedName is the name of the array that the leaves share.
const packedName = "packed"

// NewPacking returns a packing of leaves.
func NewPacking(leaves []Leaf) *Packing {
	p := &Packing{leaves: leaves, places: make([]place, len(leaves))}
	isShared := func(l Leaf) bool { return !l.Apart && isWord(l.Shape.DType) }
	if slices.ContainsFunc(leaves, isShared) {
		size := 0
		for i, l := range leaves {
			if isShared(l) {
				p.places[i] = place{0, size}
				size += l.Shape.Size()
			}
		}
		p.arrays = append(p.arrays, Leaf{Name: packedName, Shape: shapes.Make(dtypes.Int32, size)})
	}
	for i, l := range leaves {
		if !isShared(l) {
			p.places[i] = place{array: len(p.arrays)}
			p.arrays = append(p.arrays, l)
		}
	}
	return p
}

func isWord(d dtypes.DType) bool {
	switch d {
	case dtypes.Bool, dtypes.Int32, dtypes.Uint32, dtypes.Float32:
		return true
	}
	return false
}

// Leaves describes the leaves that are packed.
func (p *Packing) Leaves() []Leaf { return p.leaves }

// Arrays describes the arrays that hold the leaves.
func (p *Packing) Arrays() []Leaf { return p.arrays }

// ArrayOf returns the number of the array that holds the leaf with this number.
func (p *Packing) ArrayOf(leaf int) int { return p.places[leaf].array }

// isWhole reports whether a leaf has its own array, in its own dtype.
func (p *Packing) isWhole(leaf int) bool { return p.arrays[p.places[leaf].array].Name != packedName }

// Pack builds the arrays from the leaves.
func (p *Packing) Pack(leaves []*graph.Node) []*graph.Node {
	p.check(len(leaves), len(p.leaves))
	arrays := make([]*graph.Node, len(p.arrays))
	var words []*graph.Node
	for i, n := range leaves {
		if p.isWhole(i) {
			arrays[p.places[i].array] = n
			continue
		}
		switch n.DType() {
		case dtypes.Bool:
			n = graph.ConvertDType(n, dtypes.Int32)
		case dtypes.Uint32, dtypes.Float32:
			n = graph.Bitcast(n, dtypes.Int32)
		}
		words = append(words, graph.Reshape(n, n.Shape().Size()))
	}
	if len(words) > 0 {
		arrays[0] = graph.Concatenate(words, 0)
	}
	return arrays
}

// Unpack builds the leaves from the arrays.
func (p *Packing) Unpack(arrays []*graph.Node) []*graph.Node {
	p.check(len(arrays), len(p.arrays))
	leaves := make([]*graph.Node, len(p.leaves))
	for i, l := range p.leaves {
		n, offset := arrays[p.places[i].array], p.places[i].offset
		if !p.isWhole(i) {
			n = graph.Reshape(graph.SliceAxis(n, 0, graph.AxisRange(offset, offset+l.Shape.Size())),
				l.Shape.Dimensions...)
			switch l.Shape.DType {
			case dtypes.Bool:
				n = graph.NotEqual(n, graph.ZerosLike(n))
			case dtypes.Uint32, dtypes.Float32:
				n = graph.Bitcast(n, l.Shape.DType)
			}
		}
		leaves[i] = n
	}
	return leaves
}

func (p *Packing) check(actual, want int) {
	if actual != want {
		panic(fmt.Errorf("tree.Packing: %d nodes for %d", actual, want))
	}
}

// New allocates the arrays on the host, as flat slices of zeros.
func (p *Packing) New() []any {
	flats := make([]any, len(p.arrays))
	for i, a := range p.arrays {
		flats[i] = flatOf(a.Shape)
	}
	return flats
}

// Put copies the leaves of a host twin to the arrays. The places of absent leaves keep their contents.
func (p *Packing) Put(flats []any, twin []Array) { p.move(flats, twin, false) }

// Take copies the leaves of a host twin from the arrays. See [Store].
func (p *Packing) Take(flats []any, twin []Array) { p.move(flats, twin, true) }

func (p *Packing) move(flats []any, twin []Array, out bool) {
	for i, l := range p.leaves {
		if len(twin) == 0 || twin[0].Name != l.Name {
			continue
		}
		leaf := twin[0]
		twin = twin[1:]
		if mask, ok := leaf.Flat.([]bool); ok && !p.isWhole(i) {
			words := flats[p.places[i].array].([]int32)[p.places[i].offset:][:len(mask)]
			for j := range mask {
				if out {
					mask[j] = words[j] != 0
				} else {
					words[j] = word(mask[j])
				}
			}
			continue
		}
		ours, theirs := Bytes(flats[p.places[i].array]), Bytes(leaf.Flat)
		if !p.isWhole(i) {
			ours = ours[4*p.places[i].offset:]
		}
		if len(ours) < len(theirs) || leaf.Shape.Size() != l.Shape.Size() {
			panic(fmt.Errorf("tree.Packing: %s of %s is packed as %s", l.Name, leaf.Shape, l.Shape))
		}
		if out {
			copy(theirs, ours)
		} else {
			copy(ours, theirs)
		}
	}
	if len(twin) > 0 {
		panic(fmt.Errorf("tree.Packing: %s is not packed, or is in a different order", twin[0].Name))
	}
}

func word(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// Bytes views a flat slice of numbers as bytes.
func Bytes(flat any) []byte {
	switch x := flat.(type) {
	case []bool:
		return bytesOf(x)
	case []int32:
		return bytesOf(x)
	case []int64:
		return bytesOf(x)
	case []uint32:
		return bytesOf(x)
	case []float32:
		return bytesOf(x)
	}
	panic(fmt.Errorf("tree: a host twin cannot have a field of type %T", flat))
}

func bytesOf[T any](x []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(one)))
}

// flatOf allocates a flat slice for an array.
func flatOf(shape shapes.Shape) any {
	n := shape.Size()
	switch shape.DType {
	case dtypes.Bool:
		return make([]bool, n)
	case dtypes.Int32:
		return make([]int32, n)
	case dtypes.Int64:
		return make([]int64, n)
	case dtypes.Uint32:
		return make([]uint32, n)
	case dtypes.Float32:
		return make([]float32, n)
	}
	panic(fmt.Errorf("tree: a host twin cannot have a field of type %s", shape.DType))
}
