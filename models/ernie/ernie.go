// Package ernie has the decoder of ERNIE 4.5's dense models: a Llama whose rotary embedding turns neighbours.
package ernie

import "github.com/quire/quire/models/arch"

// Decoder is Ernie4_5ForCausalLM.
var Decoder = arch.Decoder{
	Class: "Ernie4_5ForCausalLM", ModelType: "ernie4_5",
	GGUF:   arch.GGUF{Architecture: "ernie4_5", Interleaved: true},
	Stored: arch.Stored{Interleaved: true},
	Defaults: arch.Defaults{KVHeads: 2, MaxPositions: 131072, HeadDim: 128, Eps: 1e-5, Theta: 5e5, Tie: true, BOS: 1,
		EOS: []int32{2}},
	JSON: func(j *arch.JSON, c *arch.Config) error {
		bias := j.Bool("use_bias", false)
		for i := range c.Layers {
			l := &c.Layers[i]
			l.QKVBias, l.OBias, l.MLPBias = bias, bias, bias
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
