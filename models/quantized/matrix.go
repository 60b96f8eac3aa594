package quantized

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// Matrix is a quantized matrix [Out, In], made of its parts.
type Matrix struct {
	Out, In int
	// Stored names its encoding in the file.
	Stored string
	// Format is the block format that can hold its rows; the zero format if only floats can.
	Format blocks.Format

	bits   int
	e4m3   bool
	order  []int32 // the group of each column; nil: runs of scales.columns
	scales grid
	zeros  func(row, group int) uint8 // nil: every zero point is the middle of the quants' range
	// quants writes n rows of In numbers, starting with row, one byte per number.
	quants func(to []uint8, row, n int)
}

// grid has one number for each so many rows and columns of a matrix.
type grid struct {
	rows, columns int
	number        blocks.Scale
	width         int // numbers per row of the grid
	value         func(i int) float32
}

// newGrid makes the grid of a tensor of scales, whose shape must fit the matrix.
func newGrid(name string, t Tensor, out, in, rows, columns int) (grid, error) {
	g := grid{rows: rows, columns: columns}
	high, wide := ceil(out, rows), ceil(in, columns)
	g.width = wide
	shape := slices.Clone(t.Shape)
	for len(shape) < 2 { // shapes [] and [Out] occur, too
		shape = append(shape, 1)
	}
	if high == 1 && wide > 1 && len(t.Shape) == 1 {
		slices.Reverse(shape)
	}
	if len(shape) != 2 || shape[0] != high || shape[1] != wide {
		return g, fmt.Errorf("%s has shape %v, but a matrix [%d, %d] has scales [%d, %d]", name, t.Shape, out, in, high,
			wide)
	}
	var err error
	g.number, g.value, err = numbers(name, t)
	return g, err
}

func (g grid) scaleOf(row, group int) float32 { return g.value(row/g.rows*g.width + group) }

// numbers returns the type of a tensor of scales, and a function that reads its i-th element.
func numbers(name string, t Tensor) (blocks.Scale, func(i int) float32, error) {
	data := t.Data
	switch t.DType {
	case "F32":
		return blocks.F32, func(i int) float32 {
			return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}, nil
	case "BF16":
		return blocks.BF16, func(i int) float32 { return blocks.BFloat16(binary.LittleEndian.Uint16(data[2*i:])) }, nil
	case "F16":
		return blocks.F16, func(i int) float32 { return blocks.Half(binary.LittleEndian.Uint16(data[2*i:])) }, nil
	case "F8_E8M0": // powers of two
		return blocks.F32, func(i int) float32 {
			if data[i] == 255 {
				return float32(math.NaN())
			}
			return float32(math.Ldexp(1, int(data[i])-127))
		}, nil
	}
	return 0, nil, arch.Unsupported("F32, BF16, F16 and F8_E8M0 are", "%s of dtype %s", name, t.DType)
}

// transposed reads a grid [groups, Out] of groups of columns.
func (g grid) transposed(out int) grid {
	value := g.value
	g.value = func(i int) float32 { return value(i%g.width*out + i/g.width) }
	return g
}

// settle finds the form that rows can be kept in.
func (m *Matrix) settle() {
	if m.order != nil {
		return
	}
	for _, size := range []int{128, 64, 32} {
		whole := m.scales.columns%size == 0 || m.scales.columns >= m.In
		if whole && m.In%size == 0 {
			m.Format = blocks.Format{Bits: m.bits, Size: size, Group: m.scales.number, E4M3: m.e4m3}
			if m.Format.Zero = m.zeros != nil; !m.Format.Zero && !m.e4m3 {
				m.Format.Offset = m.middle()
			}
			return
		}
	}
}

func (m *Matrix) middle() int { return 1 << (m.bits - 1) }

// tile is how many rows are decoded at once: in some files the numbers of a column are adjacent.
const tile = 64

// Floats writes as many rows as fit in to, starting with row.
func (m *Matrix) Floats(to []float32, row int) {
	quants := make([]uint8, min(tile, len(to)/m.In)*m.In)
	for ; len(to) > 0; row += tile {
		n := min(tile, len(to)/m.In)
		m.quants(quants[:n*m.In], row, n)
		for r := range n {
			m.row(to[r*m.In:][:m.In], quants[r*m.In:][:m.In], row+r)
		}
		to = to[n*m.In:]
	}
}

// row converts the quants of a row to floats.
func (m *Matrix) row(to []float32, quants []uint8, row int) {
	for from := 0; from < m.In; {
		group, end := from/m.scales.columns, min((from/m.scales.columns+1)*m.scales.columns, m.In)
		if m.order != nil {
			group, end = int(m.order[from]), from+1
		}
		scale, zero := m.scales.scaleOf(row, group), float32(m.zero(row, group))
		for i := from; i < end; i++ {
			x := float32(quants[i]) - zero
			if m.e4m3 {
				x = blocks.E4M3(quants[i])
			}
			to[i] = scale * x
		}
		from = end
	}
}

func (m *Matrix) zero(row, group int) uint8 {
	switch {
	case m.e4m3:
		return 0
	case m.zeros == nil:
		return uint8(m.middle())
	}
	return m.zeros(row, group)
}

// Rows writes rows in the matrix's format, starting with row. It fails if a number is not finite, because the format
// has no such numbers.
func (m *Matrix) Rows(to *blocks.Rows, row int) error {
	for first := 0; first < to.N; first += tile {
		n := min(tile, to.N-first)
		m.quants(to.Quants[first*m.In:][:n*m.In], row+first, n)
	}
	each := m.In / to.Size
	for r := range to.N {
		for b := range each {
			group := b * to.Size / m.scales.columns
			scale := m.scales.scaleOf(row+r, group)
			if scale-scale != 0 {
				return fmt.Errorf("a scale of row %d is %g", row+r, scale)
			}
			to.GroupScales[r*each+b] = scale
			if to.Zeros != nil {
				to.Zeros[r*each+b] = m.zeros(row+r, group)
			}
		}
		if m.e4m3 && slices.ContainsFunc(to.Quants[r*m.In:][:m.In], func(q uint8) bool { return q&0x7f == 0x7f }) {
			return fmt.Errorf("a number of row %d is not one (NaN)", row+r)
		}
	}
	return nil
}

// bytesOf returns a reader of rows that have one byte for each number, XORed with flip.
func bytesOf(data []byte, in int, flip uint8) func(to []uint8, row, n int) {
	return func(to []uint8, row, n int) {
		for i, x := range data[row*in:][:n*in] {
			to[i] = x ^ flip
		}
	}
}

// word returns the i-th int32 of a tensor.
func word(data []byte, i int) uint32 { return binary.LittleEndian.Uint32(data[4*i:]) }

func ceil(a, b int) int { return (a + b - 1) / b }

// orderOf reads the group of each column from an index of int32 numbers. It returns nil if groups are runs of
// columns.
func orderOf(name string, t Tensor, in, group, groups int) ([]int32, error) {
	if t.DType != "I32" || len(t.Shape) != 1 || t.Shape[0] != in {
		return nil, fmt.Errorf("%s is %s %v, not I32 [%d]", name, t.DType, t.Shape, in)
	}
	order, runs := make([]int32, in), true
	for i := range order {
		order[i] = int32(word(t.Data, i))
		if order[i] < 0 || int(order[i]) >= groups {
			return nil, fmt.Errorf("%s puts column %d in group %d of %d", name, i, order[i], groups)
		}
		runs = runs && int(order[i]) == i/group
	}
	if runs {
		return nil, nil
	}
	return order, nil
}
