package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/internal/plural"
)

// ParseConfig reads the text of a Hugging Face config.json of one of decoders, and of a generation_config.json (nil if
// there is none). Both the older rope_theta and rope_scaling and the newer rope_parameters are understood.
func ParseConfig(decoders []Decoder, config, generation []byte) (Config, error) {
	j, err := newJSON(config)
	if err != nil {
		return Config{}, err
	}
	d, err := j.decoder(decoders)
	if err != nil {
		return Config{}, err
	}
	c := Config{Architecture: d.Class, ModelType: d.ModelType, Names: d.Names, Norm: d.Norm,
		Stored: d.Stored.withoutPrefix(), Encoder: Encoder{Only: d.headless}}
	if d.Text != "" {
		if j, err = j.text(d.Text); err != nil {
			return Config{}, err
		}
	}
	for name, own := range d.Keys {
		if value, ok := j.fields[own]; ok {
			j.fields[name] = value
		}
	}
	if err := j.sizes(&c, d.Defaults); err != nil {
		return Config{}, err
	}
	if j.Has("quantization_config") {
		var q struct {
			Method string `json:"quant_method"`
		}
		if j.Decode("quantization_config", &q); slices.Contains(d.Quantized, q.Method) {
			c.ExpertBlocks = q.Method
		} else {
			c.Quantization = j.fields["quantization_config"]
		}
	}
	c.SetLayers(c.LlamaLayer())
	if err = j.ropes(&c, d.Defaults); err == nil { // the decoder may read the ropes
		err = d.JSON(j, &c)
	}
	if err == nil && d.Head != nil {
		err = d.Head(j, &c)
	}
	err = errors.Join(err, j.specialTokens(&c, d.Defaults, generation))
	if j.err != nil { // what was read wrong may have led to the other
		return Config{}, j.err
	}
	if err != nil {
		return Config{}, err
	}
	return c, c.finish()
}

// text reads the object of a key. Keys next to the object, and not in it, count too.
func (j *JSON) text(key string) (*JSON, error) {
	if !j.Has(key) {
		return nil, fmt.Errorf("%s is missing", key)
	}
	inner, err := j.object(key)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"bos_token_id", "eos_token_id", "tie_word_embeddings", "dtype", "torch_dtype",
		"quantization_config"} {
		if value, ok := j.fields[name]; ok && !inner.Present(name) {
			inner.fields[name] = value
		}
	}
	return inner, nil
}

// decoder finds the class by architectures, or by model_type in the configs that name none.
func (j *JSON) decoder(decoders []Decoder) (Decoder, error) {
	classes := supported(decoders, func(d Decoder) string { return d.Class })
	var names []string
	if j.Decode("architectures", &names); len(names) > 0 {
		for _, d := range decoders {
			if len(names) == 1 && d.Class == names[0] {
				return d, nil
			}
		}
		for _, d := range decoders {
			switch {
			case len(names) > 1:
			case d.isHeadless(names[0]):
				d.Class, d.headless = names[0], true
				return d, nil
			case d.classifies(names[0]):
				return d.withHead(names[0]), nil
			}
		}
		if err := refuseHeads(names[0]); err != nil {
			return Decoder{}, err
		}
		return Decoder{}, Unsupported(classes, "architecture %q", strings.Join(names, ", "))
	}
	modelType := j.String("model_type", "")
	for _, d := range decoders {
		if d.ModelType == modelType {
			return d, j.err
		}
	}
	return Decoder{}, errors.Join(j.err,
		Unsupported(classes, "a config without architectures and with model_type %q", modelType))
}

// sizes reads what all decoders have.
func (j *JSON) sizes(c *Config, absent Defaults) error {
	for key, size := range absent.Sizes {
		if !j.Has(key) {
			j.fields[key] = json.RawMessage(strconv.Itoa(size))
		}
	}
	c.VocabSize = j.required("vocab_size")
	c.HiddenSize = j.required("hidden_size")
	c.IntermediateSize = j.required("intermediate_size")
	c.NumLayers = j.required("num_hidden_layers")
	c.NumHeads = j.required("num_attention_heads")
	if j.err != nil {
		return j.err
	}
	if err := checkCounts(c); err != nil {
		return err
	}
	c.NumKVHeads = c.NumHeads
	if absent.KVHeads > 0 && !j.Present("num_key_value_heads") {
		c.NumKVHeads = absent.KVHeads
	}
	c.NumKVHeads = j.Int("num_key_value_heads", c.NumKVHeads)
	c.HeadDim = absent.HeadDim
	if c.HeadDim == 0 || j.Present("head_dim") {
		c.HeadDim = c.HiddenSize / c.NumHeads
		if !j.Has("head_dim") && c.HiddenSize%c.NumHeads != 0 {
			return fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d, and there is no head_dim",
				c.HiddenSize, c.NumHeads)
		}
		c.HeadDim = j.Int("head_dim", c.HeadDim)
	}
	c.MaxPositions = j.Int("max_position_embeddings", absent.MaxPositions)
	c.RMSNormEps = 1e-6
	if absent.Eps > 0 {
		c.RMSNormEps = absent.Eps
	}
	c.RMSNormEps = j.Float("rms_norm_eps", c.RMSNormEps)
	c.TieEmbeddings = j.Bool("tie_word_embeddings", absent.Tie)
	c.DType = j.dtype()
	return nil
}

// Require refuses another value of a key; absent is the value of a missing key.
func (j *JSON) Require(key, want string) error {
	if value := j.String(key, want); value != want {
		return Unsupported(want+" is", "%s %q", key, value)
	}
	return nil
}

// ReadGELU reads the activation of an encoder: gelu, or its approximation by tanh.
func ReadGELU(j *JSON, key string) (Activation, error) {
	switch name := j.String(key, "gelu"); name {
	case "gelu":
		return GELU, nil
	case "gelu_new", "gelu_pytorch_tanh":
		return GELUTanh, nil
	default:
		return "", Unsupported("gelu, gelu_new and gelu_pytorch_tanh are", "%s %q", key, name)
	}
}

// Refuse refuses keys that are true.
func (j *JSON) Refuse(c *Config, keys ...string) error {
	for _, key := range keys {
		if j.Bool(key, false) {
			return Unsupported("", "%s in a %s", key, c.Architecture)
		}
	}
	return nil
}

// Window reads sliding_window: 0 if it is null, absent if there is none.
func (j *JSON) Window(absent int) (int, error) {
	if !j.Present("sliding_window") {
		return absent, nil
	}
	if !j.Has("sliding_window") {
		return 0, nil
	}
	window := j.Int("sliding_window", 0)
	if window < 1 {
		return 0, fmt.Errorf("sliding_window is %d; it must be at least 1, or null", window)
	}
	return window, nil
}

// Types of layers.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// SlidingLayers reads layer_types: which layers are of type sliding_attention; nil if it is absent.
func (j *JSON) SlidingLayers(c *Config) ([]bool, error) {
	var types []string
	if j.Decode("layer_types", &types); len(types) == 0 {
		return nil, nil
	}
	if len(types) != c.NumLayers {
		return nil, fmt.Errorf("layer_types has %s for %s", plural.Count(len(types), "entry"),
			plural.Count(c.NumLayers, "layer"))
	}
	sliding := make([]bool, len(types))
	for i, t := range types {
		if t != fullAttention && t != slidingAttention {
			return nil, Unsupported(fullAttention+" and "+slidingAttention+" are", "layer type %q", t)
		}
		sliding[i] = t == slidingAttention
	}
	return sliding, nil
}

// SlidingWindow reads the window of a class that has one, and which layers have it: the layers that layer_types lists,
// else all but every pattern-th one. absent is the window of a config without sliding_window; null is refused.
func (j *JSON) SlidingWindow(c *Config, absent, pattern int) (window int, sliding []bool, err error) {
	if window, err = j.Window(absent); err != nil {
		return 0, nil, err
	}
	if window == 0 {
		return 0, nil, Unsupported("", "sliding_window null in a %s", c.Architecture)
	}
	if sliding, err = j.SlidingLayers(c); sliding == nil {
		sliding = AllButEvery(pattern, c.NumLayers)
	}
	return window, sliding, err
}

// AllButEvery is true for all layers but every n-th one; for none if n is 0.
func AllButEvery(n, layers int) []bool {
	list := make([]bool, layers)
	for i := range list {
		list[i] = n > 0 && (i+1)%n != 0
	}
	return list
}

// specialTokens fills BOS and EOS: first the ids of generation_config.json, then the ids of config.json.
func (j *JSON) specialTokens(c *Config, absent Defaults, generation []byte) error {
	c.BOS = absent.BOS
	if j.Present("bos_token_id") {
		c.BOS = j.Int("bos_token_id", -1)
	}
	var fromGeneration []int32
	if generation != nil {
		g, err := newJSON(generation)
		if err == nil {
			fromGeneration = g.tokenIDs("eos_token_id")
			c.Generation = g.generation()
			err = g.err
		}
		if err != nil {
			return fmt.Errorf("generation_config.json: %w", err)
		}
	}
	own := j.tokenIDs("eos_token_id")
	if !j.Present("eos_token_id") && len(fromGeneration) == 0 {
		own = absent.EOS
	}
	for _, id := range append(fromGeneration, own...) {
		if !slices.Contains(c.EOS, id) {
			c.EOS = append(c.EOS, id)
		}
	}
	return nil
}

// dtype understands both the older torch_dtype and the newer dtype.
func (j *JSON) dtype() dtypes.DType {
	switch strings.TrimPrefix(j.String("dtype", j.String("torch_dtype", "")), "torch.") {
	case "float32":
		return dtypes.Float32
	case "bfloat16":
		return dtypes.BFloat16
	case "float16":
		return dtypes.Float16
	}
	return dtypes.InvalidDType
}

// SparseExperts gives the layers a mixture, except layers that keep one feed-forward by decoder_sparse_step and
// mlp_only_layers.
func (j *JSON) SparseExperts(c *Config, e Experts) {
	step, only := max(1, j.Int("decoder_sparse_step", 1)), []int{}
	j.Decode("mlp_only_layers", &only)
	for i := range c.Layers {
		if (i+1)%step == 0 && e.Count > 0 && !slices.Contains(only, i) {
			c.Layers[i].Experts = e
		}
	}
}
