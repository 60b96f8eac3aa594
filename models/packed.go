package models

import (
	"slices"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/quantized"
)

// packed is a quantized matrix that several tensors of a safetensors file make up.
type packed struct {
	matrix *quantized.Matrix
	parts  []*tensor
	first  int           // the matrix's row that is the tensor's first row
	rows   int           // number of the tensor's rows
	stored func(int) int // maps a row of the tensor to its row in the file; nil is the identity
}

// packedTensor returns the tensor of a whole matrix.
func packedTensor(p *packed, file string) *tensor {
	p.rows = p.matrix.Out
	t := &tensor{shape: []int{p.matrix.Out, p.matrix.In}, file: file, stored: p.matrix.Stored, unit: p.matrix.In,
		blockLen: 1, group: 1, format: p.matrix.Format, packed: p}
	t.decode = func(dst []float32, from int) { p.floats(dst, from/p.matrix.In) }
	t.release = p.release
	return t
}

// cut returns rows of a quantized matrix as a tensor.
func (t *tensor) cut(first, n int) *tensor {
	part, p := *t, *t.packed
	part.shape = append([]int{n}, t.shape[1:]...)
	p.first, p.rows = p.first+first, n
	part.packed = &p
	part.decode = func(dst []float32, from int) { p.floats(dst, from/p.matrix.In) }
	return &part
}

// reorder makes row r of the tensor the former row stored(r).
func (t *tensor) reorder(stored func(int) int) {
	p := *t.packed
	p.stored = stored
	t.packed = &p
	t.decode = func(dst []float32, from int) { p.floats(dst, from/p.matrix.In) }
}

// floats decodes rows, starting with row.
func (p *packed) floats(dst []float32, row int) {
	if p.stored == nil {
		p.matrix.Floats(dst, p.first+row)
		return
	}
	for ; len(dst) > 0; row++ {
		p.matrix.Floats(dst[:p.matrix.In], p.first+p.stored(row))
		dst = dst[p.matrix.In:]
	}
}

func (p *packed) release() {
	for _, t := range p.parts {
		t.drop()
	}
}

// bytes returns how many bytes of the files belong to the tensor.
func (p *packed) bytes() (n int64) {
	if p == nil {
		return 0
	}
	for _, t := range p.parts {
		n += int64(len(t.data))
	}
	return n * int64(p.rows) / int64(p.matrix.Out)
}

// bringPacked fetches the bytes of a quantized matrix that its elements [first, end) depend on: the rows of parts
// that have as many rows as the matrix, and other parts whole.
func (t *tensor) bringPacked(first, end int) error {
	if t.packed == nil {
		return nil
	}
	p := t.packed
	for _, part := range p.parts {
		if part.need == nil {
			continue
		}
		r := Range{0, int64(len(part.data))}
		if p.stored == nil && len(part.shape) == 2 && part.shape[0] == p.matrix.Out {
			from, to := p.first+first/t.unit, p.first+ceilDiv(end, t.unit)
			row := int64(len(part.data) / part.shape[0])
			r = Range{int64(from) * row, int64(to) * row}
		}
		if err := part.bring(r); err != nil {
			return err
		}
	}
	return nil
}

// readPacked is readBlocks for a quantized matrix.
func (t *tensor) readPacked(rows Span, columns []Span, total int) (*blocks.Rows, error) {
	_, width := t.matrix()
	if err := t.bringPacked(rows.From*width, (rows.From+rows.N)*width); err != nil {
		return nil, err
	}
	p, out := t.packed, blocks.NewRows(t.format, rows.N, total)
	whole := total == width && slices.Equal(columns, []Span{{0, width}})
	rowOf, most := func(row int) int { return p.first + rows.From + row }, packedRows
	if p.stored != nil {
		rowOf, most = func(row int) int { return p.first + p.stored(rows.From+row) }, 1
	}
	err := t.inParallel(ceilDiv(rows.N, most), rows.N*total, func(first, n int) error {
		for row := first * most; row < min((first+n)*most, rows.N); row += most {
			some := min(most, rows.N-row)
			to := out.Slice(row, row+some)
			if whole {
				if err := p.matrix.Rows(to, rowOf(row)); err != nil {
					return err
				}
				continue
			}
			read := blocks.NewRows(t.format, some, width)
			if err := p.matrix.Rows(read, rowOf(row)); err != nil {
				return err
			}
			for r := range some {
				to, from := r*total, r*width
				for _, s := range columns {
					out.Part(row*total+to, s.N).Copy(read.Part(from+s.From, s.N))
					to += s.N
				}
			}
		}
		return nil
	})
	return out, err
}

// packedRows is how many rows of a quantized matrix are decoded together.
const packedRows = 64
