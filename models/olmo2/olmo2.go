// Package olmo2 provides the decoders of OLMo-2 and OLMo-3: norms only after attention and feed-forward, and norms of
// queries and keys over all heads together. OLMo-3 has a window in three of four layers.
package olmo2

import "github.com/quire/quire/models/arch"

// Decoders are Olmo2ForCausalLM and Olmo3ForCausalLM. GGUF files of both have the same architecture.
var Decoders = []arch.Decoder{
	{
		Class: "Olmo2ForCausalLM", ModelType: "olmo2",
		GGUF: arch.GGUF{Architecture: "olmo2", Keys: []string{"attention.sliding_window",
			"attention.sliding_window_pattern", "rope.freq_base_swa"}},
		Defaults: arch.Defaults{MaxPositions: 2048, Eps: 1e-5, Theta: 1e4, BOS: -1, EOS: []int32{50279}},
		Names:    arch.SandwichNames,
		Norm:     arch.Norm{Wide: true},
		JSON: func(j *arch.JSON, c *arch.Config) error {
			setLayers(c, j.Bool("attention_bias", false), 0, nil)
			return j.Require("hidden_act", "silu")
		},
		Metadata: readMetadata,
	},
	{
		Class: "Olmo3ForCausalLM", ModelType: "olmo3",
		Defaults: arch.Defaults{MaxPositions: 2048, Eps: 1e-5, Theta: 5e5, LocalTheta: 5e5, BOS: -1,
			EOS: []int32{50279}},
		Names: arch.SandwichNames,
		Norm:  arch.Norm{Wide: true},
		JSON:  readOLMo3,
	},
}

const pattern = 4 // the last layer of each so many attends to all

func readOLMo3(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	window, sliding, err := j.SlidingWindow(c, 4096, pattern)
	if err != nil {
		return err
	}
	setLayers(c, j.Bool("attention_bias", false), window, sliding)
	return nil
}

// readMetadata treats a file with a window as an OLMo-3, as llama.cpp does. Rope scaling applies to the layers
// without a window.
func readMetadata(m *arch.Metadata, c *arch.Config) error {
	window := m.Int("attention.sliding_window", 0)
	if window == 0 {
		setLayers(c, false, 0, nil)
		return nil
	}
	sliding, err := m.SlidingLayers(c, pattern)
	if err != nil {
		return err
	}
	c.Architecture, c.ModelType = "Olmo3ForCausalLM", "olmo3"
	c.Ropes = append(c.Ropes, arch.Rope{Theta: m.Float("rope.freq_base_swa", c.Ropes[arch.FullRope].Theta)})
	setLayers(c, false, window, sliding)
	return nil
}

func setLayers(c *arch.Config, bias bool, window int, sliding []bool) {
	l := c.LlamaLayer()
	l.AttentionNorm, l.MLPNorm = arch.Norms{After: true}, arch.Norms{After: true}
	l.QKNorm, l.QKVBias, l.OBias = arch.AllHeads, bias, bias
	c.SetLayers(l)
	c.SlideLayers(window, sliding)
}
