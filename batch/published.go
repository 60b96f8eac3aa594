package batch

import (
	"context"
	"fmt"
	"iter"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// rowsAt reads single rows of the inputs, in blocks of which it keeps some: rows that are wanted out of order often
// stand close together.
type rowsAt struct {
	reader *promptset.Reader
	rows   int64 // of the job
	blocks [][]*promptset.Row
	from   []int64 // first rows of the blocks
	next   int     // block to go
}

const (
	rowsOfBlock = 256
	blocksKept  = 8
)

func newRowsAt(r *promptset.Reader, rows int64) *rowsAt {
	return &rowsAt{reader: r.Beside(), rows: rows, blocks: make([][]*promptset.Row, blocksKept),
		from: make([]int64, blocksKept)}
}

func (r *rowsAt) row(ctx context.Context, index int64) (*promptset.Row, error) {
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

// partResults reads the results of rows from the published parts of a job, of which it keeps the last one.
type partResults struct {
	saved    *savedJob
	reader   *promptset.Reader
	of       func(row *promptset.Row) parameter.Set
	wanted   func(row int64) bool
	part     int
	contents map[int64][]promptset.Result
}

// read returns the results of a row, without their texts.
func (p *partResults) read(ctx context.Context, row int64) ([]promptset.Result, error) {
	if part := p.saved.parts.Of(row); p.contents == nil || p.part != part {
		contents, err := p.load(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("%s, whose rows others go on from: %w",
				p.saved.parts.Name(part, p.saved.format), err)
		}
		p.part, p.contents = part, contents
	}
	return p.contents[row], nil
}

// load reads the results of those rows of a part that are wanted.
func (p *partResults) load(ctx context.Context, part int) (map[int64][]promptset.Result, error) {
	output, err := promptset.OpenOutput(p.saved.folder)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(output.Rows(ctx, p.saved.parts.Part(part, p.saved.format)))
	defer stop()
	contents := map[int64][]promptset.Result{}
	from, to := p.saved.parts.Range(part)
	done, err, more := next()
	for row := range p.reader.Range(ctx, from, to) {
		n := p.of(row).N
		var results []promptset.Result
		for more && err == nil && len(results) < max(n, 1) && row.IsCalled(done.ID) {
			if before := len(results) - 1; before >= 0 && done.Generation != results[before].Generation+1 {
				break // a row that could not be run has one result
			}
			r := done.Result
			r.Text, r.Logprobs = "", nil
			results = append(results, r)
			done, err, more = next()
		}
		if err != nil {
			return nil, err
		}
		if len(results) == 0 {
			return nil, fmt.Errorf("it has no completions of id %s, row %d of the input", visible.Quoted(row.ID),
				row.Index)
		}
		if p.wanted(row.Index) {
			contents[row.Index] = results
		}
	}
	return contents, p.reader.Err()
}
