package spec

import (
	"context"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
)

// CompletionsOf is how many completions rows from to to-1 of a job have, if none is an error.
func CompletionsOf(ctx context.Context, job *jobstate.Description, input *promptset.Reader, from, to int64) (int64,
	error) {
	set := parameter.Set{N: int(job.NumberAt(len(job.Changes), SettingN))}
	own := false // rows may have another number
	if input != nil {
		for _, name := range input.Schema().Parameters() {
			p := parameter.Sink(name)
			own = own || p != nil && p.Name == SettingN
		}
		own = own || input.HasRequests() // which may have several prompts
	}
	if !own {
		return (to - from) * int64(set.N), nil
	}
	all := int64(0)
	for row := range input.Range(ctx, from, to) {
		if row.Err != nil {
			all++ // its error
			continue
		}
		all += int64(row.Overrides.Over(set).N * (1 + len(row.More)))
	}
	return all, input.Err()
}
