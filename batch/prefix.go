package batch

import (
	"context"

	"github.com/quire/quire/batch/prefixes"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
)

// keepPrefix is [Task.KeepPrefix].
func keepPrefix(ctx context.Context, p *process.Process, j *spec.Job) (tokens int, err error) {
	copied, remove, err := prepare.CopyStandardInput(ctx, p, j)
	if err != nil {
		return 0, err
	}
	defer remove()
	j, reader, err := prepare.OpenJobInputs(ctx, j, p, copied)
	if err != nil {
		return 0, err
	}
	session, err := p.Models.OpenSession(ctx, j, p)
	if err != nil {
		return 0, err
	}
	defer session.Release()
	b := process.NewBuilder(j, session)
	for row := range reader.Rows(ctx) {
		prompt, err := []int32(nil), row.Err
		if err == nil && row.Parent.ID != "" {
			err = row.Error("it continues another row, whose completion is not known: give rows without a parent")
		}
		if err == nil {
			prompt, err = b.EncodeRow(row)
		}
		if err != nil {
			return 0, err
		}
		b.Common.Add(prompt)
	}
	if err := reader.Err(); err != nil {
		return 0, err
	}
	return len(b.Common.Tokens), prefixes.SavePrefix(ctx, p, session, b.Common.Tokens)
}
