package bert

import "github.com/quire/quire/models/arch"

// gte is the encoder of the later models of gte, whose code came with their checkpoints: BERT with rotary embeddings
// and gated feed-forwards.
var gte = arch.Decoder{Class: "NewModel", ModelType: "new", Names: gteNames, Norm: arch.Norm{Layer: true, Wide: true},
	JSON:     readGTE,
	Defaults: arch.Defaults{MaxPositions: 8192, Eps: 1e-12, Theta: 10000, Tie: true, BOS: -1, NTK: true},
	Stored: arch.Stored{Renamed: map[string]string{
		"embeddings.word_embeddings.": "model.embed_tokens.", "embeddings.token_type_embeddings.": "model.embed_types.",
		"embeddings.LayerNorm.": "model.embed_norm.", "encoder.layer.": "model.layers."},
		Unused: []string{"pooler.", "embeddings.position_ids"}}}

var gteNames = arch.Names{
	arch.QKV: {HF: "attention.qkv_proj"}, arch.O: {HF: "attention.o_proj"}, arch.AttentionPostNorm: {HF: "attn_ln"},
	arch.UpGate: {HF: "mlp.up_gate_proj"}, arch.Down: {HF: "mlp.down_proj"}, arch.MLPPostNorm: {HF: "mlp_ln"},
	// Within the tensors above.
	arch.Q: {HF: "attention.q"}, arch.K: {HF: "attention.k"}, arch.V: {HF: "attention.v"}, arch.Up: {HF: "mlp.up"},
	arch.Gate: {HF: "mlp.gate"},
}

func readGTE(j *arch.JSON, c *arch.Config) error {
	for key, value := range map[string]string{"position_embedding_type": "rope", "layer_norm_type": "layer_norm"} {
		if err := j.Require(key, value); err != nil {
			return err
		}
	}
	if !j.Bool("pack_qkv", true) {
		return arch.Unsupported("", "pack_qkv false in a %s", c.Architecture)
	}
	if err := j.Refuse(c, "logn_attention_scale", "logn_attention_clip1"); err != nil {
		return err
	}
	activation, err := arch.ReadGELU(j, "hidden_act")
	if err != nil {
		return err
	}
	c.RMSNormEps = j.Float("layer_norm_eps", c.RMSNormEps)
	c.Encoder = arch.Encoder{Only: true, EmbeddingNorm: true, NoFinalNorm: true, Types: j.Int("type_vocab_size", 1)}
	c.TieEmbeddings = true
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Activation, l.QKVBias, l.OBias, l.DownBias = activation, true, true, true
		l.AttentionNorm, l.MLPNorm = arch.Norms{Sum: true}, arch.Norms{Sum: true}
	}
	c.Both()
	return nil
}
