// Package gemma2 provides the decoder of Gemma-2: norms before and after attention and feed-forward, a window in
// every second layer, soft caps on scores and logits, GELU, and scaled embeddings.
package gemma2

import (
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoder is Gemma2ForCausalLM.
var Decoder = arch.Decoder{
	Class: "Gemma2ForCausalLM", ModelType: "gemma2",
	GGUF: arch.GGUF{Architecture: "gemma2", OffsetNorms: true,
		Keys: []string{"attn_logit_softcapping", "final_logit_softcapping", "attention.sliding_window"}},
	Defaults: arch.Defaults{KVHeads: 4, MaxPositions: 8192, HeadDim: 256, Theta: 1e4, Tie: true, BOS: 2,
		EOS: []int32{1}},
	Names: arch.SandwichNames,
	Norm:  arch.Norm{Wide: true, Offset: 1},
	JSON:  readJSON, Metadata: readMetadata,
}

// The defaults of both kinds of config.
const (
	scoreCap = 50
	logitCap = 30
	window   = 4096
	pattern  = 2 // the last layer of each so many attends to all
)

func readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_activation", "gelu_pytorch_tanh"); err != nil {
		return err
	}
	if err := j.Refuse(c, "attention_bias", "use_bidirectional_attention"); err != nil {
		return err
	}
	window, sliding, err := j.SlidingWindow(c, window, pattern)
	if err != nil {
		return err
	}
	c.LogitCap = j.FloatOrNull("final_logit_softcapping", logitCap)
	setLayers(c, window, sliding, j.Float("query_pre_attn_scalar", 256),
		j.FloatOrNull("attn_logit_softcapping", scoreCap))
	return nil
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	// As in llama.cpp, because no key states what queries are scaled by.
	perHead := c.HeadDim
	if c.NumLayers == 46 { // Gemma-2 27B
		perHead = c.HiddenSize / c.NumHeads
	}
	c.LogitCap = m.Float("final_logit_softcapping", logitCap)
	setLayers(c, m.Int("attention.sliding_window", window), arch.AllButEvery(pattern, c.NumLayers), float64(perHead),
		m.Float("attn_logit_softcapping", scoreCap))
	return nil
}

func setLayers(c *arch.Config, window int, sliding []bool, preAttentionScalar, scoreCap float64) {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Sandwich()
		l.Scale, l.ScoreCap = 1/math.Sqrt(preAttentionScalar), scoreCap
	}
	c.SlideLayers(window, sliding)
}
