package verdict

import (
	"context"
	"errors"
)

// Recorded is a verifier that knows its verdicts: those on the completions of rows, by the index of the row and the
// generation.
type Recorded map[int64]map[int]Verdict

// Add adds a verdict.
func (r Recorded) Add(row int64, generation int, v Verdict) {
	if r[row] == nil {
		r[row] = map[int]Verdict{}
	}
	r[row][generation] = v
}

func (r Recorded) Verify(_ context.Context, c *Completion) (Verdict, error) {
	v, ok := r[c.Row.Index][c.Generation]
	if !ok {
		return v, errors.New("the record has no verdict on the completion")
	}
	return v, nil
}

func (Recorded) Close() error { return nil }
