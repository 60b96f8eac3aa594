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

// Describe checks what a job is, and that the options do not contradict it. The error is a [*FieldError], or says which
// options contradict each other.
func Describe(spec Spec, o Options) (*Job, error) {
	j, p := &Job{Spec: spec}, &Process{Options: o}
	err := cmpOr(j.Spec.Validate, func() error { return p.validate(&j.Spec) }, j.Spec.hideParameters)
	if err != nil {
		return nil, err
	}
	return j, nil
}

// Task is the job as this process does it, by options that it was described with. What these say of the world around
// the process may be added.
func (j *Job) Task(o Options) *Task {
	return &Task{Job: j, Process: &Process{Options: o.withDefaults()}}
}
