package gemma4

import (
	"fmt"

	"github.com/quire/quire/models/arch"
)

var ofGGUF = arch.GGUF{
	Architecture: "gemma4", Experts: true, // files without an expert_count are too
	Keys: []string{"attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers",
		"attention.key_length_swa", "attention.value_length_swa", "rope.freq_base_swa", "rope.dimension_count_swa",
		"embedding_length_per_layer_input", "final_logit_softcapping"},
	ByLayer: []string{headCount, feedForward},
}

// Keys that may differ between layers.
const headCount, feedForward = "attention.head_count_kv", "feed_forward_length"

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	sliding, err := m.SlidingLayers(c, pattern)
	if err != nil {
		return err
	}
	full := c.HeadDim
	c.HeadDim = m.Int("attention.key_length_swa", full)
	for _, key := range []string{"attention.value_length_swa", "rope.dimension_count_swa"} {
		if n := m.Int(key, c.HeadDim); n != c.HeadDim {
			return arch.Unsupported("", "%s %d for keys of %d", key, n, c.HeadDim)
		}
	}
	kvHeads, err := m.IntsOfLayers(c, headCount, c.NumKVHeads)
	if err != nil {
		return err
	}
	widths, err := m.IntsOfLayers(c, feedForward, c.IntermediateSize)
	if err != nil {
		return err
	}
	c.Ropes = append(c.Ropes, arch.Rope{Theta: m.Float("rope.freq_base_swa", localTheta)})
	c.LogitCap, c.LayerEmbedding = m.Float("final_logit_softcapping", 0), m.Int("embedding_length_per_layer_input", 0)
	setLayers(c, m.Int("attention.sliding_window", window), sliding)
	shared := m.Int("attention.shared_kv_layers", 0)
	for i := range c.Layers {
		l := &c.Layers[i]
		l.KeysAreValues = i < c.NumLayers-shared && !m.HasTensor(fmt.Sprintf("blk.%d.attn_v.weight", i))
		if !sliding[i] {
			l.HeadDim = full
		}
		if kvHeads[i] != c.NumKVHeads {
			l.KVHeads = kvHeads[i]
		}
		if widths[i] != c.IntermediateSize {
			l.Intermediate = widths[i]
		}
	}
	if err := turnHeads(c); err != nil {
		return err
	}
	if m.Int("expert_count", 0) > 0 {
		if err := m.ExpertsApart(c, mixture); err != nil {
			return err
		}
	}
	m.EndsAt(c, "<turn|>")
	return shareKeys(c, shared)
}
