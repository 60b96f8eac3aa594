// Package nomicbert provides the encoder of Nomic BERT: BERT with rotary embeddings and gated feed-forwards, and
// without biases.
package nomicbert

import "github.com/quire/quire/models/arch"

// Encoder is the model. Its keys are those of its authors' code, or those of transformers.
var Encoder = arch.Decoder{Class: "NomicBertModel", ModelType: "nomic_bert", Names: names,
	Norm: arch.Norm{Layer: true, Wide: true}, JSON: readJSON, Metadata: readMetadata,
	GGUF: arch.GGUF{Architecture: "nomic-bert", Keys: []string{"attention.layer_norm_epsilon"}},
	Keys: map[string]string{"hidden_size": "n_embd", "intermediate_size": "n_inner", "num_hidden_layers": "n_layer",
		"num_attention_heads": "n_head", "max_position_embeddings": "n_positions", "rope_theta": "rotary_emb_base",
		"layer_norm_eps": "layer_norm_epsilon"},
	Defaults: arch.Defaults{MaxPositions: 2048, Eps: 1e-12, Theta: 1000, Tie: true, BOS: -1},
	Stored: arch.Stored{Renamed: map[string]string{
		"embeddings.word_embeddings.": "model.embed_tokens.", "embeddings.token_type_embeddings.": "model.embed_types.",
		"emb_ln.": "model.embed_norm.", "encoder.layers.": "model.layers."}, Unused: []string{"pooler.", "cls."}}}

var names = arch.Names{
	arch.QKV: {HF: "attn.Wqkv", GGUF: "attn_qkv"}, arch.O: {HF: "attn.out_proj", GGUF: "attn_output"},
	arch.AttentionPostNorm: {HF: "norm1", GGUF: "attn_output_norm"},
	arch.Gate:              {HF: "mlp.fc12", GGUF: "ffn_gate"}, arch.Up: {HF: "mlp.fc11", GGUF: "ffn_up"},
	arch.Down: {HF: "mlp.fc2", GGUF: "ffn_down"}, arch.MLPPostNorm: {HF: "norm2", GGUF: "layer_output_norm"},
	// Within the first one.
	arch.Q: {HF: "attn.q", GGUF: "attn_q"}, arch.K: {HF: "attn.k", GGUF: "attn_k"},
	arch.V: {HF: "attn.v", GGUF: "attn_v"},
}

func readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	if err := j.Require("activation_function", "swiglu"); err != nil {
		return err
	}
	if err := j.Refuse(c, "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "parallel_block",
		"use_rms_norm", "rotary_emb_interleaved", "add_cross_attention"); err != nil {
		return err
	}
	if j.Int("moe_every_n_layers", 0) > 0 || j.Int("num_experts", 0) > 0 {
		return arch.Unsupported("", "experts in a %s", c.Architecture)
	}
	if j.Float("rotary_emb_fraction", 1) != 1 || j.Has("rotary_scaling_factor") {
		return arch.Unsupported("", "rotary_emb_fraction or rotary_scaling_factor in a %s", c.Architecture)
	}
	// Beyond these positions the authors' code turns by other angles, which transformers does not.
	c.MaxPositions = min(c.MaxPositions, j.Int("max_trained_positions", c.MaxPositions))
	c.RMSNormEps = j.Float("layer_norm_eps", c.RMSNormEps)
	setLayers(c, j.Int("type_vocab_size", 2))
	return nil
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	c.RMSNormEps = m.Float("attention.layer_norm_epsilon", c.RMSNormEps)
	types := 0
	if t := m.File.Tensor("token_types.weight"); t != nil && len(t.Dims) == 2 {
		types = t.Dims[0]
	}
	setLayers(c, types)
	return nil
}

func setLayers(c *arch.Config, types int) {
	c.Encoder = arch.Encoder{Only: true, EmbeddingNorm: true, NoFinalNorm: true, Types: types}
	c.TieEmbeddings = true
	for i := range c.Layers {
		l := &c.Layers[i]
		l.AttentionNorm, l.MLPNorm = arch.Norms{Sum: true}, arch.Norms{Sum: true}
	}
	c.Both()
}
