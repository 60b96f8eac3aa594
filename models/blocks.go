package models

import (
	"fmt"

	"github.com/quire/quire/backend/blocks"
)

// Blocks returns the format of a tensor's blocks in the file. It is the zero format if the numbers are floats or
// there is no such tensor.
func (c *Checkpoint) Blocks(name string) blocks.Format {
	if t := c.tensors[name]; t != nil {
		return t.format
	}
	return blocks.Format{}
}

// ReadBlocks returns rows of a tensor as the file's blocks. columns are the wanted spans of columns, which are
// concatenated in each row; they start and end at units of [blocks.Format]. nil means all columns. If the file is not
// complete on this machine, only the bytes of these blocks are fetched.
func (c *Checkpoint) ReadBlocks(name string, rows Span, columns []Span) (*blocks.Rows, error) {
	t := c.tensors[name]
	if t == nil {
		return nil, fmt.Errorf("model %s: %w: %s", c.Ref, ErrNoTensor, name)
	}
	r, err := readBlocks(t, rows, columns)
	return r, t.named(name, err)
}

func readBlocks(t *tensor, rows Span, columns []Span) (*blocks.Rows, error) {
	if !t.format.Is() {
		return nil, fmt.Errorf("its numbers are %s, not blocks", t.stored)
	}
	count, width := t.matrix()
	if columns == nil {
		columns = []Span{{0, width}}
	}
	total := 0
	for _, s := range columns {
		if s.From < 0 || s.N < 1 || s.From+s.N > width || s.From%t.format.Unit() != 0 || s.N%t.format.Unit() != 0 {
			return nil, fmt.Errorf("it has %d columns in units of %d, and %d from column %d on were wanted", width,
				t.format.Unit(), s.N, s.From)
		}
		total += s.N
	}
	if rows.From < 0 || rows.N < 1 || rows.From+rows.N > count {
		return nil, fmt.Errorf("it has %d rows, and %d from row %d on were wanted", count, rows.N, rows.From)
	}
	if t.packed != nil {
		return t.readPacked(rows, columns, total)
	}
	if err := bringBlocks(t, rows, columns, width); err != nil {
		return nil, err
	}
	out := blocks.NewRows(t.format, rows.N, total)
	err := t.inParallel(rows.N, rows.N*total, func(row, n int) error {
		for ; n > 0; n-- {
			offset := row * total
			for _, s := range columns {
				t.unpack(out.Part(offset, s.N), (rows.From+row)*width+s.From)
				offset += s.N
			}
			row++
		}
		return nil
	})
	return out, err
}

func bringBlocks(t *tensor, rows Span, columns []Span, width int) error {
	if len(columns) == 1 && columns[0].N == width {
		return t.bring(t.place(rows.From*width, (rows.From+rows.N)*width))
	}
	var ranges []Range
	for row := rows.From; row < rows.From+rows.N; row++ {
		for _, s := range columns {
			ranges = append(ranges, t.place(row*width+s.From, row*width+s.From+s.N))
		}
	}
	return t.bring(ranges...)
}
