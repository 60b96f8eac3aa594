package prepare

import (
	"context"
	"errors"
	"fmt"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
)

// ReopenInputs opens the inputs of a job, whose work folder that is, if they can be read and are what they were when
// the job began.
func ReopenInputs(ctx context.Context, job *jobstate.Description, work string) (*promptset.Reader, error) {
	names := make([]string, len(job.Inputs))
	for i, in := range job.Inputs {
		names[i] = in.Name
	}
	mapping, err := spec.MappingOf(job)
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
	now.Inputs = spec.InputsOf(reader)
	if differences := now.Differences(job); len(differences) > 0 {
		return nil, errors.New(differences.String())
	}
	return reader, nil
}
