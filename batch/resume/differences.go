package resume

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
)

// SettledAs returns the job with the settings that it leaves open set as in the job that was started. Differences, both
// given and found here, are an error.
func SettledAs(j *spec.Job, p *process.Process, was jobstate.Settled, differences jobstate.Differences) (*spec.Job,
	error) {
	next, err := *j, error(nil)
	var more jobstate.Differences
	if next.Engine, more, err = j.Engine.SettledAs(was); err != nil {
		return nil, err
	}
	if differences = append(differences, more...); len(differences) > 0 {
		return nil, different(p, j, differences)
	}
	return &next, nil
}

// different is the error for a folder with another job.
func different(p *process.Process, j *spec.Job, differences jobstate.Differences) error {
	only, extends := "", setting.Text{}
	if p.Extend {
		extends = setting.Textf("`extend` takes a larger `n-generations`, a larger `limit` and more rows after " +
			"those that are there, and nothing else. ")
	}
	ofInput := func(matches func(name string) bool) func(jobstate.Difference) bool {
		return func(d jobstate.Difference) bool { return d.OfInput() && matches(d.Name) }
	}
	if j.ReadsStandard() && slices.ContainsFunc(differences, ofInput(func(name string) bool {
		return name == promptset.StandardInput
	})) {
		only += "Standard input has other rows than the job: give the same rows, or none (</dev/null) to continue " +
			"with " +
			"those that it has. "
	}
	for _, d := range differences {
		if command := promptset.Append(d.Name); d.Of == jobstate.InputContent && command != "" {
			only += fmt.Sprintf("A compressed file is compared by its bytes, and not by its rows: give %s as it was "+
				"compressed before; rows are added by %s. ", d.Name, command)
			break
		}
	}
	if slices.ContainsFunc(j.Inputs, storage.ReadOnly) && slices.ContainsFunc(differences,
		ofInput(func(name string) bool { return strings.HasPrefix(name, "hf://") })) {
		only += "A branch of a dataset has moved, or another one was named: a commit does not move " +
			"(hf://datasets/ORG/NAME@COMMIT/PATH). "
	}
	if folder, err := p.WorkFolder(j); err == nil && storage.IsRemote(j.Output) {
		only += fmt.Sprintf("The job's state is in %s on this machine: remove that folder if the output was emptied. ",
			folder)
	}
	return setting.Errorf("%w\n%s%sGive it the settings it was started with to continue, or %s",
		&jobstate.DifferentJobError{Output: j.Output, Differences: differences}, extends, only,
		p.OutputRemedy())
}

// errUnknownParts is the error for parts of no job that is known.
var errUnknownParts = errors.New("there are part files and nothing that says which job wrote them")
