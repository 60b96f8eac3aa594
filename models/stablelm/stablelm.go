// Package stablelm provides the decoder of StableLM 2: a Llama with LayerNorms and a rotation of a quarter of each
// head.
package stablelm

import (
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoder is StableLmForCausalLM.
var Decoder = arch.Decoder{
	Class: "StableLmForCausalLM", ModelType: "stablelm",
	GGUF: arch.GGUF{Architecture: "stablelm",
		Keys: []string{"attention.layer_norm_epsilon", "use_parallel_residual"}},
	Defaults: arch.Defaults{KVHeads: 32, MaxPositions: 4096, Theta: 1e4, Partial: 0.25, BOS: 0, EOS: []int32{0}},
	Norm:     arch.Norm{Layer: true, Wide: true},
	JSON: func(j *arch.JSON, c *arch.Config) error {
		for _, key := range []string{"use_parallel_residual", "qk_layernorm"} {
			if j.Bool(key, false) {
				return arch.Unsupported("", "%s in a %s", key, c.Architecture)
			}
		}
		c.RMSNormEps = j.Float("layer_norm_eps", 1e-5)
		setBiases(c, j.Bool("use_qkv_bias", false))
		return j.Require("hidden_act", "silu")
	},
	Metadata: func(m *arch.Metadata, c *arch.Config) error {
		if m.Bool("use_parallel_residual", true) && !m.HasTensor("blk.0.ffn_norm.weight") {
			return arch.Unsupported("", "use_parallel_residual in a %s", c.Architecture)
		}
		if m.HasTensor("blk.0.attn_q_norm.weight") {
			return arch.Unsupported("", "qk_layernorm in a %s", c.Architecture)
		}
		c.RMSNormEps = m.Float("attention.layer_norm_epsilon", math.NaN())
		setBiases(c, m.HasTensor("blk.0.attn_q.bias"))
		return nil
	},
}

func setBiases(c *arch.Config, qkv bool) {
	for i := range c.Layers {
		c.Layers[i].QKVBias = qkv
	}
}
