package batch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/parameter"
)

// Values of [Spec.GenerationConfig].
const (
	GenerationAuto = "auto" // defaults of the model's generation_config.json
	GenerationNone = "none"
)

// takeGeneration takes what the model's generation_config.json asks for as defaults of parameters that the job does not
// give: those that vLLM takes, and typical_p. do_sample is ignored, as by vLLM.
func (t *Task) takeGeneration(asked map[string]float64) error {
	if t.GenerationConfig != GenerationAuto {
		return nil
	}
	const remedy = "give the parameter, or `generation-config` none"
	var taken []string
	set := t.Sampling
	for p := range parameter.Own() {
		value, ok := asked[p.Name]
		if !ok || slices.Contains(t.Given, p.Name) {
			continue
		}
		differs := false
		switch at := p.At(&set).(type) {
		case *float64:
			*at, differs = value, *at != value
		case *int:
			if value != float64(int(value)) {
				return endWith(Misused, "the model's generation_config.json has %s %v, which is no whole number: %s",
					p.Name, value, remedy)
			}
			*at, differs = int(value), float64(*at) != value
		}
		if differs {
			taken = append(taken, fmt.Sprintf("%s %v", p.Name, value))
		}
	}
	if err := set.Check(func(own string) string { return own }); err != nil {
		return endWith(Misused, "the model's generation_config.json: %w: %s", err, remedy)
	}
	if t.Sampling = set; len(taken) > 0 {
		t.say("the model's generation_config.json asks for %s; `generation-config` none keeps other defaults",
			strings.Join(taken, ", "))
	}
	return nil
}
