package models

import (
	"github.com/gomlx/compute/dtypes"
	"math"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// rows returns rows of a tensor as a tensor.
func (t *tensor) rows(first, n int) *tensor {
	if t.packed != nil {
		return t.cut(first, n)
	}
	part := *t
	_, width := t.matrix()
	part.shape = append([]int{n}, t.shape[1:]...)
	r := t.place(first*width, (first+n)*width)
	part.data, part.offset = t.data[r.From:r.To], t.offset+r.From
	if t.inStep {
		part.companions = make([]*tensor, len(t.companions))
		for i, b := range t.companions {
			companion, in := *b, t.companionRange(b, r)
			companion.data, companion.offset = b.data[in.From:in.To], b.offset+in.From
			part.companions[i] = &companion
		}
	}
	if decode := t.decode; decode != nil {
		part.decode = func(dst []float32, from int) { decode(dst, first*width+from) }
	}
	if unpack := t.unpack; unpack != nil {
		part.unpack = func(to *blocks.Rows, from int) { unpack(to, first*width+from) }
	}
	return &part
}

// picked returns the rows with these numbers as a tensor.
func (t *tensor) picked(shape []int, stored func(row int) int) *tensor {
	if t.packed != nil {
		part := t.cut(0, shape[0])
		part.reorder(stored)
		return part
	}
	part := *t
	part.shape, part.native, part.scattered = shape, dtypes.InvalidDType, true
	_, width := part.matrix()
	part.unit = width
	if decode := t.decode; decode != nil {
		part.decode = func(dst []float32, from int) {
			for row := from / width; len(dst) > 0; row++ {
				decode(dst[:width], stored(row)*width)
				dst = dst[width:]
			}
		}
	}
	if unpack := t.unpack; unpack != nil { // blocks of one row, or of a part of one
		part.unpack = func(to *blocks.Rows, from int) { unpack(to, stored(from/width)*width+from%width) }
	}
	return &part
}

// deinterleave makes decode return the rows of a q or k projection (or the elements of its bias) in Hugging Face
// order: see [arch.InterleavedRow].
func (t *tensor) deinterleave(headDim, turned int) {
	stored := t.decode
	row := 1
	for _, d := range t.shape[1:] {
		row *= d
	}
	storedRow := arch.InterleavedRow(headDim, turned)
	if t.packed != nil {
		t.reorder(storedRow)
		return
	}
	t.native, t.unit, t.group = dtypes.InvalidDType, row, headDim
	t.decode = func(dst []float32, first int) {
		for r := first / row; len(dst) > 0; r++ {
			stored(dst[:row], storedRow(r)*row)
			dst = dst[row:]
		}
	}
	if unpack := t.unpack; unpack != nil { // blocks of one row, or of a part of one
		t.unpack = func(to *blocks.Rows, first int) { unpack(to, storedRow(first/row)*row+first%row) }
	}
}

// strided returns rows, or columns if transposed, of a tensor as a tensor of the given shape: every step-th one,
// starting with first.
func (t *tensor) strided(first, step int, shape []int, transposed bool) *tensor {
	out, decode := t.picked(shape, func(row int) int { return first + row*step }), t.decode
	out.firstRow, out.step = first, step
	if transposed {
		out.step = 0 // its rows are columns of data
		_, width := out.matrix()
		_, columns := t.matrix()
		out.unpack = nil
		out.decode = func(dst []float32, from int) {
			rows := len(dst) / width
			run := make([]float32, (rows-1)*step+1)
			for i := range width {
				decode(run, i*columns+first+from/width*step)
				for row := range rows {
					dst[row*width+i] = run[row*step]
				}
			}
		}
	}
	return out
}

// plus returns the tensor with an addend.
func (t *tensor) plus(add Addend) *tensor {
	sum := *t
	_, width := t.matrix()
	sum.native, sum.unit = dtypes.InvalidDType, width
	sum.decode = func(dst []float32, first int) {
		t.decode(dst, first)
		delta := make([]float32, width)
		for row := first / width; len(dst) > 0; row++ {
			clear(delta)
			addProducts(delta, add.B[row*add.Rank:(row+1)*add.Rank], add.A)
			for i, d := range delta {
				dst[i] += float32(add.Scale * d)
			}
			if add.Magnitude != nil {
				scaleTo(dst[:width], add.Magnitude[row])
			}
			dst = dst[width:]
		}
	}
	return &sum
}

// addProducts adds b*a to a sum for each number of b and the row of a that belongs to it, one after the other. Products
// are not fused with sums, so that all machines agree.
func addProducts(sum, b, a []float32) {
	width := len(sum)
	for ; len(b) >= 4; b, a = b[4:], a[4*width:] { // four at a time load and store the sum once
		a0, a1, a2, a3 := a[:width], a[width:][:width], a[2*width:][:width], a[3*width:][:width]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		for i, x := range sum {
			x += float32(b0 * a0[i])
			x += float32(b1 * a1[i])
			x += float32(b2 * a2[i])
			x += float32(b3 * a3[i])
			sum[i] = x
		}
	}
	for k, b := range b {
		for i, a := range a[k*width:][:width] {
			sum[i] += float32(b * a)
		}
	}
}

// scaleTo scales a row to a length.
func scaleTo(row []float32, length float32) {
	squares := 0.0
	for _, x := range row {
		squares += float64(x) * float64(x)
	}
	factor := float32(float64(length) / math.Sqrt(squares))
	for i := range row {
		row[i] *= factor
	}
}
