// Package phi3 provides the decoder of Phi-3, 3.5 and 4 and of Phi-4-mini: a Llama whose checkpoints hold q, k and v
// in one matrix and gate and up in another, with rope scaling longrope. Phi-4-mini rotates only a part of each head.
package phi3

import (
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoder is Phi3ForCausalLM.
var Decoder = arch.Decoder{
	Class: "Phi3ForCausalLM", ModelType: "phi3",
	GGUF: arch.GGUF{Architecture: "phi3", Keys: []string{"attention.sliding_window"}},
	Defaults: arch.Defaults{MaxPositions: 4096, Eps: 1e-5, Theta: 1e4, Partial: 1, BOS: 1, EOS: []int32{32000},
		Sizes: map[string]int{"original_max_position_embeddings": 4096}},
	Names: arch.LlamaNames.With(arch.Names{arch.QKV: {HF: "self_attn.qkv_proj", GGUF: "attn_qkv"},
		arch.GateUp: {HF: "mlp.gate_up_proj", GGUF: "ffn_up"}}),
	JSON: readJSON, Metadata: readMetadata,
}

func readJSON(j *arch.JSON, c *arch.Config) error {
	window, err := j.Window(0)
	if err != nil {
		return err
	}
	if types, err := j.SlidingLayers(c); types != nil || err != nil {
		return arch.Unsupported("", "layer_types in a %s", c.Architecture)
	}
	if s := c.Ropes[arch.FullRope].Scaling; s != nil && s.Type != "longrope" {
		return arch.Unsupported("longrope is", "rope type %q in a %s", s.Type, c.Architecture)
	}
	setWindows(c, window)
	return j.Require("hidden_act", "silu")
}

// readMetadata ignores a window of 0. It applies other windows, as transformers does and llama.cpp does not.
func readMetadata(m *arch.Metadata, c *arch.Config) error {
	setWindows(c, m.Int("attention.sliding_window", 0))
	long, err := m.Floats32(arch.RopeFactorsLong)
	if err != nil || long == nil {
		return err
	}
	short, err := m.Floats32(arch.RopeFactorsShort)
	if err != nil {
		return err
	}
	original := m.Int("rope.scaling.original_context_length", c.MaxPositions)
	c.Ropes[arch.FullRope].Scaling = &arch.RopeScaling{Type: "longrope", OriginalMaxPositions: original,
		Factor:          math.Max(float64(c.MaxPositions)/float64(max(original, 1)), 1),
		AttentionFactor: m.Float("rope.scaling.attn_factor", 1), Divisors: &arch.Divisors{Short: short, Long: long}}
	return nil
}

func setWindows(c *arch.Config, window int) {
	for i := range c.Layers {
		c.Layers[i].Window = window
	}
}
