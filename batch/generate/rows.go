package generate

import (
	"context"

	"github.com/quire/quire/data/promptset"
)

// rowReader reads single rows of the inputs in blocks, and keeps some blocks: rows that are wanted out of order are
// often close together.
type rowReader struct {
	reader *promptset.Reader
	rows   int64 // rows of the job
	blocks [][]*promptset.Row
	from   []int64 // first rows of the blocks
	next   int     // block to go
}

const (
	rowsOfBlock = 256
	blocksKept  = 8
)

func newRowReader(r *promptset.Reader, rows int64) *rowReader {
	return &rowReader{reader: r.Beside(), rows: rows, blocks: make([][]*promptset.Row, blocksKept),
		from: make([]int64, blocksKept)}
}

func (r *rowReader) row(ctx context.Context, index int64) (*promptset.Row, error) {
	from := index / rowsOfBlock * rowsOfBlock
	for i, block := range r.blocks {
		if block != nil && r.from[i] == from {
			return block[index-from], nil
		}
	}
	var block []*promptset.Row
	for row := range r.reader.Range(ctx, from, min(from+rowsOfBlock, r.rows)) {
		block = append(block, row)
	}
	if err := r.reader.Err(); err != nil {
		return nil, err
	}
	r.blocks[r.next], r.from[r.next] = block, from
	r.next = (r.next + 1) % blocksKept
	return block[index-from], nil
}
