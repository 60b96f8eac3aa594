// Package bert provides the encoders of the BERT family: BERT, RoBERTa, XLM-RoBERTa, MPNet, DistilBERT and gte. Their
// norms follow the sums with the hidden states, tokens attend to all tokens of their text, and positions are
// embeddings, but for gte's.
package bert

import (
	"slices"
	"strings"

	"github.com/quire/quire/models/arch"
)

// Encoders lists the family's encoders: each model with and without the head that it was trained with, and with
// heads that score classes of texts and of tokens.
var Encoders = slices.Concat(
	family{config: "bert", prefix: "bert", classes: []string{"BertModel", "BertForMaskedLM", "BertForPreTraining",
		ColBERT}, names: bertNames, types: 2, head: bertHead}.encoders(),
	family{config: "roberta", prefix: "roberta", classes: []string{"RobertaModel", "RobertaForMaskedLM"},
		names: bertNames, types: 2, padding: 1, head: robertaHead}.encoders(),
	family{config: "xlm-roberta", prefix: "roberta", classes: []string{"XLMRobertaModel", "XLMRobertaForMaskedLM"},
		names: bertNames, types: 2, padding: 1, head: robertaHead}.encoders(),
	family{config: "mpnet", prefix: "mpnet", classes: []string{"MPNetModel", "MPNetForMaskedLM"}, names: mpnetNames,
		padding: 1, buckets: 32, head: robertaHead}.encoders(),
	family{config: "distilbert", prefix: "distilbert", classes: []string{"DistilBertModel", "DistilBertForMaskedLM"},
		names: distilNames, head: distilHead, keys: map[string]string{"hidden_size": "dim",
			"intermediate_size": "hidden_dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
			"hidden_act": "activation"}}.encoders(),
	[]arch.Decoder{gte},
)

// ColBERT is the class of checkpoints of Stanford's ColBERT. The layer after the hidden states is no part of the
// config: see sentence.ReadColBERT.
const ColBERT = "HF_ColBERT"

// family is what distinguishes the members.
type family struct {
	config  string // model_type
	prefix  string // of tensors' names in checkpoints with a head
	classes []string
	names   arch.Names
	keys    map[string]string
	types   int // default of type_vocab_size; 0: tokens have no kinds
	// padding is the default of pad_token_id, if the first token has the position after it; else 0, and the first token
	// has position 0.
	padding int
	buckets int // default of relative_attention_num_buckets; 0: there are no biases of scores
	head    head
}

// head is the head that scores classes. It has two linear layers, of which the first one keeps the size.
type head struct {
	first, last string // names of the layers
	activation  arch.Activation
}

var (
	bertHead    = head{"bert.pooler.dense.", "classifier.", arch.Tanh}
	robertaHead = head{"classifier.dense.", "classifier.out_proj.", arch.Tanh}
	distilHead  = head{"pre_classifier.", "classifier.", arch.ReLU}
)

// on is the encoder with the head.
func (h head) on(d arch.Decoder) arch.Decoder {
	base, _ := strings.CutSuffix(d.Class, "Model")
	d.Class = base + arch.ClassificationSuffix
	return d.WithHead(func(j *arch.JSON, c *arch.Config) (err error) {
		if c.Classifier, err = arch.ReadClassifier(j, "cls"); err != nil {
			return err
		}
		c.Dense = []arch.Dense{{In: c.HiddenSize, Out: c.HiddenSize, Bias: true, Activation: h.activation},
			{In: c.HiddenSize, Out: len(c.Classifier.Labels), Bias: true}}
		return nil
	}, map[string]string{h.first: arch.NameDense(0) + ".", h.last: arch.NameDense(1) + "."})
}

// ofTokens is the encoder with a head that scores each token.
func ofTokens(d arch.Decoder) arch.Decoder {
	base, _ := strings.CutSuffix(d.Class, "Model")
	d.Class = base + arch.TokenClassification
	return d.WithHead(arch.HeadOfTokens, map[string]string{"classifier.": arch.NameDense(0) + "."})
}

// bucketDistance is a constant of MPNet's code.
const bucketDistance = 128

var bertNames = arch.Names{
	arch.Q: {HF: "attention.self.query", GGUF: "attn_q"}, arch.K: {HF: "attention.self.key", GGUF: "attn_k"},
	arch.V: {HF: "attention.self.value", GGUF: "attn_v"}, arch.O: {HF: "attention.output.dense", GGUF: "attn_output"},
	arch.AttentionPostNorm: {HF: "attention.output.LayerNorm", GGUF: "attn_output_norm"},
	arch.Up:                {HF: "intermediate.dense", GGUF: "ffn_up"},
	arch.Down:              {HF: "output.dense", GGUF: "ffn_down"},
	arch.MLPPostNorm:       {HF: "output.LayerNorm", GGUF: "layer_output_norm"},
}

var mpnetNames = bertNames.With(arch.Names{
	arch.Q: {HF: "attention.attn.q"}, arch.K: {HF: "attention.attn.k"}, arch.V: {HF: "attention.attn.v"},
	arch.O: {HF: "attention.attn.o"}, arch.AttentionPostNorm: {HF: "attention.LayerNorm"},
})

var distilNames = arch.Names{
	arch.Q: {HF: "attention.q_lin"}, arch.K: {HF: "attention.k_lin"}, arch.V: {HF: "attention.v_lin"},
	arch.O: {HF: "attention.out_lin"}, arch.AttentionPostNorm: {HF: "sa_layer_norm"}, arch.Up: {HF: "ffn.lin1"},
	arch.Down: {HF: "ffn.lin2"}, arch.MLPPostNorm: {HF: "output_layer_norm"},
}

func (f family) encoders() (list []arch.Decoder) {
	stored := arch.Stored{Renamed: map[string]string{}, Ends: map[string]string{".gamma": ".weight", ".beta": ".bias"}}
	for _, prefix := range []string{"", f.prefix + "."} {
		for begin, want := range map[string]string{
			"embeddings.word_embeddings.":       "model.embed_tokens.",
			"embeddings.position_embeddings.":   "model.embed_positions.",
			"embeddings.token_type_embeddings.": "model.embed_types.", "embeddings.LayerNorm.": "model.embed_norm.",
			"encoder.layer.": "model.layers.", "transformer.layer.": "model.layers.",
			"encoder.relative_attention_bias.": "model.score_bias."} {
			stored.Renamed[prefix+begin] = want
		}
		stored.Unused = append(stored.Unused, prefix+"pooler.", prefix+"embeddings.position_ids")
	}
	stored.Unused = append(stored.Unused, "cls.", "lm_head.", "vocab_", "linear.")
	for i, class := range f.classes {
		d := arch.Decoder{Class: class, ModelType: f.config, Names: f.names, Norm: arch.Norm{Layer: true, Wide: true},
			Stored: stored, Keys: f.keys, JSON: f.readJSON,
			Defaults: arch.Defaults{MaxPositions: 512, Eps: 1e-12, Tie: true, BOS: -1}}
		if f.config == "bert" && i == 0 {
			d.GGUF = arch.GGUF{Architecture: "bert", Keys: []string{"attention.layer_norm_epsilon", arch.LabelsKey}}
			d.Metadata = readMetadata
		}
		list = append(list, d)
		if i == 0 {
			d.GGUF, d.Metadata = arch.GGUF{}, nil
			list = append(list, f.head.on(d), ofTokens(d))
		}
	}
	return list
}

func (f family) readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("position_embedding_type", "absolute"); err != nil {
		return err
	}
	if err := j.Refuse(c, "is_decoder", "add_cross_attention"); err != nil {
		return err
	}
	activation, err := arch.ReadGELU(j, "hidden_act")
	if err != nil {
		return err
	}
	c.RMSNormEps = j.Float("layer_norm_eps", c.RMSNormEps)
	e := arch.Encoder{Positions: c.MaxPositions}
	if f.padding > 0 {
		e.FirstPosition = j.Int("pad_token_id", f.padding) + 1
		c.MaxPositions -= e.FirstPosition
	}
	if f.types > 0 {
		e.Types = j.Int("type_vocab_size", f.types)
	}
	if f.buckets > 0 {
		e.Buckets, e.BucketDistance = j.Int("relative_attention_num_buckets", f.buckets), bucketDistance
	}
	setLayers(c, e, activation)
	return nil
}

func readMetadata(m *arch.Metadata, c *arch.Config) error {
	c.RMSNormEps = m.Float("attention.layer_norm_epsilon", c.RMSNormEps)
	e := arch.Encoder{Positions: c.MaxPositions} // converters leave out positions before the first token's
	if t := m.File.Tensor("token_types.weight"); t != nil && len(t.Dims) == 2 {
		e.Types = t.Dims[0]
	}
	setLayers(c, e, arch.GELU)
	// All heads of the family have the same names in files. DistilBERT's is the one without kinds of tokens.
	if e.Types == 0 {
		return m.Head(c, distilHead.activation)
	}
	return m.Head(c, robertaHead.activation)
}

// setLayers makes all layers those of BERT.
func setLayers(c *arch.Config, e arch.Encoder, activation arch.Activation) {
	e.Only, e.EmbeddingNorm, e.NoFinalNorm = true, true, true
	c.Encoder, c.Ropes, c.TieEmbeddings = e, nil, true
	l := c.LlamaLayer()
	l.Rope, l.Gated, l.Activation = arch.NoRope, false, activation
	l.AttentionNorm, l.MLPNorm = arch.Norms{Sum: true}, arch.Norms{Sum: true}
	l.QKVBias, l.OBias, l.MLPBias = true, true, true
	c.SetLayers(l)
	c.Both()
}
