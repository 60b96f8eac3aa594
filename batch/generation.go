package batch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/parameter"
)

// Values of [Spec.GenerationConfig].
const (
	GenerationAuto = "auto" // defaults of the model's files
	GenerationNone = "none"
)

// withGeneration is the job with what the model's files ask for as defaults of parameters that it does not give: a
// generation_config.json, or metadata of a GGUF file.
func (j *Job) withGeneration(p *Process, asked arch.Generation) (*Job, error) {
	if j.GenerationConfig != GenerationAuto {
		return j, nil
	}
	const remedy = "give the parameter, or `generation-config` none"
	var taken []string
	set := j.Sampling
	for p := range parameter.Own() {
		value, ok := asked.Asked[p.Name]
		if !ok || slices.Contains(j.Given, p.Name) {
			continue
		}
		differs := false
		switch at := p.At(&set).(type) {
		case *float64:
			*at, differs = value, *at != value
		case *int:
			if value != float64(int(value)) {
				return nil, endWith(Misused, "the model's %s has %s %v, which is no whole number: %s", asked.From,
					p.Name, value, remedy)
			}
			*at, differs = int(value), float64(*at) != value
		}
		if differs {
			taken = append(taken, fmt.Sprintf("%s %v", p.Name, value))
		}
	}
	if err := set.Check(func(own string) string { return own }); err != nil {
		return nil, endWith(Misused, "the model's %s: %w: %s", asked.From, err, remedy)
	}
	next := *j
	if next.Sampling = set; len(taken) > 0 {
		next.defaults = fmt.Sprintf("%s, of the model's %s", strings.Join(taken, ", "), asked.From)
	}
	if len(asked.Left) > 0 {
		p.tell("warning: the model's %s asks for %s, which Quire does not take as defaults", asked.From,
			strings.Join(asked.Left, ", "))
	}
	return &next, nil
}

// Defaults says which defaults of parameters are those that the model's files ask for, "" where none is.
func (j *Job) Defaults() string { return j.defaults }
