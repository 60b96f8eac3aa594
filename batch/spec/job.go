package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models/arch"
)

// Job is what a job is: its [Spec], checked, with what was found of it since. Nothing of it changes: each phase that
// finds more makes another Job.
type Job struct {
	Spec
	Mapping  promptset.Mapping // how rows become prompts, once the files that say so were read
	Defaults string            // those parameters that the model's files give
	CutRows  int64             // rows of a part of the job in the output folder, if PartRows is 0
	Vectors  Vectors           // how its vectors are made, for the task embed
	// AdapterDigests are the digests of the adapters that rows may name, once they were opened.
	AdapterDigests map[string]string
}

// Values of [Spec.GenerationConfig].
const (
	GenerationAuto = "auto" // defaults of the model's files
	GenerationNone = "none"
)

// WithGeneration is the job with what the model's files ask for as defaults of parameters that it does not give: a
// generation_config.json, or metadata of a GGUF file.
func (j *Job) WithGeneration(requested arch.Generation, warn func(format string, args ...any)) (*Job, error) {
	if j.GenerationConfig != GenerationAuto {
		return j, nil
	}
	remedy := setting.Textf("give the parameter, or `generation-config` none")
	var taken []string
	set := j.Sampling
	for p := range parameter.Own() {
		value, ok := requested.Asked[p.Name]
		if !ok || slices.Contains(j.Given, p.Name) {
			continue
		}
		differs := false
		switch target := p.At(&set).(type) {
		case *float64:
			*target, differs = value, *target != value
		case *int:
			if value != float64(int(value)) {
				return nil, outcome.Errorf(outcome.Misused, "the model's %s has %s %v, which is no whole number: %s",
					requested.From,
					p.Name, value, remedy)
			}
			*target, differs = int(value), float64(*target) != value
		}
		if differs {
			taken = append(taken, fmt.Sprintf("%s %v", p.Name, value))
		}
	}
	if err := set.Check(func(own string) string { return own }); err != nil {
		return nil, outcome.Errorf(outcome.Misused, "the model's %s: %w: %s", requested.From, err, remedy)
	}
	next := *j
	if next.Sampling = set; len(taken) > 0 {
		next.Defaults = fmt.Sprintf("%s, of the model's %s", strings.Join(taken, ", "), requested.From)
	}
	if len(requested.Left) > 0 {
		warn("warning: the model's %s asks for %s, which Quire does not take as defaults", requested.From,
			strings.Join(requested.Left, ", "))
	}
	return &next, nil
}
