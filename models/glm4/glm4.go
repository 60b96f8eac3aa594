// Package glm4 provides the decoders of GLM-4. GLM-4-0414 has norms before and after attention and feed-forward, a
// rotation of adjacent pairs in half of each head, and gate and up in one matrix. The mixtures start with GLM-4.5.
package glm4

import "github.com/quire/quire/models/arch"

// Decoder is Glm4ForCausalLM.
var Decoder = arch.Decoder{
	Class: "Glm4ForCausalLM", ModelType: "glm4",
	GGUF:   arch.GGUF{Architecture: "glm4", Interleaved: true},
	Stored: arch.Stored{Interleaved: true},
	Defaults: arch.Defaults{KVHeads: 2, MaxPositions: 131072, HeadDim: 128, Eps: 1.5625e-7, Theta: 1e4, Partial: 0.5,
		BOS: -1, EOS: []int32{151329, 151336, 151338}},
	Names: arch.LlamaNames.With(arch.Names{
		arch.AttentionPostNorm: {HF: "post_self_attn_layernorm", GGUF: "post_attention_norm"},
		arch.MLPPostNorm:       {HF: "post_mlp_layernorm", GGUF: "post_ffw_norm"},
		arch.GateUp:            {HF: "mlp.gate_up_proj", GGUF: "ffn_up"}}),
	JSON: func(j *arch.JSON, c *arch.Config) error {
		setLayers(c, j.Bool("attention_bias", true))
		return j.Require("hidden_act", "silu")
	},
	Metadata: func(m *arch.Metadata, c *arch.Config) error {
		setLayers(c, m.HasTensor("blk.0.attn_q.bias"))
		return nil
	},
}

func setLayers(c *arch.Config, bias bool) {
	for i := range c.Layers {
		l := &c.Layers[i]
		l.AttentionNorm, l.MLPNorm = arch.Norms{Before: true, After: true}, arch.Norms{Before: true, After: true}
		l.QKVBias = bias
	}
}
