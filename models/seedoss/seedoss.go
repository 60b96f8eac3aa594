// Package seedoss has the decoder of Seed-OSS: a Llama with biases of queries, keys and values.
package seedoss

import "github.com/quire/quire/models/arch"

// Decoder is SeedOssForCausalLM.
var Decoder = arch.Decoder{
	Class: "SeedOssForCausalLM", ModelType: "seed_oss",
	GGUF: arch.GGUF{Architecture: "seed_oss"},
	Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 524288, HeadDim: 128, Theta: 1e4, BOS: 0,
		EOS: []int32{2}},
	Names: arch.LlamaNames.With(arch.Names{
		arch.MLPNorm: {HF: "post_attention_layernorm", GGUF: "post_attention_norm"}}),
	JSON: func(j *arch.JSON, c *arch.Config) error {
		for i := range c.Layers {
			l := &c.Layers[i]
			l.QKVBias, l.OBias = j.Bool("attention_bias", true), j.Bool("attention_out_bias", false)
			l.MLPBias = j.Bool("mlp_bias", false)
		}
		return j.Require("hidden_act", "silu")
	},
	Metadata: func(m *arch.Metadata, c *arch.Config) error {
		for i := range c.Layers {
			l := &c.Layers[i]
			l.QKVBias, l.OBias = m.HasTensor("blk.0.attn_q.bias"), m.HasTensor("blk.0.attn_output.bias")
			l.MLPBias = m.HasTensor("blk.0.ffn_gate.bias")
		}
		return nil
	},
}
