package promptset

import (
	"context"
	"slices"
)

// FirstText returns the first row with an Index below limit whose prompt is text or messages, nil if there is none.
// It skips rows that OpenFrom has shown to have none: lines of a JSONL file before the first with such a key, and row
// groups of a Parquet file in which these columns are all null. A row with an error has no prompt.
func (r *Reader) FirstText(ctx context.Context, limit int64) (*Row, error) {
	for i := range r.sources {
		s := &r.sources[i]
		for _, texts := range s.Texts {
			for row := range r.Range(ctx, s.Base+texts.From, min(s.Base+min(texts.To, s.Rows), limit)) {
				if row.Kind == KindText || row.Kind == KindMessages {
					return row, nil
				}
			}
			if r.err != nil {
				return nil, r.err
			}
		}
	}
	return nil, nil
}

// rawRows is how many rows [Reader.FirstRaw] looks at.
const rawRows = 1000

// FirstRaw returns the first row with an Index below limit whose prompt is text and does not become a message, nil if
// none of the first rows with text is such a row. Lines of OpenAI's batch files do not count, because their endpoint
// decides this.
func (r *Reader) FirstRaw(ctx context.Context, limit int64) (*Row, error) {
	if !r.mapping.Mapped() && !slices.Contains(r.schema.Columns(), "prompt") || r.HasRequests() {
		return nil, nil
	}
	first, err := r.FirstText(ctx, limit)
	if first == nil || err != nil {
		return nil, err
	}
	for row := range r.Range(ctx, first.Index, min(first.Index+rawRows, limit)) {
		if row.Kind == KindText {
			return row, nil
		}
	}
	return nil, r.err
}
