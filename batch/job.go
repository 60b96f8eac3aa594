package batch

import (
	"github.com/quire/quire/promptset"
)

// Job is what a job is: its [Spec], checked, with what was found of it since. Nothing of it changes: each phase that
// finds more makes another Job.
type Job struct {
	Spec
	mapping  promptset.Mapping // how rows become prompts, once the files that say so were read
	defaults string            // those parameters that the model's files give
	cut      int64             // rows of a part, if the job in the output folder says so and PartRows is 0
}

// describe checks a spec, and that the process may do it.
func describe(p *Process, spec Spec) (*Job, error) {
	j := &Job{Spec: spec}
	err := cmpOr(j.Spec.Validate, func() error { return p.validate(&j.Spec) }, j.Spec.hideParameters)
	if err != nil {
		return nil, err
	}
	return j, nil
}
