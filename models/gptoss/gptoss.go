// Package gptoss provides the decoder of gpt-oss: a mixture whose experts have biases and clamped gates, attention
// sinks, and a window in every second layer.
package gptoss

import (
	"fmt"

	"github.com/quire/quire/models/arch"
)

// Decoder is GptOssForCausalLM.
var Decoder = arch.Decoder{
	Class: "GptOssForCausalLM", ModelType: "gpt_oss", Names: names, Norm: arch.Norm{Wide: true},
	Quantized: []string{"mxfp4"},
	GGUF: arch.GGUF{Architecture: "gpt-oss", Experts: true,
		Keys: []string{"attention.sliding_window", "attention.sliding_window_pattern"}},
	Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, HeadDim: 64, Eps: 1e-5, Theta: 150000, BOS: -1,
		Sizes: map[string]int{"vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
			"num_hidden_layers": 36, "num_attention_heads": 64}},
	JSON: readJSON, Metadata: readMetadata,
}

var names = arch.LlamaNames.With(arch.Names{
	arch.MLPNorm:       {HF: "post_attention_layernorm", GGUF: "post_attention_norm"},
	arch.Sinks:         {HF: "self_attn.sinks", GGUF: "attn_sinks"},
	arch.Router:        {HF: "mlp.router", GGUF: "ffn_gate_inp"},
	arch.ExpertsGateUp: {HF: "mlp.experts.gate_up_proj"},
	arch.ExpertsDown:   {HF: "mlp.experts.down_proj"},
})

// The defaults of a config.
const (
	window  = 128
	pattern = 2 // the last layer of each so many attends to all

	usualLimit = 7 // limit of gates and ups
)

func readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	const alpha = 1.702
	if value := j.Float("swiglu_alpha", alpha); value != alpha {
		return arch.Unsupported(fmt.Sprintf("%g is", alpha), "swiglu_alpha %g", value)
	}
	limit := j.Float("swiglu_limit", usualLimit)
	if limit <= 0 {
		return fmt.Errorf("swiglu_limit is %g; it must be above 0", limit)
	}
	window, sliding, err := j.SlidingWindow(c, window, pattern)
	if err != nil {
		return err
	}
	if !j.Has("rope_scaling") && !j.Has("rope_parameters") {
		c.Ropes[arch.FullRope].Scaling = arch.Yarn(32, 4096, false)
	}
	setLayers(c, window, sliding, j.Bool("attention_bias", true), limit)
	mixture := arch.Experts{Count: j.Int("num_local_experts", j.Int("num_experts", 128)),
		Chosen: j.Int("num_experts_per_tok", 4), Size: c.IntermediateSize, Renormalize: true, Bias: true,
		Fused: arch.FusedTurns}
	for i := range c.Layers {
		c.Layers[i].Experts = mixture
	}
	return nil
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	sliding, err := m.SlidingLayers(c, pattern)
	if err != nil {
		return err
	}
	if s := c.Ropes[arch.FullRope].Scaling; s != nil {
		s.Truncate = false // as in the published models; the format has no key for it
	}
	m.EndsAt(c, "<|call|>") // as in generation_config.json; the format has only one key, which is <|return|> here
	setLayers(c, m.Int("attention.sliding_window", window), sliding, m.HasTensor("blk.0.attn_q.bias"), usualLimit)
	if err := m.Experts(c, true); err != nil {
		return err
	}
	for i := range c.Layers {
		c.Layers[i].Experts.Bias = true
	}
	return nil
}

func setLayers(c *arch.Config, window int, sliding []bool, bias bool, limit float64) {
	l := c.LlamaLayer()
	l.QKVBias, l.OBias, l.Sinks, l.Activation = bias, bias, true, arch.Clamped(limit)
	c.SetLayers(l)
	c.SlideLayers(window, sliding)
}
