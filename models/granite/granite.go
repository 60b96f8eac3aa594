// Package granite provides the decoders of Granite 3 and 4: Llamas that scale embeddings, attention scores and
// residual branches, and divide logits, with one feed-forward per layer or a mixture. Granite 4 has Mamba-2 in most
// layers.
package granite

import (
	"slices"

	"github.com/quire/quire/models/arch"
)

// Decoders lists the family's decoders. GGUF files of both mixtures have one architecture.
var Decoders = []arch.Decoder{
	decoder(arch.Decoder{Class: "GraniteForCausalLM", ModelType: "granite",
		GGUF: arch.GGUF{Architecture: "granite"}, JSON: readJSON}),
	decoder(arch.Decoder{Class: "GraniteMoeForCausalLM", ModelType: "granitemoe", Names: mixtureNames,
		JSON: mixture(func(*arch.JSON) int { return 0 })}),
	decoder(arch.Decoder{Class: "GraniteMoeSharedForCausalLM", ModelType: "granitemoeshared", Names: mixtureNames,
		GGUF: arch.GGUF{Architecture: "granitemoe", Experts: true},
		JSON: mixture(func(j *arch.JSON) int { return j.Int("shared_intermediate_size", 0) })}),
	hybrid,
}

var mixtureNames = arch.LlamaNames.With(arch.Names{
	arch.Router:        {HF: "block_sparse_moe.router.layer", GGUF: "ffn_gate_inp"},
	arch.ExpertsGateUp: {HF: "block_sparse_moe.input_linear.weight"},
	arch.ExpertsDown:   {HF: "block_sparse_moe.output_linear.weight"},
	arch.SharedGateUp:  {HF: "shared_mlp.input_linear"},
	arch.SharedDown:    {HF: "shared_mlp.output_linear", GGUF: "ffn_down_shexp"},
})

func decoder(d arch.Decoder) arch.Decoder {
	d.Defaults = arch.Defaults{MaxPositions: 2048, Theta: 1e4, BOS: 1, EOS: []int32{2}}
	d.GGUF.Interleaved = true
	d.GGUF.Keys = slices.Concat(scales, spaces)
	d.Metadata = readMetadata
	return d
}

func readJSON(j *arch.JSON, c *arch.Config) error {
	setLayers(c, j.Float("embedding_multiplier", 1), j.Float("attention_multiplier", 1),
		j.Float("residual_multiplier", 1), j.Float("logits_scaling", 1))
	bias, mlpBias := j.Bool("attention_bias", false), j.Bool("mlp_bias", false)
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKVBias, l.OBias, l.MLPBias = bias, bias, mlpBias
	}
	return j.Require("hidden_act", "silu")
}

// mixture reads the config of a mixture; shared returns the width of the shared expert.
func mixture(shared func(j *arch.JSON) int) func(j *arch.JSON, c *arch.Config) error {
	return func(j *arch.JSON, c *arch.Config) error {
		experts := arch.Experts{Count: j.Int("num_local_experts", 8), Chosen: j.Int("num_experts_per_tok", 2),
			Size: c.IntermediateSize, Renormalize: true, Shared: shared(j), Fused: arch.FusedHalves}
		err := readJSON(j, c)
		for i := range c.Layers {
			c.Layers[i].Experts, c.Layers[i].MLPBias = experts, false
		}
		return err
	}
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
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
	if c.Architecture == "GraniteForCausalLM" {
		return nil
	}
	return m.Experts(c, true)
}

func setLayers(c *arch.Config, embedding, attention, residual, logits float64) {
	c.EmbeddingScale, c.ResidualScale, c.LogitDivisor = embedding, residual, logits
	for i := range c.Layers {
		c.Layers[i].Scale = attention
	}
}
