package resume

import (
	"context"
	"fmt"
	"iter"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/internal/visible"
)

// PublishedResults reads the results of rows from the published parts of a job. It keeps the last part.
type PublishedResults struct {
	Saved      *Saved
	Reader     *promptset.Reader
	Parameters func(row *promptset.Row) parameter.Set
	Wanted     func(row int64) bool
	Whole      bool // results have their texts and log-probabilities
	part       int
	contents   map[int64][]promptset.Result
}

// RowResults returns the results of a row.
func (p *PublishedResults) RowResults(ctx context.Context, row int64) ([]promptset.Result, error) {
	if part := p.Saved.Parts.Of(row); p.contents == nil || p.part != part {
		contents, err := p.load(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("%s, whose rows others continue: %w",
				p.Saved.Parts.Name(part, p.Saved.format), err)
		}
		p.part, p.contents = part, contents
	}
	return p.contents[row], nil
}

// load reads the results of those rows of a part that are wanted.
func (p *PublishedResults) load(ctx context.Context, part int) (map[int64][]promptset.Result, error) {
	output, err := promptset.OpenOutput(p.Saved.folder)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(output.Rows(ctx, p.Saved.Parts.Part(part, p.Saved.format)))
	defer stop()
	contents := map[int64][]promptset.Result{}
	from, to := p.Saved.Parts.Range(part)
	done, err, more := next()
	for row := range p.Reader.Range(ctx, from, to) {
		n := p.Parameters(row).N * (1 + len(row.More))
		var results []promptset.Result
		for more && err == nil && len(results) < max(n, 1) && row.IsCalled(done.ID) {
			if before := len(results) - 1; before >= 0 && done.Generation != results[before].Generation+1 {
				break // a row that could not be run has one result
			}
			r := done.Result
			if !p.Whole {
				r.Text, r.Logprobs = "", nil
			}
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
		if p.Wanted(row.Index) {
			contents[row.Index] = results
		}
	}
	return contents, p.Reader.Err()
}
