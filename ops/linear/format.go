package linear

import (
	"fmt"
	"reflect"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/blocks"
)

// Packer is what a backend implements whose native forms of "linear" and "linear_rows" read packed matrices.
type Packer interface {
	// LinearLayout returns how the backend wants matrices of a dtype: [panels, in/group, panel, group], where panel is
	// how many rows of the matrix lie together, and in is padded with zeros to a multiple. ok is false if it takes them
	// as they are.
	LinearLayout(dtype dtypes.DType) (panel, group, multiple int, ok bool)
	// PackLinear packs rows of a row-major matrix [out, in], those from the given one on, into packed, which begins as
	// zeros. Both are given as their bytes. Gates and ups are packed in turns of [Turn] rows.
	PackLinear(packed, rows []byte, dtype dtypes.DType, out, in int, gateUp bool, from int) error
	// PackBlocks is PackLinear of a matrix in blocks. Its layout is Uint8's, and only panel counts.
	PackBlocks(packed []byte, rows *blocks.Rows, out int, gateUp bool, from int) error
	// BlocksShape is the shape of bytes that holds such a matrix.
	BlocksShape(f blocks.Format, out, in int, gateUp bool) []int
}

// Turn is how many gates, then ups, lie together in a packed matrix of both.
const Turn = 16

// Matrix is the matrix [Out, In] of a linear layer. A mixture of experts would be one more axis in front, of its own
// field here: all of its matrices have the same shape.
type Matrix struct {
	Out, In int
	// GateUp reports whether the rows come from two matrices, gates first, then ups.
	GateUp bool
	// DType is of the matrix's elements: a float, or Int8 with scales, or Uint8 in blocks.
	DType dtypes.DType
	// Blocks is the format of a matrix in blocks, whose rows are whole units of it.
	Blocks blocks.Format
}

// Format is how a matrix is held.
type Format struct {
	Matrix
	// Panel, Group and Multiple are what [Packer] returns for packed matrices; they are 0 if the matrix is [Out, In].
	Panel, Group, Multiple int
	// units and unitBytes are the last dimensions of a packed matrix in blocks.
	units, unitBytes int
	// slice is how many rows a slice of a matrix in blocks has; 0 if the matrix is whole.
	slice int
	// width is how many numbers a row of floats or of int8 takes; the numbers after In are 0. A width of 0 means In.
	width int
}

// NewFormat returns the form that a backend wants a matrix in.
func NewFormat(on compute.Backend, m Matrix) Format {
	f, traits := Format{Matrix: m}, backend.Of(on)
	if m.Blocks.Is() && m.In%m.Blocks.Unit() != 0 {
		panic(fmt.Errorf("linear: rows of %d numbers are not whole units of %s", m.In, m.Blocks))
	}
	if p, ok := on.(Packer); ok {
		if panel, group, multiple, packs := p.LinearLayout(m.DType); packs {
			f.Panel, f.Group, f.Multiple = panel, group, multiple
			if m.Blocks.Is() {
				dims := p.BlocksShape(m.Blocks, m.Out, m.In, m.GateUp)
				f.units, f.unitBytes = dims[1], dims[2]
			}
		}
	}
	if m.Blocks.Is() && !f.Packed() && traits.WritesBlocks {
		f.slice = m.rowsOfSlices(sliceNumbers)
	}
	// Else a TPU would have the rows of a large matrix last in memory, and turn it around to look up rows.
	if !m.Blocks.Is() && !f.Packed() && traits.Lanes > 0 && m.In%traits.Lanes != 0 && m.Out*m.In > sliceNumbers {
		f.width = ceil(m.In, traits.Lanes) * traits.Lanes
	}
	return f
}

// rowWidth is how many numbers a row of a matrix takes that is neither packed nor in blocks.
func (f Format) rowWidth() int { return max(f.In, f.width) }

// Packed reports whether the matrix is held in panels.
func (f Format) Packed() bool { return f.Panel > 0 }

// Columns is how many outputs a layer has: half of Out for gates and ups.
func (m Matrix) Columns() int {
	if m.GateUp {
		return m.Out / 2
	}
	return m.Out
}

// Plane is one of the arrays that hold a matrix.
type Plane struct {
	// Suffix follows the matrix's name: "" for the first plane.
	Suffix string
	Shape  shapes.Shape
}

// Suffixes of planes after the first.
const (
	scalesSuffix  = ".scales"
	factorsSuffix = ".factors"
)

// Planes are the arrays that hold the matrix.
func (f Format) Planes() []Plane {
	planes := []Plane{{"", f.Shape()}}
	switch {
	case f.Blocks.Is() && !f.Packed():
		return append(planes, f.blockPlanes()...)
	case f.DType == dtypes.Int8:
		return append(planes, Plane{scalesSuffix, f.ScalesShape()})
	}
	return planes
}

// Form names how the numbers are held: the format of their blocks, or their dtype.
func (f Format) Form() string {
	if f.Blocks.Is() {
		return f.Blocks.String()
	}
	return f.DType.String()
}

// Bytes is what the matrix takes.
func (f Format) Bytes() int64 {
	n := int64(0)
	for _, p := range f.Planes() {
		n += int64(p.Shape.Memory())
	}
	return n
}

// Shape is the shape of the array that holds the matrix, or its first plane.
func (f Format) Shape() shapes.Shape {
	switch {
	case f.Blocks.Is() && !f.Packed():
		return f.plane(dtypes.Uint8, f.In*f.Blocks.Bits/8)
	case !f.Packed():
		return shapes.Make(f.DType, f.Out, f.rowWidth())
	}
	rows := f.Out
	if f.GateUp {
		rows = ceil(f.Out/2, Turn) * 2 * Turn
	}
	if f.Blocks.Is() {
		return shapes.Make(dtypes.Uint8, ceil(rows, f.Panel), f.units, f.unitBytes)
	}
	return shapes.Make(f.DType, ceil(rows, f.Panel), ceil(f.In, f.Multiple)*f.Multiple/f.Group, f.Panel, f.Group)
}

// ScalesShape is the shape of the scales of an Int8 matrix.
func (f Format) ScalesShape() shapes.Shape { return shapes.Make(dtypes.Float32, f.Out) }

func ceil(a, b int) int { return (a + b - 1) / b }

// Pack writes rows of the matrix, from the given one on, to packed, a flat slice of the size of [Format.Shape] that
// begins as zeros. rows is a flat slice too, row-major; both are of the dtype's Go type.
func (f Format) Pack(backend compute.Backend, packed, rows any, from int) error {
	to, source := reflect.ValueOf(packed), reflect.ValueOf(rows)
	element := reflect.SliceOf(f.DType.GoType())
	if to.Type() != element || source.Type() != element || to.Len() != f.Shape().Size() || source.Len()%f.In != 0 ||
		from < 0 || from+source.Len()/f.In > f.Out {
		return fmt.Errorf("linear: a %s of %d can't be packed to a %s of %d as rows from %d on of a %s matrix [%d, %d]",
			source.Type(), source.Len(), to.Type(), to.Len(),
			from, f.DType, f.Out, f.In)
	}
	if width := f.rowWidth(); !f.Packed() && width == f.In {
		reflect.Copy(to.Slice(from*f.In, to.Len()), source)
		return nil
	} else if !f.Packed() {
		for row := range source.Len() / f.In {
			reflect.Copy(to.Slice((from+row)*width, to.Len()), source.Slice(row*f.In, (row+1)*f.In))
		}
		return nil
	}
	return backend.(Packer).PackLinear(bytesOf(to), bytesOf(source), f.DType, f.Out, f.In, f.GateUp, from)
}

func bytesOf(slice reflect.Value) []byte {
	return unsafe.Slice((*byte)(slice.UnsafePointer()), slice.Len()*int(slice.Type().Elem().Size()))
}

// Compilers with [backend.Traits.WritesBlocks] do not unpack blocks within a product: they write the whole matrix as
// floats, which take several times the matrix's memory. For them a large matrix in blocks is a stack of slices, each of
// some outputs, and its product a loop over them, so that only one slice is in floats at a time. The axis of slices is
// one of its own, because TPUs copy the whole plane if a slice may start at any row.

// sliceNumbers is how many numbers of a matrix are in floats at most; 16 MiB in bfloat16, which fit into a TPU's VMEM
// and a GPU's second cache.
const sliceNumbers = 8 << 20

// lanes is what the rows of a slice are rounded up to on all devices: the lanes of a TPU.
const lanes = 128

// rowsOfSlices returns how many rows of a matrix make a slice, with as many gates as ups: 0 if the matrix is not large.
// Slices have the same size, and together exceed the matrix as little as possible.
func (m Matrix) rowsOfSlices(largest int) int {
	columns := m.Columns()
	if m.Out*m.In <= largest {
		return 0
	}
	if rows := ceil(ceil(columns, ceil(m.Out*m.In, largest)), lanes) * lanes; rows < columns {
		return rows
	}
	return 0
}

// InSlices reports whether the matrix is held in slices.
func (f Format) InSlices() bool { return f.slice > 0 }

// slices is how many a matrix in slices has.
func (f Format) slices() int { return ceil(f.Columns(), f.slice) }

// plane is the shape of a plane of a matrix in blocks that is not packed: [Out, width]; in slices [slices, rows,
// width], or [2, slices, rows, width] of gates and ups.
func (f Format) plane(dtype dtypes.DType, width int) shapes.Shape {
	switch {
	case !f.InSlices():
		return shapes.Make(dtype, f.Out, width)
	case f.GateUp:
		return shapes.Make(dtype, 2, f.slices(), f.slice, width)
	}
	return shapes.Make(dtype, f.slices(), f.slice, width)
}

// place returns the position of a matrix's row in a plane, which includes what fills the last slice of gates.
func (f Format) place(row int) int {
	if f.InSlices() && f.GateUp && row >= f.Out/2 {
		return row + f.slices()*f.slice - f.Out/2
	}
	return row
}
