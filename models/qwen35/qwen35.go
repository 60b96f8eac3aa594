// Package qwen35 has the decoders of Qwen3.5 and 3.6 without experts: gated delta nets in three of four layers,
// attention whose heads have gates in the others.
package qwen35

import (
	"fmt"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// Decoders are Qwen3_5ForCausalLM, and the text of models that read pictures too.
var Decoders = []arch.Decoder{
	decoder(arch.Decoder{Class: "Qwen3_5ForCausalLM", ModelType: "qwen3_5_text"}),
	decoder(arch.Decoder{Class: "Qwen3_5ForConditionalGeneration", ModelType: "qwen3_5", Text: "text_config"}),
}

func decoder(d arch.Decoder) arch.Decoder {
	d.Stored = arch.Stored{Renamed: map[string]string{"model.language_model.": "model."},
		Unused: []string{"mtp.", "model.visual."}}
	d.Defaults = arch.Defaults{KVHeads: 4, MaxPositions: 32768, HeadDim: 256, Theta: 1e4, Partial: 0.25, BOS: -1,
		Sizes: map[string]int{"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288,
			"num_hidden_layers": 32, "num_attention_heads": 16}}
	d.Names = arch.LlamaNames.With(arch.Names{
		arch.DeltaQKV: {HF: "linear_attn.in_proj_qkv"}, arch.DeltaGate: {HF: "linear_attn.in_proj_z"},
		arch.DeltaLearn: {HF: "linear_attn.in_proj_b"}, arch.DeltaStep: {HF: "linear_attn.in_proj_a"},
		arch.ConvTaps: {HF: "linear_attn.conv1d"}, arch.DeltaDecay: {HF: "linear_attn.A_log"},
		arch.DeltaBias: {HF: "linear_attn.dt_bias"}, arch.DeltaNorm: {HF: "linear_attn.norm"},
		arch.DeltaOut: {HF: "linear_attn.out_proj"},
	})
	d.Norm = arch.Norm{Wide: true, Offset: 1}
	d.JSON = readJSON
	return d
}

// Types of layers.
const (
	fullAttention   = "full_attention"
	linearAttention = "linear_attention"
)

func readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	if j.Bool("attention_bias", false) {
		return arch.Unsupported("", "attention_bias in a %s", c.Architecture)
	}
	types, err := layerTypes(j, c)
	if err != nil {
		return err
	}
	net := arch.DeltaNet{KeyHeads: j.Int("linear_num_key_heads", 16), ValueHeads: j.Int("linear_num_value_heads", 32),
		KeyDim: j.Int("linear_key_head_dim", 128), ValueDim: j.Int("linear_value_head_dim", 128)}
	taps := j.Int("linear_conv_kernel_dim", 4)
	for i := range c.Layers {
		l := &c.Layers[i]
		switch types[i] {
		case fullAttention:
			l.QKNorm, l.Gate = arch.EachHead, true
		case linearAttention:
			l.Mixer, l.Delta, l.Taps, l.Rope = arch.Delta, net, taps, arch.NoRope
		default:
			return arch.Unsupported(fullAttention+" and "+linearAttention+" are", "layer type %q", types[i])
		}
	}
	return nil
}

// layerTypes reads layer_types; without it the last layer of so many attends.
func layerTypes(j *arch.JSON, c *arch.Config) (types []string, err error) {
	if j.Decode("layer_types", &types); types != nil {
		if len(types) != c.NumLayers {
			return nil, fmt.Errorf("layer_types has %s for %s", plural.Count(len(types), "entry"),
				plural.Count(c.NumLayers, "layer"))
		}
		return types, nil
	}
	for _, linear := range arch.AllButEvery(j.Int("full_attention_interval", 4), c.NumLayers) {
		kind := fullAttention
		if linear {
			kind = linearAttention
		}
		types = append(types, kind)
	}
	return types, nil
}
