// Package modernbert provides the encoders of ModernBERT: layers with norms before them, rotary embeddings and gated
// feed-forwards. Most of them attend to a window on both sides of a token.
package modernbert

import "github.com/quire/quire/models/arch"

// Encoders are the model with and without the head that it was trained with, and with heads that score classes of texts
// and of tokens.
var Encoders = []arch.Decoder{encoder("ModernBertModel"), encoder("ModernBertForMaskedLM"),
	encoder("ModernBertForSequenceClassification").WithHead(readHead, head),
	encoder("ModernBertForTokenClassification").WithHead(readHeadOfTokens, head)}

// head are the names of the layers of heads.
var head = map[string]string{"head.dense.": arch.NameDense(0) + ".", "head.norm.": arch.NameDenseNorm(0) + ".",
	"classifier.": arch.NameDense(1) + "."}

var names = arch.Names{
	arch.AttentionNorm: {HF: "attn_norm"}, arch.QKV: {HF: "attn.Wqkv"}, arch.O: {HF: "attn.Wo"},
	arch.MLPNorm: {HF: "mlp_norm"}, arch.GateUp: {HF: "mlp.Wi"}, arch.Down: {HF: "mlp.Wo"},
	// Within the tensors above.
	arch.Q: {HF: "attn.q"}, arch.K: {HF: "attn.k"}, arch.V: {HF: "attn.v"}, arch.Gate: {HF: "mlp.gate"},
	arch.Up: {HF: "mlp.up"},
}

func encoder(class string) arch.Decoder {
	return arch.Decoder{Class: class, ModelType: "modernbert", Names: names, Norm: arch.Norm{Layer: true, Wide: true},
		Keys:     map[string]string{"rope_theta": "global_rope_theta", "rope_local_base_freq": "local_rope_theta"},
		Defaults: arch.Defaults{MaxPositions: 8192, Eps: 1e-5, Theta: 160000, LocalTheta: 10000, Tie: true, BOS: -1},
		Stored: arch.Stored{
			Renamed: map[string]string{
				"embeddings.tok_embeddings.": "model.embed_tokens.", "embeddings.norm.": "model.embed_norm.",
				"model.embeddings.tok_embeddings.": "model.embed_tokens.",
				"model.embeddings.norm.":           "model.embed_norm.",
				"final_norm.":                      "model.norm.", "model.final_norm.": "model.norm."},
			Unused: []string{"head.", "decoder."}},
		JSON: readJSON}
}

func readJSON(j *arch.JSON, c *arch.Config) error {
	activation, err := arch.ReadGELU(j, "hidden_activation")
	if err != nil {
		return err
	}
	sliding, err := j.SlidingLayers(c)
	if err != nil {
		return err
	}
	if sliding == nil {
		every := j.Int("global_attn_every_n_layers", 3)
		for i := range c.NumLayers {
			sliding = append(sliding, every > 0 && i%every != 0)
		}
	}
	c.RMSNormEps = j.Float("norm_eps", c.RMSNormEps)
	c.Norm.NoBias = !j.Bool("norm_bias", false)
	c.Encoder = arch.Encoder{Only: true, EmbeddingNorm: true}
	c.TieEmbeddings = true
	bias, mlpBias := j.Bool("attention_bias", false), j.Bool("mlp_bias", false)
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Activation, l.QKVBias, l.OBias, l.MLPBias = activation, bias, bias, mlpBias
		l.AttentionNorm.Before = i > 0 // the embeddings are normalized already
	}
	c.SlideLayers(j.Int("local_attention", 128)/2+1, sliding) // half of it before a token, and half after it
	c.Both()
	return nil
}

// readHead reads the head that scores classes: the head that the model was trained with, and a linear layer.
func readHead(j *arch.JSON, c *arch.Config) error {
	pooling := j.String("classifier_pooling", "cls")
	if pooling != "cls" && pooling != "mean" {
		return arch.Unsupported("cls and mean are", "classifier_pooling %q", pooling)
	}
	return readLayers(j, c, pooling)
}

// readHeadOfTokens reads the head that scores tokens: the same without a pooling.
func readHeadOfTokens(j *arch.JSON, c *arch.Config) error {
	if err := readLayers(j, c, ""); err != nil {
		return err
	}
	c.Classifier.Tokens = true
	return nil
}

func readLayers(j *arch.JSON, c *arch.Config, pooling string) error {
	activation, err := arch.ReadGELU(j, "classifier_activation")
	if err != nil {
		return err
	}
	if c.Classifier, err = arch.ReadClassifier(j, pooling); err != nil {
		return err
	}
	c.Dense = []arch.Dense{{In: c.HiddenSize, Out: c.HiddenSize, Bias: j.Bool("classifier_bias", false),
		Activation: activation, Norm: true}, {In: c.HiddenSize, Out: len(c.Classifier.Labels), Bias: true}}
	return nil
}
