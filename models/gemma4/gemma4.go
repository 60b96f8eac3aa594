// Package gemma4 has the decoders of Gemma 4: norms of queries, keys and values, larger heads in layers without a
// window, and, by model, layers that attend to the keys and values of earlier ones, embeddings for each layer,
// values that are keys, or a mixture of experts beside each feed-forward.
package gemma4

import (
	"fmt"

	"github.com/quire/quire/models/arch"
)

// Decoders are Gemma4ForCausalLM, and the text of models that read pictures and sounds too.
var Decoders = []arch.Decoder{
	decoder(arch.Decoder{Class: "Gemma4ForCausalLM", ModelType: "gemma4_text", GGUF: ofGGUF}),
	decoder(arch.Decoder{Class: "Gemma4ForConditionalGeneration", ModelType: "gemma4", Text: "text_config",
		Stored: arch.Stored{
			Renamed: map[string]string{"model.language_model.": "model."},
			Unused: []string{"model.vision_tower.", "model.audio_tower.", "model.embed_vision.",
				"model.embed_audio."}}}),
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

// Where a config does not say otherwise.
const (
	theta, localTheta = 1e6, 1e4
	share             = 0.25 // of heads without a window, is turned
	window            = 512
	pattern           = 6 // the last layer of so many attends to all
	globalHeadDim     = 512
	layerEmbedding    = 256
)

func readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_activation", "gelu_pytorch_tanh"); err != nil {
		return err
	}
	if j.Bool("attention_bias", false) {
		return arch.Unsupported("", "attention_bias in a %s", c.Architecture)
	}
	if j.String("use_bidirectional_attention", "") == "all" { // "vision" is of pictures
		return arch.Unsupported("", `use_bidirectional_attention "all" in a %s`, c.Architecture)
	}
	window, sliding, err := j.SlidingWindow(c, window, pattern)
	if err != nil {
		return err
	}
	sliding[c.NumLayers-1] = false // whatever the config says, as in transformers
	c.LogitCap = j.FloatOrNull("final_logit_softcapping", 0)
	c.LayerEmbedding = int(j.FloatOrNull("hidden_size_per_layer_input", layerEmbedding))
	if c.LayerEmbedding > 0 {
		if words := j.Int("vocab_size_per_layer_input", 262144); words != c.VocabSize {
			return arch.Unsupported("", "vocab_size_per_layer_input %d beside a vocab_size of %d", words, c.VocabSize)
		}
	}
	setLayers(c, window, sliding)
	for i := range c.Layers {
		c.Layers[i].KeysAreValues = !sliding[i] && j.Bool("attention_k_eq_v", false)
	}
	if !j.Has("rope_parameters") {
		c.Ropes[arch.FullRope] = arch.Rope{Theta: theta, Share: share}
	}
	if err := heads(j, c); err != nil {
		return err
	}
	if err := turnHeads(c); err != nil {
		return err
	}
	shared := j.Int("num_kv_shared_layers", 0)
	if err := shareKeys(c, shared); err != nil {
		return err
	}
	for i := c.NumLayers - shared; i < c.NumLayers; i++ {
		if j.Bool("use_double_wide_mlp", false) {
			c.Layers[i].Intermediate = 2 * c.IntermediateSize
		}
		for _, part := range []string{"k_proj", "v_proj", "k_norm", "v_norm"} {
			for _, before := range []string{"model.", "model.language_model."} {
				c.Stored.Unused = append(c.Stored.Unused, fmt.Sprintf("%slayers.%d.self_attn.%s.", before, i, part))
			}
		}
	}
	if j.Bool("enable_moe_block", false) {
		return experts(j, c)
	}
	return nil
}

// mixture is what all mixtures of Gemma 4 have.
var mixture = arch.Experts{Renormalize: true, Apart: true}

// experts reads the mixture, which all layers have beside their feed-forward.
func experts(j *arch.JSON, c *arch.Config) error {
	e := mixture
	e.Count, e.Chosen, e.Size = j.Int("num_experts", 0), j.Int("top_k_experts", 0), j.Int("moe_intermediate_size", 0)
	if e.Fused = arch.FusedHalves; e.Count < 1 {
		return fmt.Errorf("num_experts is %d, and enable_moe_block is true", e.Count)
	}
	for i := range c.Layers {
		e.Shared = c.OfLayer(i).IntermediateSize
		c.Layers[i].Experts = e
	}
	return nil
}
