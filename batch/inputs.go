package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// OpenInputs opens the inputs of a job, whose work folder that is, if they can be read and are what they were when the
// job began.
func OpenInputs(ctx context.Context, job *jobstate.Description, work string) (*promptset.Reader, error) {
	names := make([]string, len(job.Inputs))
	for i, in := range job.Inputs {
		names[i] = in.Name
	}
	mapping, err := MappingOf(job)
	if err != nil {
		return nil, fmt.Errorf("the job's template: %w", err)
	}
	files := promptset.Anywhere()
	if len(names) == 1 && names[0] == promptset.StandardInput {
		files = promptset.WithStandardInput(files, jobstate.InputCopy(work, job.Inputs[0].Digest))
	}
	reader, err := promptset.OpenMapped(ctx, files, names, mapping)
	if err != nil {
		return nil, err
	}
	now := *job
	now.Inputs = InputsOf(reader)
	if differences := now.Differences(job); len(differences) > 0 {
		return nil, errors.New(differences.String())
	}
	return reader, nil
}

// CompletionsOf is how many completions rows from to to-1 of a job have, if none is an error.
func CompletionsOf(ctx context.Context, job *jobstate.Description, input *promptset.Reader, from, to int64) (int64,
	error) {
	set := parameter.Set{N: int(job.NumberAt(len(job.Changes), settingN))}
	own := false // rows may have another number
	if input != nil {
		for _, name := range input.Schema().Parameters() {
			p := parameter.Sink(name)
			own = own || p != nil && p.Name == settingN
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
