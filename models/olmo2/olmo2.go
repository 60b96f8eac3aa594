// Package olmo2 has the decoder of OLMo-2: norms behind attention and feed-forward and none before, and norms of
// queries and keys over all heads together.
package olmo2

import "github.com/quire/quire/models/arch"

// Decoder is Olmo2ForCausalLM. GGUF files of OLMo-3 have the same architecture and a window, which is refused.
var Decoder = arch.Decoder{
	Class: "Olmo2ForCausalLM", ModelType: "olmo2", GGUF: arch.GGUF{Architecture: "olmo2"},
	Defaults: arch.Defaults{MaxPositions: 2048, Eps: 1e-5, Theta: 1e4, BOS: -1, EOS: []int32{50279}},
	Names:    arch.SandwichNames,
	Norm:     arch.Norm{Wide: true},
	JSON: func(j *arch.JSON, c *arch.Config) error {
		setLayers(c, j.Bool("attention_bias", false))
		return j.Require("hidden_act", "silu")
	},
	Metadata: func(_ *arch.Metadata, c *arch.Config) error {
		setLayers(c, false)
		return nil
	},
}

func setLayers(c *arch.Config, bias bool) {
	for i := range c.Layers {
		l := &c.Layers[i]
		l.AttentionNorm, l.MLPNorm = arch.Norms{After: true}, arch.Norms{After: true}
		l.QKNorm, l.QKVBias, l.OBias = arch.AllHeads, bias, bias
	}
}
