package adapter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// maxRank bounds ranks. It is far above the ranks that adapters have.
const maxRank = 4096

// config is what an adapter_config.json says.
type config struct {
	rank        int
	alpha       float64
	magnitudes  bool // each module has a vector of lengths (DoRA)
	stabilized  bool // the scale is alpha / sqrt(rank), and not alpha / rank
	ranks       []pattern
	alphas      []pattern
	modules     []string       // names, or ends of names; nil if expression is set
	expression  *regexp.Regexp // of whole names
	allLinear   bool
	layers      []int // nil: all
	layersNamed []string
	without     []string       // names, or ends of names, that are left out
	withoutSuch *regexp.Regexp // whole names that are
	tied        bool           // if embeddings or the output matrix are named, so is the other (ensure_weight_tying)
}

// pattern gives modules a number of their own.
type pattern struct {
	names *regexp.Regexp
	value float64
}

// unsupported are settings that change what an adapter computes, with the value at which they change nothing.
var unsupported = []struct{ name, what string }{
	{"modules_to_save", "modules that are saved whole"},
	{"lora_bias", "biases of lora_B"},
	{"use_qalora", "QALoRA"},
	{"layer_replication", "layers that are repeated"},
	{"trainable_token_indices", "embeddings of single tokens"},
	{"target_parameters", "adapters of parameters, such as those of experts"},
	{"alora_invocation_tokens", "adapters that begin at a token (aLoRA)"},
	{"arrow_config", "routing among adapters (Arrow)"},
	{"use_bdlora", "block-diagonal LoRA"},
	{"monteclora_config", "MonteCLoRA"},
	{"kasa_config", "KaSA"},
}

// used are the settings with this beginning that the reader knows. PEFT names what changes an adapter's products so.
const used = "use_"

var usedKnown = []string{"use_rslora", "use_dora", "use_qalora", "use_bdlora"}

// changesBase are values of init_lora_weights with which PEFT also changes the weights of the base.
var changesBase = []string{"pissa", "olora", "corda", "loftq", "lora_ga"}

// file is the JSON of the config.
type file struct {
	Type         string          `json:"peft_type"`
	R            *int            `json:"r"`
	Alpha        *float64        `json:"lora_alpha"`
	Stabilized   bool            `json:"use_rslora"`
	DoRA         bool            `json:"use_dora"`
	Tied         bool            `json:"ensure_weight_tying"`
	Bias         string          `json:"bias"`
	Init         json.RawMessage `json:"init_lora_weights"`
	Modules      json.RawMessage `json:"target_modules"`
	Layers       json.RawMessage `json:"layers_to_transform"`
	LayerNames   json.RawMessage `json:"layers_pattern"`
	Excluded     json.RawMessage `json:"exclude_modules"`
	RankPattern  json.RawMessage `json:"rank_pattern"`
	AlphaPattern json.RawMessage `json:"alpha_pattern"`
}

// isEmpty reports whether a setting has a value that stands for nothing.
func isEmpty(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "null", "false", "[]", "{}", `""`:
		return true
	}
	return false
}

// parseConfig reads an adapter_config.json. What would compute something else than plain LoRA is refused.
func parseConfig(text []byte) (*config, error) {
	var f file
	var mistyped *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &f); errors.As(err, &mistyped) && mistyped.Field != "" {
		return nil, fmt.Errorf("%s is a JSON %s, which it cannot be: save the adapter with PEFT", mistyped.Field,
			mistyped.Value)
	} else if err != nil {
		return nil, fmt.Errorf("it is not the JSON object of an adapter: save the adapter with PEFT (%w)", err)
	}
	if f.Type != "LORA" {
		return nil, fmt.Errorf("peft_type is %q, and only \"LORA\" is supported: merge the adapter with PEFT", f.Type)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, u := range unsupported {
		if !isEmpty(all[u.name]) {
			return nil, fmt.Errorf("%s is %s: %s cannot be read; train without, or merge the adapter with PEFT",
				u.name, compact(all[u.name]), u.what)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(name, used) && !slices.Contains(usedKnown, name) && !isEmpty(all[name]) {
			return nil, fmt.Errorf("%s is %s, which Quire does not know: merge the adapter with PEFT", name,
				compact(all[name]))
		}
	}
	if f.Bias != "" && f.Bias != "none" {
		return nil, fmt.Errorf("bias is %q, and trained biases are not supported: only \"none\" is", f.Bias)
	}
	var start string
	if json.Unmarshal(f.Init, &start) == nil {
		for _, name := range changesBase {
			if strings.HasPrefix(start, name) {
				return nil, fmt.Errorf("init_lora_weights is %q, with which the base has other weights: save the "+
					"adapter with path_initial_model_for_weight_conversion, which makes it an adapter of the base "+
					"itself", start)
			}
		}
	}
	c := &config{rank: 8, alpha: 8, stabilized: f.Stabilized, magnitudes: f.DoRA, tied: f.Tied} // PEFT's defaults
	if f.R != nil {
		c.rank = *f.R
	}
	if f.Alpha != nil {
		c.alpha = *f.Alpha
	}
	if c.rank < 1 || c.rank > maxRank {
		return nil, fmt.Errorf("r is %d, but must be from 1 to %d", c.rank, maxRank)
	}
	var err error
	if c.ranks, err = patterns("rank_pattern", f.RankPattern); err != nil {
		return nil, err
	}
	if c.alphas, err = patterns("alpha_pattern", f.AlphaPattern); err != nil {
		return nil, err
	}
	for _, p := range c.ranks {
		if p.value < 1 || p.value > maxRank || p.value != math.Trunc(p.value) {
			return nil, fmt.Errorf("rank_pattern gives rank %v, which must be a whole number from 1 to %d", p.value,
				maxRank)
		}
	}
	if err := c.readModules(f.Modules); err != nil {
		return nil, err
	}
	if err := c.readExcluded(f.Excluded); err != nil {
		return nil, err
	}
	return c, c.readLayers(f.Layers, f.LayerNames)
}

// compact shortens a setting's value for an error.
func compact(value json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, value) != nil || out.Len() > 60 {
		return "set"
	}
	return out.String()
}

// readModules reads target_modules: a list of names, a regular expression, or all-linear.
func (c *config) readModules(value json.RawMessage) error {
	if isEmpty(value) {
		return fmt.Errorf("target_modules names no module")
	}
	if json.Unmarshal(value, &c.modules) == nil {
		return nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return fmt.Errorf("target_modules is neither a list of names nor a regular expression")
	}
	if text == "all-linear" {
		c.allLinear = true
		return nil
	}
	var err error
	if c.expression, err = regexp.Compile(`^(?:` + text + `)$`); err != nil {
		return fmt.Errorf("target_modules is a regular expression that Quire does not read (%w): list the modules' "+
			"names", err)
	}
	return nil
}

// readExcluded reads exclude_modules: a list of names, or a regular expression.
func (c *config) readExcluded(value json.RawMessage) (err error) {
	var text string
	switch {
	case isEmpty(value), json.Unmarshal(value, &c.without) == nil:
	case json.Unmarshal(value, &text) != nil:
		return errors.New("exclude_modules is neither a list of names nor a regular expression")
	default:
		if c.withoutSuch, err = regexp.Compile(`^(?:` + text + `)$`); err != nil {
			return fmt.Errorf("exclude_modules is a regular expression that Quire does not read (%w): list the "+
				"modules' names", err)
		}
	}
	return nil
}

// readLayers reads layers_to_transform, a number or a list, and layers_pattern, a name or a list.
func (c *config) readLayers(layers, names json.RawMessage) error {
	if !isEmpty(layers) {
		var one int
		if json.Unmarshal(layers, &one) == nil {
			c.layers = []int{one}
		} else if err := json.Unmarshal(layers, &c.layers); err != nil {
			return fmt.Errorf("layers_to_transform is neither a number nor a list of numbers")
		}
	}
	if !isEmpty(names) {
		var one string
		if json.Unmarshal(names, &one) == nil {
			c.layersNamed = []string{one}
		} else if err := json.Unmarshal(names, &c.layersNamed); err != nil {
			return fmt.Errorf("layers_pattern is neither a name nor a list of names")
		}
	}
	return nil
}

// patterns reads an object of numbers by names of modules, or by regular expressions of their ends. The first that
// fits counts.
func patterns(setting string, value json.RawMessage) (list []pattern, err error) {
	if isEmpty(value) {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("%s is not an object", setting)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		p := pattern{}
		if err := dec.Decode(&p.value); err != nil {
			return nil, fmt.Errorf("%s of %q is not a number", setting, key)
		}
		if p.names, err = regexp.Compile(`^(?:(?:.*\.)?(?:` + key.(string) + `))$`); err != nil {
			return nil, fmt.Errorf("%s has %q, a regular expression that Quire does not read: %w", setting, key, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// layerOf finds the number of a module's layer.
var layerOf = regexp.MustCompile(`\.([^.]+)\.([0-9]+)\.`)

// twins are the modules that models tie.
var twins = map[string]string{"lm_head": "model.embed_tokens", "model.embed_tokens": "lm_head"}

// targets reports whether the config names a module, or its twin if the adapter keeps both alike.
func (c *config) targets(module string) bool {
	twin, ok := twins[module]
	return c.names(module) || c.tied && ok && c.names(twin)
}

// isOneOf reports whether a module has one of the names, or ends in one.
func isOneOf(module string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return module == name || strings.HasSuffix(module, "."+name)
	})
}

func (c *config) names(module string) bool {
	switch {
	case isOneOf(module, c.without) || c.withoutSuch != nil && c.withoutSuch.MatchString(module):
		return false
	case c.allLinear:
	case c.expression != nil:
		return c.expression.MatchString(module)
	case !isOneOf(module, c.modules):
		return false
	}
	if c.layers == nil {
		return true
	}
	m := layerOf.FindStringSubmatch(module)
	if m == nil || c.layersNamed != nil && !slices.Contains(c.layersNamed, m[1]) {
		return false
	}
	return slices.ContainsFunc(c.layers, func(n int) bool { return fmt.Sprint(n) == m[2] })
}

// of returns a module's rank and scale.
func (c *config) of(module string) (rank int, scale float32) {
	pick := func(list []pattern, otherwise float64) float64 {
		for _, p := range list {
			if p.names.MatchString(module) {
				return p.value
			}
		}
		return otherwise
	}
	r, alpha := pick(c.ranks, float64(c.rank)), pick(c.alphas, c.alpha)
	if c.stabilized {
		return int(r), float32(alpha / math.Sqrt(r))
	}
	return int(r), float32(alpha / r)
}

// part is what a tensor is of its module.
type part int

const (
	partA part = iota
	partB
	partMagnitude
	embeddedA // of embeddings: [rank, vocabulary]
	embeddedB // [hidden, rank]
	baseCopy  // the base's own matrix, which PEFT saves with adapters of embeddings
)

// ends are the ends of tensors' names, by what they are.
var ends = []struct {
	end string
	part
}{{".lora_A.weight", partA}, {".lora_B.weight", partB}, {".lora_magnitude_vector", partMagnitude},
	{".lora_magnitude_vector.weight", partMagnitude}, {".lora_embedding_A", embeddedA},
	{".lora_embedding_B", embeddedB}, {".base_layer.weight", baseCopy}}

// split splits a tensor's name, without the prefix, into its module and what it is of it.
func split(name string) (module string, _ part, err error) {
	for _, e := range ends {
		if module, ok := strings.CutSuffix(name, e.end); ok {
			return module, e.part, nil
		}
	}
	switch {
	case strings.Contains(name, ".lora_A.") || strings.Contains(name, ".lora_B.") && strings.HasSuffix(name, ".weight"):
		return "", 0, fmt.Errorf("has the adapter's name after lora_A or lora_B, as in a running model's state: save " +
			"the adapter with PEFT's save_pretrained")
	case strings.HasSuffix(name, ".lora_B.bias"):
		return "", 0, fmt.Errorf("is a bias of lora_B, which is not supported: merge the adapter with PEFT")
	case strings.HasSuffix(name, ".weight"), strings.HasSuffix(name, ".bias"):
		return "", 0, fmt.Errorf("is a whole parameter of the model, as modules_to_save and biases are, which is not " +
			"supported: merge the adapter with PEFT")
	}
	return "", 0, fmt.Errorf("is neither a lora_A.weight nor a lora_B.weight")
}
