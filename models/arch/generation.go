package arch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/models/gguf"
)

// Generation is what a model's files ask for as defaults of sampling.
type Generation struct {
	From  string             // what of the files, as messages name it
	Asked map[string]float64 // values by the names of Quire's parameters
	// Left is what else they ask for, which is not taken: "no_repeat_ngram_size 3".
	Left []string
}

// Where defaults of sampling come from.
const (
	fromGenerationConfig = "generation_config.json"
	fromGGUF             = "GGUF metadata"
)

// ask notes a number that is asked for.
func (g *Generation) ask(name string, value float64) {
	if g.Asked == nil {
		g.Asked = map[string]float64{}
	}
	g.Asked[name] = value
}

// generationNames are the numbers that vLLM takes of a generation_config.json, and typical_p.
var generationNames = []string{"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty"}

// notSampling are parameters of a generation_config.json that are not among the defaults of sampling: eos_token_id is
// read elsewhere, and transformers writes its own default of max_length.
var notSampling = []string{"eos_token_id", "max_length"}

// generation reads the text of a generation_config.json.
func (j *JSON) generation() Generation {
	g := Generation{From: fromGenerationConfig}
	for _, name := range slices.Sorted(maps.Keys(j.fields)) {
		switch {
		case slices.Contains(generationNames, name):
			if j.Has(name) {
				g.ask(name, j.Float(name, 0))
			}
		case name == "do_sample":
		case !slices.Contains(notSampling, name) && hasEffect(name, j.fields[name]):
			g.Left = append(g.Left, fmt.Sprintf("%s %.60s", name, j.fields[name]))
		}
	}
	if string(j.fields["do_sample"]) == "false" {
		g.ask("temperature", 0)
	}
	return g
}

// hasEffect reports whether a value of a parameter could change completions.
func hasEffect(name string, value []byte) bool {
	for _, p := range parameter.Lookup(name) {
		verdict, _ := p.Judge(value, func(string) string { return "" })
		return verdict != parameter.NoEffect
	}
	return false
}

// ggufSampling has the parameters that keys of GGUF files below general.sampling are for.
var ggufSampling = map[string]string{"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
	"xtc_probability": "xtc_probability", "xtc_threshold": "xtc_threshold", "penalty_repeat": "repetition_penalty"}

// ggufGeneration reads the keys of general.sampling of a GGUF file.
func ggufGeneration(f *gguf.File) Generation {
	const prefix = "general.sampling."
	g := Generation{From: fromGGUF}
	for _, key := range slices.Sorted(slices.Values(f.Keys())) {
		short, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		value, isNumber := f.Float(key)
		switch name := ggufSampling[short]; {
		case isNumber && name != "":
			g.ask(name, shortest(value))
		case isNumber && short == "penalty_last_n", short == "mirostat_tau", short == "mirostat_eta":
		case isNumber && short == "mirostat" && value == 0:
		case isNumber:
			g.Left = append(g.Left, fmt.Sprintf("%s %v", key, shortest(value)))
		default:
			text, ok := f.String(key)
			if !ok {
				text = "of a type that is not read"
			}
			g.Left = append(g.Left, fmt.Sprintf("%s %.60s", key, text))
		}
	}
	// The penalty's window: of no tokens it is no penalty, of all of them it is Quire's. Without the key it is taken as
	// that, since converters write penalty_repeat for the repetition_penalty of a generation_config.json.
	const window = prefix + "penalty_last_n"
	penalty, penalized := g.Asked["repetition_penalty"]
	switch last, ok := f.Float(window); {
	case ok && last == 0:
		delete(g.Asked, "repetition_penalty")
	case ok && last > 0 && penalized && penalty != 1:
		g.Left = append(g.Left, fmt.Sprintf("%s %v", window, last))
	}
	return g
}

// shortest turns a float32 that a file has into the number that was meant: 0.95, and not 0.949999988.
func shortest(x float64) float64 {
	if float64(float32(x)) != x {
		return x
	}
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64)
	if err != nil {
		return x
	}
	return y
}
