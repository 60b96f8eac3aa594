// Package gemma3 provides the decoders of Gemma 3, and EmbeddingGemma: like Gemma-2, with norms of queries and keys in
// place of soft caps, and a window in five of six layers, which have their own rotary embedding.
package gemma3

import (
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoders are Gemma3ForCausalLM, the text part of models that also read pictures, and EmbeddingGemma.
var Decoders = []arch.Decoder{
	decoder(arch.Decoder{Class: "Gemma3ForCausalLM", ModelType: "gemma3_text", GGUF: arch.GGUF{
		Architecture: "gemma3", OffsetNorms: true,
		Keys: []string{"attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa",
			"final_logit_softcapping"}}}),
	decoder(arch.Decoder{Class: "Gemma3ForConditionalGeneration", ModelType: "gemma3", Text: "text_config",
		Stored: arch.Stored{
			Renamed: map[string]string{"language_model.model.": "model.", "model.language_model.": "model.",
				"language_model.lm_head.": "lm_head."},
			Unused: []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
				"model.multi_modal_projector."}}}),
	embedding,
}

// embedding is the class without a head, which EmbeddingGemma has, and whose GGUF files attend both ways.
var embedding = func() arch.Decoder {
	d := decoder(arch.Decoder{Class: "Gemma3TextModel", ModelType: "gemma3_text",
		GGUF: arch.GGUF{Architecture: "gemma-embedding", OffsetNorms: true, Keys: []string{"attention.sliding_window",
			"attention.sliding_window_pattern", "rope.freq_base_swa", "dense_2_feat_in",
			"dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"}}})
	d.JSON = func(j *arch.JSON, c *arch.Config) error {
		c.Encoder.Only, c.TieEmbeddings = true, true
		return readJSON(j, c)
	}
	d.Metadata = func(m *arch.Metadata, c *arch.Config) error {
		c.Encoder.Only = true
		for i := 0; ; i++ {
			t := m.File.Tensor(arch.GGUFDense(i) + ".weight")
			if t == nil || len(t.Dims) != 2 {
				return readMetadata(m, c)
			}
			c.Dense = append(c.Dense, arch.Dense{Out: t.Dims[0], In: t.Dims[1]})
		}
	}
	return d
}()

func decoder(d arch.Decoder) arch.Decoder {
	d.Defaults = arch.Defaults{KVHeads: 4, MaxPositions: 131072, HeadDim: 256, Theta: 1e6, LocalTheta: localTheta,
		Tie: true, BOS: 2, EOS: []int32{1}, Sizes: map[string]int{"vocab_size": 262208, "hidden_size": 2304,
			"intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8}}
	d.Names, d.Norm = arch.SandwichNames, arch.Norm{Wide: true, Offset: 1}
	d.JSON, d.Metadata = readJSON, readMetadata
	return d
}

// The defaults of both kinds of config.
const (
	localTheta = 1e4
	window     = 4096
	pattern    = 6 // the last layer of each so many attends to all
)

func readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_activation", "gelu_pytorch_tanh"); err != nil {
		return err
	}
	if err := j.Refuse(c, "attention_bias"); err != nil {
		return err
	}
	if j.Has("attn_logit_softcapping") { // transformers reads the key but does not use it
		return arch.Unsupported("", "attn_logit_softcapping in a %s", c.Architecture)
	}
	window, sliding, err := j.SlidingWindow(c, window, j.Int("sliding_window_pattern", pattern))
	if err != nil {
		return err
	}
	c.LogitCap = j.FloatOrNull("final_logit_softcapping", 0)
	both := j.Bool("use_bidirectional_attention", false)
	if both { // the key has the tokens of both sides, and transformers counts so
		window = window/2 + 1
	}
	setLayers(c, window, sliding, j.Float("query_pre_attn_scalar", 256))
	if both {
		c.Both()
	}
	return nil
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	// As in llama.cpp, because no key states what queries are scaled by.
	perHead := c.HeadDim
	if c.NumLayers == 62 { // Gemma 3 27B
		perHead = c.HiddenSize / c.NumHeads
	}
	c.Ropes = append(c.Ropes, arch.Rope{Theta: m.Float("rope.freq_base_swa", localTheta)})
	c.LogitCap = m.Float("final_logit_softcapping", 0)
	sliding, err := m.SlidingLayers(c, pattern)
	if err != nil {
		return err
	}
	window := m.Int("attention.sliding_window", 0)
	if c.Encoder.Only && window > 0 {
		window = window/2 + 1 // as in readJSON
	}
	setLayers(c, window, sliding, float64(perHead))
	if c.Encoder.Only {
		c.Both()
	}
	return nil
}

// setLayers sets the layers. Without a window, all of them attend to all.
func setLayers(c *arch.Config, window int, sliding []bool, preAttentionScalar float64) {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Sandwich()
		l.Scale, l.QKNorm = 1/math.Sqrt(preAttentionScalar), arch.EachHead
	}
	c.SlideLayers(window, sliding)
}
