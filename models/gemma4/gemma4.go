// Package gemma4 provides the decoders of Gemma 4: norms of queries, keys and values, and larger heads in layers
// without a window. Depending on the model, layers attend to the keys and values of earlier layers, have their own
// embeddings, use values as keys, or have a mixture of experts alongside each feed-forward.
package gemma4

import (
	"errors"
	"fmt"
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoders are Gemma4ForCausalLM, and the text part of models that also read pictures and sounds.
var Decoders = []arch.Decoder{
	decoder(arch.Decoder{Class: "Gemma4ForCausalLM", ModelType: "gemma4_text", GGUF: ofGGUF}),
	decoder(arch.Decoder{Class: "Gemma4ForConditionalGeneration", ModelType: "gemma4", Text: "text_config",
		Stored: arch.Stored{Renamed: map[string]string{"model.language_model.": "model."}, Unused: []string{
			"model.vision_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio."}}}),
}

func decoder(d arch.Decoder) arch.Decoder {
	d.Defaults = arch.Defaults{KVHeads: 4, MaxPositions: 131072, HeadDim: 256, Theta: theta, LocalTheta: localTheta,
		Tie: true, BOS: 2, EOS: []int32{1}, Sizes: map[string]int{"vocab_size": 262144, "hidden_size": 2304,
			"intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8}}
	d.Names = arch.SandwichNames.With(arch.Names{
		arch.LayerGate:    {HF: "per_layer_input_gate", GGUF: "inp_gate"},
		arch.LayerOut:     {HF: "per_layer_projection", GGUF: "proj"},
		arch.LayerOutNorm: {HF: "post_per_layer_input_norm", GGUF: "post_norm"},
		arch.LayerScale:   {HF: "layer_scalar", GGUF: "layer_output_scale"},

		arch.Router:          {HF: "router.proj", GGUF: "ffn_gate_inp"},
		arch.RouterNorm:      {HF: "router.scale", GGUF: "ffn_gate_inp.scale"},
		arch.ExpertScale:     {HF: "router.per_expert_scale", GGUF: "ffn_down_exps.scale"},
		arch.ExpertsNorm:     {HF: "pre_feedforward_layernorm_2", GGUF: "pre_ffw_norm_2"},
		arch.SharedPostNorm:  {HF: "post_feedforward_layernorm_1", GGUF: "post_ffw_norm_1"},
		arch.ExpertsPostNorm: {HF: "post_feedforward_layernorm_2", GGUF: "post_ffw_norm_2"},
		arch.SharedGate:      {HF: "mlp.gate_proj", GGUF: "ffn_gate"},
		arch.SharedUp:        {HF: "mlp.up_proj", GGUF: "ffn_up"},
		arch.SharedDown:      {HF: "mlp.down_proj", GGUF: "ffn_down"},
		arch.ExpertGate:      {HF: "experts.%d.gate_proj", GGUF: "ffn_gate_exps"},
		arch.ExpertUp:        {HF: "experts.%d.up_proj", GGUF: "ffn_up_exps"},
		arch.ExpertDown:      {HF: "experts.%d.down_proj", GGUF: "ffn_down_exps"},
		arch.ExpertsGateUp:   {HF: "experts.gate_up_proj"},
		arch.ExpertsDown:     {HF: "experts.down_proj"},
	})
	d.Norm = arch.Norm{Wide: true}
	d.JSON, d.Metadata = readJSON, readMetadata
	return d
}

// The defaults of a config.
const (
	theta, localTheta             = 1e6, 1e4
	share                         = 0.25   // the share of a head that is rotated, in layers without a window
	window, pattern               = 512, 6 // the last layer of each so many attends to all
	globalHeadDim, layerEmbedding = 512, 256
)

// mixture has what all mixtures of Gemma 4 share. Each layer has one alongside its feed-forward.
var mixture = arch.Experts{Renormalize: true, Apart: true, Fused: arch.FusedHalves}

func readJSON(j *arch.JSON, c *arch.Config) error {
	err := errors.Join(j.Require("hidden_activation", "gelu_pytorch_tanh"), j.Refuse(c, "attention_bias"))
	if err != nil {
		return err
	}
	if j.String("use_bidirectional_attention", "") == "all" { // "vision" concerns only pictures
		return arch.Unsupported("", `use_bidirectional_attention "all" in a %s`, c.Architecture)
	}
	window, sliding, err := j.SlidingWindow(c, window, pattern)
	if err != nil {
		return err
	}
	sliding[c.NumLayers-1] = false // regardless of the config, as in transformers
	c.LogitCap = j.FloatOrNull("final_logit_softcapping", 0)
	c.LayerEmbedding = int(j.FloatOrNull("hidden_size_per_layer_input", layerEmbedding))
	if words := j.Int("vocab_size_per_layer_input", 262144); c.LayerEmbedding > 0 && words != c.VocabSize {
		return arch.Unsupported("", "vocab_size_per_layer_input %d with a vocab_size of %d", words, c.VocabSize)
	}
	if !j.Has("rope_parameters") {
		c.Ropes[arch.FullRope] = arch.Rope{Theta: theta, Share: share}
	}
	setLayers(c, window, sliding)
	own, dim, heads := j.OwnHeads(c), j.Int("global_head_dim", globalHeadDim), j.Int("num_global_key_value_heads", 0)
	shared, wide := j.Int("num_kv_shared_layers", 0), j.Bool("use_double_wide_mlp", false)
	var e arch.Experts
	if j.Bool("enable_moe_block", false) {
		e = mixture
		e.Count, e.Chosen = j.Int("num_experts", 0), j.Int("top_k_experts", 0)
		e.Size = j.Int("moe_intermediate_size", 0)
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		l.KeysAreValues = !sliding[i] && j.Bool("attention_k_eq_v", false)
		if !own && !sliding[i] {
			l.HeadDim = dim
		}
		if !own && l.KeysAreValues {
			l.KVHeads = heads
		}
		if wide && i >= c.NumLayers-shared {
			l.Intermediate = 2 * c.IntermediateSize
		}
		if l.Experts = e; e.Apart {
			l.Experts.Shared = c.OfLayer(i).IntermediateSize
		}
	}
	return c.ShareKeys(shared)
}

func setLayers(c *arch.Config, window int, sliding []bool) {
	c.EmbeddingScale = math.Sqrt(float64(c.HiddenSize))
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Sandwich()
		l.Scale, l.QKNorm, l.ValueNorm, l.Scaled = 1, arch.EachHead, true, true
	}
	c.SlideLayers(window, sliding)
}

var ofGGUF = arch.GGUF{
	Architecture: "gemma4", OwnSizes: true, Experts: true, // also for files without an expert_count
	Keys: []string{"attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers",
		"attention.key_length_swa", "attention.value_length_swa", "rope.freq_base_swa", "rope.dimension_count_swa",
		"embedding_length_per_layer_input", "final_logit_softcapping"},
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	sliding, err := m.SlidingLayers(c, pattern)
	if err != nil {
		return err
	}
	full, shared := m.SlidingHeads(c, localTheta), m.Int("attention.shared_kv_layers", 0)
	c.LogitCap, c.LayerEmbedding = m.Float("final_logit_softcapping", 0), m.Int("embedding_length_per_layer_input", 0)
	setLayers(c, m.Int("attention.sliding_window", window), sliding)
	for i := range c.Layers {
		l := &c.Layers[i]
		l.KeysAreValues = i < c.NumLayers-shared && !m.HasTensor(fmt.Sprintf("blk.%d.attn_v.weight", i))
		if !sliding[i] {
			l.HeadDim = full
		}
	}
	m.EndsAt(c, "<turn|>")
	if m.Int("expert_count", 0) > 0 {
		err = m.ExpertsApart(c, mixture)
	}
	return errors.Join(err, c.ShareKeys(shared))
}
