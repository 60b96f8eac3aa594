package models

import (
	"fmt"
	"slices"

	"github.com/quire/quire/blocks"
	"github.com/quire/quire/models/internal/mapped"
	"github.com/quire/quire/models/quantized"
)

// packed is a quantized matrix that tensors of a safetensors file make together.
type packed struct {
	matrix *quantized.Matrix
	parts  []*tensor
	first  int           // the row of the matrix that is the tensor's first
	rows   int           // that it has
	stored func(int) int // the row in the file of one of the tensor's; nil: the same
}

// assemble makes the matrices of a quantized checkpoint out of the tensors of its files.
func assemble(c *Checkpoint) error {
	scheme, err := quantized.Parse(c.Config.Quantization)
	if scheme == nil || err != nil {
		return err
	}
	c.scheme = scheme
	modules := map[string]map[string]*tensor{}
	for name, t := range c.tensors {
		if module, suffix, ok := scheme.Part(name); ok {
			if modules[module] == nil {
				modules[module] = map[string]*tensor{}
			}
			modules[module][suffix] = t
		}
	}
	for name, parts := range modules {
		t, err := assembled(scheme, name, parts)
		if err != nil {
			return err
		}
		for suffix := range parts {
			if suffix != "weight" || t != nil {
				delete(c.tensors, name+"."+suffix)
			}
		}
		if t != nil {
			c.tensors[name+".weight"] = t
		}
	}
	return nil
}

// assembled makes the matrix of a module; nil where it has none that is quantized.
func assembled(scheme *quantized.Scheme, name string, parts map[string]*tensor) (*tensor, error) {
	of := map[string]quantized.Tensor{}
	p := &packed{}
	var first *tensor // the largest
	for suffix, t := range parts {
		of[suffix] = quantized.Tensor{DType: t.stored, Shape: t.shape, Data: t.data}
		if scheme.Small(suffix) {
			if err := t.bring(Range{0, int64(len(t.data))}); err != nil {
				return nil, err
			}
		}
		if first == nil || len(t.data) > len(first.data) || len(t.data) == len(first.data) && t.name < first.name {
			first = t
		}
		p.parts = append(p.parts, t)
	}
	module, _, _ := scheme.Part(first.name)
	err := mapped.Guard(func() (err error) {
		p.matrix, err = scheme.Matrix(quantized.Module{Stored: module, Name: name}, of)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tensor %s in %s: %w", first.name, first.file, err)
	}
	if p.matrix == nil {
		return nil, nil
	}
	return packedTensor(p, first.file), nil
}

// packedTensor is the tensor of a whole matrix.
func packedTensor(p *packed, file string) *tensor {
	p.rows = p.matrix.Out
	t := &tensor{shape: []int{p.matrix.Out, p.matrix.In}, file: file, stored: p.matrix.Stored, unit: p.matrix.In,
		blockLen: 1, group: 1, format: p.matrix.Format, packed: p}
	t.decode = func(dst []float32, from int) { p.floats(dst, from/p.matrix.In) }
	t.release = p.release
	return t
}

// cut is some rows of a quantized matrix as one of its own.
func (t *tensor) cut(first, n int) *tensor {
	part, p := *t, *t.packed
	part.shape = append([]int{n}, t.shape[1:]...)
	p.first, p.rows = p.first+first, n
	part.packed = &p
	part.decode = func(dst []float32, from int) { p.floats(dst, from/p.matrix.In) }
	return &part
}

// reorder makes row r of the tensor what row stored(r) was.
func (t *tensor) reorder(stored func(int) int) {
	p := *t.packed
	p.stored = stored
	t.packed = &p
	t.decode = func(dst []float32, from int) { p.floats(dst, from/p.matrix.In) }
}

// floats decodes rows from one on.
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

// bytes is what the tensor has of the files.
func (p *packed) bytes() (n int64) {
	if p == nil {
		return 0
	}
	for _, t := range p.parts {
		n += int64(len(t.data))
	}
	return n * int64(p.rows) / int64(p.matrix.Out)
}

// bringPacked has the bytes of a quantized matrix brought that its elements from first to before end are made of: rows
// of those parts that have as many rows, others whole.
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

// readPacked is readBlocks of a quantized matrix.
func (t *tensor) readPacked(rows Span, columns []Span, total int) (*blocks.Rows, error) {
	_, width := t.matrix()
	if err := t.bringPacked(rows.From*width, (rows.From+rows.N)*width); err != nil {
		return nil, err
	}
	p, out := t.packed, blocks.NewRows(t.format, rows.N, total)
	whole := total == width && slices.Equal(columns, []Span{{0, width}})
	at, most := func(row int) int { return p.first + rows.From + row }, packedRows
	if p.stored != nil {
		at, most = func(row int) int { return p.first + p.stored(rows.From+row) }, 1
	}
	err := t.inParallel(ceilDiv(rows.N, most), rows.N*total, func(first, n int) error {
		for row := first * most; row < min((first+n)*most, rows.N); row += most {
			some := min(most, rows.N-row)
			to := out.Slice(row, row+some)
			if whole {
				if err := p.matrix.Rows(to, at(row)); err != nil {
					return err
				}
				continue
			}
			read := blocks.NewRows(t.format, some, width)
			if err := p.matrix.Rows(read, at(row)); err != nil {
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
