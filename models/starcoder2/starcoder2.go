// Package starcoder2 provides the decoder of StarCoder2: LayerNorms, a feed-forward without a gate, and biases
// everywhere.
package starcoder2

import (
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoder is Starcoder2ForCausalLM.
var Decoder = arch.Decoder{
	Class: "Starcoder2ForCausalLM", ModelType: "starcoder2",
	GGUF: arch.GGUF{Architecture: "starcoder2", Keys: []string{"attention.layer_norm_epsilon"}},
	Defaults: arch.Defaults{KVHeads: 2, MaxPositions: 4096, Theta: 1e4, Tie: true, BOS: 50256,
		EOS: []int32{50256}},
	Names: arch.LlamaNames.With(arch.Names{arch.Up: {HF: "mlp.c_fc", GGUF: "ffn_up"},
		arch.Down: {HF: "mlp.c_proj", GGUF: "ffn_down"}}),
	Norm: arch.Norm{Layer: true, Wide: true},
	JSON: func(j *arch.JSON, c *arch.Config) error {
		window, err := j.Window(0)
		if err != nil {
			return err
		}
		if types, err := j.SlidingLayers(c); types != nil || err != nil {
			return arch.Unsupported("", "layer_types in a %s", c.Architecture)
		}
		c.RMSNormEps = j.Float("norm_epsilon", 1e-5)
		setLayers(c, j.Bool("use_bias", true), window)
		return j.Require("hidden_act", "gelu_pytorch_tanh")
	},
	Metadata: func(m *arch.Metadata, c *arch.Config) error {
		// The format has no key for the window of 4096 of the published models; llama.cpp does not apply one either.
		c.RMSNormEps = m.Float("attention.layer_norm_epsilon", math.NaN())
		setLayers(c, m.HasTensor("blk.0.attn_q.bias"), 0)
		return nil
	},
}

func setLayers(c *arch.Config, bias bool, window int) {
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Gated, l.Activation, l.Window = false, arch.GELUTanh, window
		l.QKVBias, l.OBias, l.MLPBias = bias, bias, bias
	}
}
