// Package llama has the decoders of the Llama family: Llama 2 to 3.2, Mistral, Ministral, Mixtral, Qwen2, Qwen3, OLMoE,
// SmolLM2 and SmolLM3 differ by biases, norms of queries and keys, windows, layers without a rotary embedding, and
// experts.
package llama

import (
	"fmt"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// Decoders are those of the family. Mistral models are converted to GGUF as llama.
var Decoders = []arch.Decoder{
	features{attentionBias: true, mlpBias: true}.decoder(arch.Decoder{
		Class: "LlamaForCausalLM", ModelType: "llama", GGUF: arch.GGUF{Architecture: "llama", Interleaved: true},
		Defaults: arch.Defaults{MaxPositions: 2048, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	}),
	features{window: 4096}.decoder(arch.Decoder{
		Class: "MistralForCausalLM", ModelType: "mistral",
		Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	}),
	features{window: 4096, layerTypes: true}.decoder(arch.Decoder{
		Class: "MinistralForCausalLM", ModelType: "ministral",
		Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	}),
	features{window: 4096, qkvBias: true, windowSwitch: true}.decoder(arch.Decoder{
		Class: "Qwen2ForCausalLM", ModelType: "qwen2", GGUF: arch.GGUF{Architecture: "qwen2"},
		Defaults: arch.Defaults{KVHeads: 32, MaxPositions: 32768, Theta: 1e4, BOS: -1},
	}),
	features{window: 4096, attentionBias: true, qkNorm: arch.EachHead, windowSwitch: true}.decoder(arch.Decoder{
		Class: "Qwen3ForCausalLM", ModelType: "qwen3", GGUF: arch.GGUF{Architecture: "qwen3"},
		Defaults: arch.Defaults{KVHeads: 32, MaxPositions: 32768, HeadDim: 128, Theta: 1e4, BOS: -1},
	}),
	features{attentionBias: true, mlpBias: true, windowSwitch: true, noRope: true}.decoder(arch.Decoder{
		Class: "SmolLM3ForCausalLM", ModelType: "smollm3",
		GGUF: arch.GGUF{Architecture: "smollm3", Interleaved: true},
		Defaults: arch.Defaults{KVHeads: 4, MaxPositions: 32768, Theta: 2e6, Tie: true, BOS: 128000,
			EOS: []int32{128001}},
	}),
	features{experts: mixtral}.decoder(arch.Decoder{
		Class: "MixtralForCausalLM", ModelType: "mixtral", Names: mixtralNames,
		GGUF:     arch.GGUF{Architecture: "llama", Interleaved: true, Experts: true},
		Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Eps: 1e-5, Theta: 1e6, BOS: 1, EOS: []int32{2}},
	}),
	features{attentionBias: true, qkNorm: arch.EachHead, experts: qwen3}.decoder(arch.Decoder{
		Class: "Qwen3MoeForCausalLM", ModelType: "qwen3_moe", GGUF: arch.GGUF{Architecture: "qwen3moe", Experts: true},
		Defaults: arch.Defaults{KVHeads: 4, MaxPositions: 32768, Theta: 1e4, BOS: -1},
	}),
	features{attentionBias: true, qkNorm: arch.AllHeads, experts: olmoe}.decoder(arch.Decoder{
		Class: "OlmoeForCausalLM", ModelType: "olmoe", GGUF: arch.GGUF{Architecture: "olmoe", Experts: true},
		Defaults: arch.Defaults{MaxPositions: 4096, Eps: 1e-5, Theta: 1e4, BOS: -1, EOS: []int32{50279}},
	}),
}

// features are what a class acts on.
type features struct {
	window        int // sliding_window where the key is absent
	attentionBias bool
	mlpBias       bool
	qkvBias       bool // q, k and v always have biases
	qkNorm        arch.Width
	windowSwitch  bool // use_sliding_window and layer_types
	layerTypes    bool // layer_types; all layers have the window where there are none
	noRope        bool // no_rope_layers
	experts       *experts
}

func (f features) decoder(d arch.Decoder) arch.Decoder {
	d.JSON, d.Metadata = f.readJSON, f.readMetadata
	d.GGUF.Keys = []string{"attention.sliding_window"}
	return d
}

func (f features) readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	bias, mlpBias := j.Bool("attention_bias", false), j.Bool("mlp_bias", false)
	if bias && !f.attentionBias && !f.qkvBias {
		return arch.Unsupported("", "attention_bias in a %s", c.Architecture)
	}
	if mlpBias && !f.mlpBias {
		return arch.Unsupported("", "mlp_bias in a %s", c.Architecture)
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKVBias, l.OBias, l.MLPBias, l.QKNorm = f.qkvBias || bias, f.attentionBias && bias, mlpBias, f.qkNorm
	}
	if f.experts != nil {
		if err := f.experts.readJSON(j, c); err != nil {
			return err
		}
	}
	if f.noRope {
		if err := readNoRope(j, c); err != nil {
			return err
		}
	}
	return f.readWindows(j, c)
}

// readNoRope finds the layers without a rotary embedding; in no_rope_layers a 1 means that the layer does have it.
func readNoRope(j *arch.JSON, c *arch.Config) error {
	interval := j.Int("no_rope_layer_interval", 4)
	if j.Has("no_rope_layers") {
		var layers []int
		if j.Decode("no_rope_layers", &layers); len(layers) < c.NumLayers {
			return fmt.Errorf("no_rope_layers has %s for %s", plural.Count(len(layers), "entry"),
				plural.Count(c.NumLayers, "layer"))
		}
		for i := range c.Layers {
			setRope(&c.Layers[i], layers[i] != 0)
		}
		return nil
	}
	if interval < 1 {
		return fmt.Errorf("no_rope_layer_interval is %d; it must be at least 1", interval)
	}
	for i := range c.Layers {
		setRope(&c.Layers[i], (i+1)%interval != 0)
	}
	return nil
}

func setRope(l *arch.Layer, is bool) {
	if !is {
		l.Rope = arch.NoRope
	}
}

// readWindows finds the layers with a window: all of a Mistral, those with use_sliding_window that layer_types or
// max_window_layers choose in a Qwen, layers without rotary embedding in a SmolLM3 that does not list its layer_types.
func (f features) readWindows(j *arch.JSON, c *arch.Config) error {
	window, err := j.Window(f.window)
	if err != nil {
		return err
	}
	types, err := j.SlidingLayers(c)
	if err != nil {
		return err
	}
	if f.layerTypes {
		for i := range c.Layers {
			if types == nil || types[i] {
				c.Layers[i].Window = window
			}
			if types != nil && types[i] && window == 0 {
				return fmt.Errorf("layer %d is of type sliding_attention, but there is no sliding_window", i)
			}
		}
		return nil
	}
	if !f.windowSwitch {
		if f.window == 0 { // the class has no windows and transformers ignores the keys
			window = 0
		}
		for _, sliding := range types {
			if sliding != (window > 0) {
				kind := map[bool]string{true: "sliding_attention", false: "full_attention"}[sliding]
				return arch.Unsupported("", "layer type %q in this %s", kind, c.Architecture)
			}
		}
		for i := range c.Layers {
			c.Layers[i].Window = window
		}
		return nil
	}
	if !j.Bool("use_sliding_window", false) {
		window = 0
	}
	from := j.Int("max_window_layers", 28)
	for i := range c.Layers {
		sliding := window > 0 && i >= from
		if f.noRope {
			sliding = window > 0 && c.Layers[i].Rope == arch.NoRope
		}
		if types != nil {
			sliding = types[i]
		}
		if sliding && window == 0 {
			return fmt.Errorf(
				"layer %d is of type sliding_attention, but use_sliding_window and sliding_window give no window", i)
		}
		if sliding {
			c.Layers[i].Window = window
		}
	}
	return nil
}

func (f features) readMetadata(m *arch.Metadata, c *arch.Config) error {
	has := func(tensor string) bool { return m.HasTensor("blk.0." + tensor) }
	window := m.Int("attention.sliding_window", 0)
	if window > 0 && c.Architecture != "LlamaForCausalLM" {
		return arch.Unsupported("", "attention.sliding_window in a %s file, which does not say which layers have it,",
			c.ModelType)
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKNorm, l.Window = f.qkNorm, window
		l.QKVBias, l.OBias, l.MLPBias = f.qkvBias || has("attn_q.bias"), has("attn_output.bias"), has("ffn_gate.bias")
		setRope(l, !f.noRope || (i+1)%4 != 0) // the format has no key for it; the converter takes SmolLM3's default
	}
	if f.experts != nil {
		return m.Experts(c, !f.experts.sharesOfAll)
	}
	return nil
}
