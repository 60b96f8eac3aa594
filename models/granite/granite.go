// Package granite has the decoder of Granite 3: a Llama that multiplies embeddings, scores, what its layers add, and
// divides logits.
package granite

import "github.com/quire/quire/models/arch"

// Decoder is GraniteForCausalLM.
var Decoder = arch.Decoder{
	Class: "GraniteForCausalLM", ModelType: "granite",
	GGUF: arch.GGUF{Architecture: "granite", Interleaved: true,
		Keys: []string{"attention.scale", "embedding_scale", "residual_scale", "logit_scale"}},
	Defaults: arch.Defaults{MaxPositions: 2048, Theta: 1e4, BOS: 1, EOS: []int32{2}},
	JSON: func(j *arch.JSON, c *arch.Config) error {
		setLayers(c, j.Float("embedding_multiplier", 1), j.Float("attention_multiplier", 1),
			j.Float("residual_multiplier", 1), j.Float("logits_scaling", 1))
		bias, mlpBias := j.Bool("attention_bias", false), j.Bool("mlp_bias", false)
		for i := range c.Layers {
			l := &c.Layers[i]
			l.QKVBias, l.OBias, l.MLPBias = bias, bias, mlpBias
		}
		return j.Require("hidden_act", "silu")
	},
	Metadata: func(m *arch.Metadata, c *arch.Config) error {
		if !m.Bool("rope.scaling.finetuned", true) {
			return arch.Unsupported("", "a %s without rotary embedding (rope.scaling.finetuned false)", c.Architecture)
		}
		setLayers(c, m.Float("embedding_scale", 1), m.Float("attention.scale", c.Layers[0].Scale),
			m.Float("residual_scale", 1), m.Float("logit_scale", 1))
		for i := range c.Layers {
			l := &c.Layers[i]
			l.QKVBias, l.OBias, l.MLPBias = m.HasTensor("blk.0.attn_q.bias"), m.HasTensor("blk.0.attn_output.bias"),
				m.HasTensor("blk.0.ffn_gate.bias")
		}
		return nil
	},
}

func setLayers(c *arch.Config, embedding, attention, residual, logits float64) {
	c.EmbeddingScale, c.ResidualScale, c.LogitDivisor = embedding, residual, logits
	for i := range c.Layers {
		c.Layers[i].Scale = attention
	}
}
