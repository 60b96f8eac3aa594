package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// family holds what differs between the supported classes: transformers' defaults for keys that a config.json leaves
// out, and which keys the class acts on.
type family struct {
	modelType    string
	kvHeads      int // 0: as many as num_attention_heads
	maxPositions int
	headDim      int // 0: hidden_size / num_attention_heads
	theta        float64
	tie          bool
	bos          int // -1: none
	eos          []int32
	window       int // sliding_window

	attentionBias bool // acts on attention_bias
	mlpBias       bool // acts on mlp_bias
	qkvBias       bool // q, k and v always have biases
	qkNorm        bool
	windowSwitch  bool // acts on use_sliding_window and layer_types
	noRope        bool // acts on no_rope_layers
}

var families = map[string]family{
	"LlamaForCausalLM": {modelType: "llama", maxPositions: 2048, theta: 1e4, bos: 1, eos: []int32{2},
		attentionBias: true, mlpBias: true},
	"MistralForCausalLM": {modelType: "mistral", kvHeads: 8, maxPositions: 131072, theta: 1e4, bos: 1, eos: []int32{2},
		window: 4096},
	"Qwen2ForCausalLM": {modelType: "qwen2", kvHeads: 32, maxPositions: 32768, theta: 1e4, bos: -1, window: 4096,
		qkvBias: true, windowSwitch: true},
	"Qwen3ForCausalLM": {modelType: "qwen3", kvHeads: 32, maxPositions: 32768, headDim: 128, theta: 1e4, bos: -1,
		window:        4096,
		attentionBias: true, qkNorm: true, windowSwitch: true},
	"SmolLM3ForCausalLM": {modelType: "smollm3", kvHeads: 4, maxPositions: 32768, theta: 2e6, tie: true, bos: 128000,
		eos:           []int32{128001},
		attentionBias: true, mlpBias: true, windowSwitch: true, noRope: true},
}

func supportedArchitectures() string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	return "supported are " + strings.Join(names, ", ")
}

func readFolderConfig(dir string) (Config, error) {
	return readConfigFile(filepath.Join(dir, configFile), filepath.Join(dir, generationFile))
}

// readConfigFile reads a config.json and, where it exists, the generation_config.json that adds to its EOS ids.
func readConfigFile(path, generationPath string) (Config, error) {
	data, err := readTextFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Config{}, fmt.Errorf("%s is missing; a Hugging Face folder needs it: %w", path, os.ErrNotExist)
	}
	if err != nil {
		return Config{}, err
	}
	generation, err := readTextFile(generationPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Config{}, err
	}
	c, err := ParseConfig(data, generation)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads the text of a Hugging Face config.json and of a generation_config.json (nil if there is none). Both
// the older rope_theta and rope_scaling and the newer rope_parameters are understood.
func ParseConfig(config, generation []byte) (Config, error) {
	j, err := newJSONFields(config)
	if err != nil {
		return Config{}, err
	}
	architecture, fam, err := j.family()
	if err != nil {
		return Config{}, err
	}
	c := Config{Architecture: architecture, ModelType: fam.modelType, QKNorm: fam.qkNorm}
	c.VocabSize = j.required("vocab_size")
	c.HiddenSize = j.required("hidden_size")
	c.IntermediateSize = j.required("intermediate_size")
	c.NumLayers = j.required("num_hidden_layers")
	c.NumHeads = j.required("num_attention_heads")
	if j.err != nil {
		return Config{}, j.err
	}
	if err := c.checkCounts(); err != nil {
		return Config{}, err
	}
	c.NumKVHeads = c.NumHeads
	if fam.kvHeads > 0 && !j.present("num_key_value_heads") {
		c.NumKVHeads = fam.kvHeads
	}
	c.NumKVHeads = j.int("num_key_value_heads", c.NumKVHeads)
	c.HeadDim = fam.headDim
	if c.HeadDim == 0 || j.present("head_dim") {
		c.HeadDim = c.HiddenSize / c.NumHeads
		if !j.has("head_dim") && c.HiddenSize%c.NumHeads != 0 {
			return Config{},
				fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d, and there is no head_dim",
					c.HiddenSize, c.NumHeads)
		}
		c.HeadDim = j.int("head_dim", c.HeadDim)
	}
	c.MaxPositions = j.int("max_position_embeddings", fam.maxPositions)
	c.RMSNormEps = j.float("rms_norm_eps", 1e-6)
	c.TieEmbeddings = j.bool("tie_word_embeddings", fam.tie)
	c.DType = j.dtype()

	if act := j.string("hidden_act", "silu"); act != "silu" {
		return Config{}, unsupported("silu is", "hidden_act %q", act)
	}
	bias := j.bool("attention_bias", false)
	if bias && !fam.attentionBias && !fam.qkvBias {
		return Config{}, unsupported("", "attention_bias in a %s", architecture)
	}
	c.QKVBias = fam.qkvBias || bias
	c.OBias = fam.attentionBias && bias
	if c.MLPBias = j.bool("mlp_bias", false); c.MLPBias && !fam.mlpBias {
		return Config{}, unsupported("", "mlp_bias in a %s", architecture)
	}
	if j.has("quantization_config") {
		var q struct {
			Method string `json:"quant_method"`
		}
		j.decode("quantization_config", &q)
		return Config{}, unsupported("use the unquantized model or a GGUF file",
			"quantization_config (quant_method %q)", q.Method)
	}
	if err := errors.Join(j.noRope(&c, fam), j.slidingWindow(&c, fam), j.rope(&c, fam.theta),
		j.specialTokens(&c, fam, generation)); err != nil {
		return Config{}, err
	}
	if j.err != nil {
		return Config{}, j.err
	}
	return c, c.check()
}

// family finds the class by architectures, or by model_type in the configs that name none.
func (j *jsonFields) family() (string, family, error) {
	var names []string
	if j.decode("architectures", &names); len(names) > 0 {
		if fam, ok := families[names[0]]; ok && len(names) == 1 {
			return names[0], fam, nil
		}
		return "", family{}, unsupported(supportedArchitectures(), "architecture %q", strings.Join(names, ", "))
	}
	modelType := j.string("model_type", "")
	for name, fam := range families {
		if fam.modelType == modelType {
			return name, fam, j.err
		}
	}
	return "", family{}, errors.Join(j.err,
		unsupported(supportedArchitectures(), "a config without architectures and with model_type %q", modelType))
}

// noRope fills Config.NoRope; in no_rope_layers a 1 means that the layer does have the rotary embedding.
func (j *jsonFields) noRope(c *Config, fam family) error {
	c.NoRope = make([]bool, c.NumLayers)
	if !fam.noRope {
		return nil
	}
	interval := j.int("no_rope_layer_interval", 4)
	if j.has("no_rope_layers") {
		var layers []int
		j.decode("no_rope_layers", &layers)
		if j.err == nil && len(layers) < c.NumLayers {
			return fmt.Errorf("no_rope_layers has %d entries for %d layers", len(layers), c.NumLayers)
		}
		for i := range min(c.NumLayers, len(layers)) {
			c.NoRope[i] = layers[i] == 0
		}
		return nil
	}
	if interval < 1 {
		return fmt.Errorf("no_rope_layer_interval is %d; it must be at least 1", interval)
	}
	for i := range c.NoRope {
		c.NoRope[i] = (i+1)%interval == 0
	}
	return nil
}

// slidingWindow fills Config.SlidingWindow: all layers of a Mistral, those with use_sliding_window that layer_types or
// max_window_layers choose in a Qwen, layers without rotary embedding in a SmolLM3 that does not list its layer_types.
func (j *jsonFields) slidingWindow(c *Config, fam family) error {
	c.SlidingWindow = make([]int, c.NumLayers)
	window := 0
	if !j.present("sliding_window") {
		window = fam.window
	} else if j.has("sliding_window") {
		if window = j.int("sliding_window", 0); window < 1 {
			return fmt.Errorf("sliding_window is %d; it must be at least 1, or null", window)
		}
	}
	var types []string
	if j.decode("layer_types", &types); len(types) > 0 && len(types) != c.NumLayers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(types), c.NumLayers)
	}
	for _, t := range types {
		if t != "full_attention" && t != "sliding_attention" {
			return unsupported("full_attention and sliding_attention are", "layer type %q", t)
		}
	}
	if !fam.windowSwitch {
		if fam.window == 0 { // the class has no windows and transformers ignores the keys
			window = 0
		}
		for _, t := range types {
			if (t == "sliding_attention") != (window > 0) {
				return unsupported("", "layer type %q in this %s", t, c.Architecture)
			}
		}
		for i := range c.SlidingWindow {
			c.SlidingWindow[i] = window
		}
		return nil
	}
	if !j.bool("use_sliding_window", false) {
		window = 0
	}
	from := j.int("max_window_layers", 28)
	for i := range c.SlidingWindow {
		sliding := window > 0 && i >= from
		if fam.noRope {
			sliding = window > 0 && c.NoRope[i]
		}
		if len(types) > 0 {
			sliding = types[i] == "sliding_attention"
		}
		if sliding {
			if window == 0 {
				return fmt.Errorf(
					"layer %d is of type sliding_attention, but use_sliding_window and sliding_window give no window",
					i)
			}
			c.SlidingWindow[i] = window
		}
	}
	return nil
}

// rope fills RopeTheta and RopeScaling, with transformers' precedence between the two formats.
func (j *jsonFields) rope(c *Config, defaultTheta float64) error {
	c.RopeTheta = j.float("rope_theta", defaultTheta)
	partial := j.float("partial_rotary_factor", 1)
	key := "rope_scaling"
	if raw := strings.TrimSpace(string(j.fields[key])); !j.has(key) || raw == "{}" {
		key = "rope_parameters"
	}
	if j.has(key) {
		r, err := newJSONFields(j.fields[key])
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		for name, value := range r.fields {
			if strings.HasPrefix(string(value), "{") {
				return unsupported("one set for all layers is", "%s for each layer type (%q)", key, name)
			}
		}
		c.RopeTheta = r.float("rope_theta", c.RopeTheta)
		partial = r.float("partial_rotary_factor", partial)
		typ := r.string("rope_type", r.string("type", "default"))
		original := r.int("original_max_position_embeddings", c.MaxPositions)
		original = j.int("original_max_position_embeddings", original)
		s := &RopeScaling{Type: typ, AttentionFactor: 1}
		switch typ {
		case "default", "none":
			s = nil
		case "linear":
			s.Factor = r.requiredFloat("factor")
		case "llama3":
			s.Factor, s.OriginalMaxPositions = r.requiredFloat("factor"), original
			s.LowFreqFactor, s.HighFreqFactor = r.requiredFloat("low_freq_factor"), r.requiredFloat("high_freq_factor")
		case "yarn":
			s.OriginalMaxPositions = original
			s.Factor = r.float("factor", float64(c.MaxPositions)/float64(max(original, 1)))
			s.BetaFast, s.BetaSlow = r.float("beta_fast", 32), r.float("beta_slow", 1)
			s.Truncate = r.bool("truncate", true)
			s.AttentionFactor = r.float("attention_factor",
				yarnAttentionFactor(s.Factor, r.float("mscale", 0), r.float("mscale_all_dim", 0)))
		default:
			return unsupported("default, linear, llama3 and yarn are", "rope type %q", typ)
		}
		if r.err != nil {
			return fmt.Errorf("%s: %w", key, r.err)
		}
		c.RopeScaling = s
	}
	if partial != 1 {
		return unsupported("the whole head must be rotated", "partial_rotary_factor %g", partial)
	}
	return nil
}

// specialTokens fills BOS and EOS: the ids of generation_config.json first, then those of config.json.
func (j *jsonFields) specialTokens(c *Config, fam family, generation []byte) error {
	c.BOS = fam.bos
	if j.present("bos_token_id") {
		c.BOS = j.int("bos_token_id", -1)
	}
	var fromGeneration []int32
	if generation != nil {
		g, err := newJSONFields(generation)
		if err == nil {
			fromGeneration = g.tokenIDs("eos_token_id")
			err = g.err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", generationFile, err)
		}
	}
	own := j.tokenIDs("eos_token_id")
	if !j.present("eos_token_id") && len(fromGeneration) == 0 {
		own = fam.eos
	}
	for _, id := range append(fromGeneration, own...) {
		if !slices.Contains(c.EOS, id) {
			c.EOS = append(c.EOS, id)
		}
	}
	return nil
}

// dtype understands both the older torch_dtype and the newer dtype.
func (j *jsonFields) dtype() dtypes.DType {
	switch strings.TrimPrefix(j.string("dtype", j.string("torch_dtype", "")), "torch.") {
	case "float32":
		return dtypes.Float32
	case "bfloat16":
		return dtypes.BFloat16
	case "float16":
		return dtypes.Float16
	}
	return dtypes.InvalidDType
}

// jsonFields reads typed keys of a JSON object. The first key of the wrong type is kept in err; null counts as absent,
// except for present.
type jsonFields struct {
	fields map[string]json.RawMessage
	err    error
}

func newJSONFields(data []byte) (*jsonFields, error) {
	j := &jsonFields{}
	if err := json.Unmarshal(data, &j.fields); err != nil {
		return nil, fmt.Errorf("it is no valid JSON object: %w", err)
	}
	return j, nil
}

func (j *jsonFields) present(key string) bool { _, ok := j.fields[key]; return ok }

func (j *jsonFields) has(key string) bool { return j.present(key) && string(j.fields[key]) != "null" }

// decode leaves dst as it is where the key is absent.
func (j *jsonFields) decode(key string, dst any) {
	if !j.has(key) {
		return
	}
	if err := json.Unmarshal(j.fields[key], dst); err != nil && j.err == nil {
		j.err = fmt.Errorf("%s is not of the expected type: %w", key, err)
	}
}

func (j *jsonFields) float(key string, absent float64) float64 { j.decode(key, &absent); return absent }
func (j *jsonFields) bool(key string, absent bool) bool        { j.decode(key, &absent); return absent }
func (j *jsonFields) string(key, absent string) string         { j.decode(key, &absent); return absent }

// int accepts 4096.0 as well, which some exporters write.
func (j *jsonFields) int(key string, absent int) int {
	x := j.float(key, float64(absent))
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		if j.err == nil {
			j.err = fmt.Errorf("%s is %g, not an integer", key, x)
		}
		return absent
	}
	return int(x)
}

func (j *jsonFields) required(key string) int {
	if !j.has(key) && j.err == nil {
		j.err = fmt.Errorf("%s is missing", key)
	}
	return j.int(key, 0)
}

func (j *jsonFields) requiredFloat(key string) float64 {
	if !j.has(key) && j.err == nil {
		j.err = fmt.Errorf("%s is missing", key)
	}
	return j.float(key, 0)
}

// tokenIDs reads one id or a list of them.
func (j *jsonFields) tokenIDs(key string) []int32 {
	if !strings.HasPrefix(string(j.fields[key]), "[") {
		if !j.has(key) {
			return nil
		}
		id := int32(-1)
		j.decode(key, &id)
		return []int32{id}
	}
	var ids []int32
	j.decode(key, &ids)
	return ids
}
