// Package llama provides the decoders of the Llama family: Llama 2 to 3.2, Mistral, Ministral, Mixtral, Qwen2, Qwen3,
// OLMoE, SmolLM2 and SmolLM3. They differ in biases, norms of queries and keys, windows, layers without a rotary
// embedding, and experts.
package llama

import (
	"fmt"
	"slices"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// Decoders lists the family's decoders. Mistral models are converted to GGUF as llama.
var Decoders = slices.Concat(ofLlama, ofMistral, ofQwen, ofExperts)

var ofLlama = []arch.Decoder{
	features{attentionBias: true, mlpBias: true}.decoder(arch.Decoder{
		Class: "LlamaForCausalLM", ModelType: "llama", GGUF: arch.GGUF{Architecture: "llama", Interleaved: true},
		Defaults: arch.Defaults{MaxPositions: 2048, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	}),
	features{attentionBias: true, mlpBias: true, windows: ropeless, noRope: true}.decoder(arch.Decoder{
		Class: "SmolLM3ForCausalLM", ModelType: "smollm3",
		GGUF: arch.GGUF{Architecture: "smollm3", Interleaved: true},
		Defaults: arch.Defaults{KVHeads: 4, MaxPositions: 32768, Theta: 2e6, Tie: true, BOS: 128000,
			EOS: []int32{128001}},
	}),
}

// features are the config keys that a class respects.
type features struct {
	window        int // default of sliding_window
	attentionBias bool
	mlpBias       bool
	qkvBias       bool // q, k and v always have biases
	qkNorm        arch.Width
	windows       windows // nil if the class has no windows
	noRope        bool    // respects no_rope_layers
	experts       *experts
}

func (f features) decoder(d arch.Decoder) arch.Decoder {
	d.JSON, d.Metadata = f.readJSON, f.readMetadata
	d.GGUF.Keys = append(d.GGUF.Keys, "attention.sliding_window")
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
	window, err := j.Window(f.window)
	if err != nil {
		return err
	}
	types, err := j.SlidingLayers(c)
	if err != nil {
		return err
	}
	if f.windows == nil { // transformers ignores the key
		return all(j, c, 0, types)
	}
	return f.windows(j, c, window, types)
}

// readNoRope finds the layers without a rotary embedding. In no_rope_layers a 1 means that the layer has one.
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

// ropeless gives the window to the layers without a rotary embedding.
func ropeless(j *arch.JSON, c *arch.Config, window int, types []bool) error {
	return withSwitch(j, c, window, types, func(i int) bool { return c.Layers[i].Rope == arch.NoRope })
}

func setRope(l *arch.Layer, hasRope bool) {
	if !hasRope {
		l.Rope = arch.NoRope
	}
}

func (f features) readMetadata(m *arch.Metadata, c *arch.Config) error {
	has := func(tensor string) bool { return m.HasTensor("blk.0." + tensor) }
	window := m.Int("attention.sliding_window", 0)
	if window > 0 && c.Architecture != "LlamaForCausalLM" {
		return arch.Unsupported("", "attention.sliding_window in a %s file, which does not state which layers have it,",
			c.ModelType)
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKNorm, l.Window = f.qkNorm, window
		l.QKVBias, l.OBias, l.MLPBias = f.qkvBias || has("attn_q.bias"), has("attn_output.bias"), has("ffn_gate.bias")
		// the format has no key for it, so take SmolLM3's default, as the converter does
		setRope(l, !f.noRope || (i+1)%4 != 0)
	}
	if f.experts != nil {
		return m.Experts(c, !f.experts.sharesOfAll)
	}
	return nil
}
