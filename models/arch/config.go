// Package arch describes decoder architectures as values. A [Decoder] is a class of models and how their configs are
// read. A [Config] is one model, with a record of each of its layers and the tensors that it has.
//
// It opens no files and builds no graphs: package models opens checkpoints, package decoder computes.
package arch

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/plural"
)

// Config describes a model.
type Config struct {
	Architecture string // Hugging Face class name, e.g. "LlamaForCausalLM"
	ModelType    string // Hugging Face model_type, e.g. "llama"

	VocabSize, HiddenSize, IntermediateSize  int
	NumLayers, NumHeads, NumKVHeads, HeadDim int
	MaxPositions                             int // longest context the model was made for, tokens

	Context int `json:"-"` // the longest sequence that it is run with, for rope scaling longrope; 0: MaxPositions

	// ExpertGroups is in how many groups the devices that run it share out the experts of a layer: a device has a part
	// of each of its group's. 0 is 1: of all.
	ExpertGroups int `json:"-"`

	Generation Generation `json:"-"` // defaults of sampling that the model's files ask for

	Norm       Norm
	RMSNormEps float64
	Ropes      []Rope // the ways in which layers turn queries and keys

	EmbeddingScale float64 // embeddings are multiplied by it, rounded to their dtype; 0 is 1
	ResidualScale  float64 // what a mixer or a feed-forward adds is multiplied by it; 0 is 1
	LogitDivisor   float64 // logits are divided by it; 0 is 1
	LogitCap       float64 // logits become cap * tanh(logit / cap); 0: none
	LayerEmbedding int     // numbers that a token has for each layer in addition to its hidden states; 0: none
	TieEmbeddings  bool    // lm_head is the embedding matrix

	// Quantization is the unchanged quantization_config of a config.json; nil if there is none.
	Quantization []byte `json:"-"`
	// ExpertBlocks is the quant_method there that only experts have, in the form of the class's own checkpoints: mxfp4,
	// or "".
	ExpertBlocks string `json:",omitempty"`

	Encoder    Encoder     `json:",omitzero"`
	Dense      []Dense     `json:",omitempty"` // layers after the pooling: of an embedding, or of the head
	Classifier *Classifier `json:",omitempty"` // nil: no head scores classes

	Layers []Layer // NumLayers of them
	Names  Names   `json:"-"` // names of the layers' tensors in checkpoints; nil: Llama's names
	Stored Stored  `json:"-"`

	BOS   int          // -1: none
	EOS   []int32      // any of them ends a completion
	DType dtypes.DType // dtype of the weights as the config or file declares it; InvalidDType if it does not
}

// Norm is what norms compute, and how RMSNorms multiply by their weights.
type Norm struct {
	// Layer: they are LayerNorms, which take the mean off first and add a bias. It needs Wide.
	Layer bool
	// Wide: in float32, and the product is rounded. Otherwise the factor before it is rounded, and then the product.
	Wide bool
	// Offset is added to the weights as Hugging Face's checkpoints have them, in float32: 1 in Gemma. It needs Wide.
	Offset float64
	// NoBias: LayerNorms add no bias.
	NoBias bool `json:",omitempty"`
}

func (n Norm) hasBias() bool { return n.Layer && !n.NoBias }

// Layer is what a layer computes: a mixer, then a feed-forward, each added to the hidden states.
type Layer struct {
	Mixer    Mixer
	Window   int     // tokens that a token attends to, itself included; 0: all before it
	Ahead    int     `json:",omitempty"` // tokens after itself that a token attends to, or AllAhead
	Rope     int     // the number of Config.Ropes by which queries and keys are turned; NoRope: they are not
	QKNorm   Width   // width of the RMSNorm of queries and keys, before they are turned
	QKVClip  float64 // queries, keys and values are kept within it before they are turned; 0: they are not
	Scale    float64 // factor of the scores q.k
	ScoreCap float64 // scores become cap * tanh(score / cap); 0: none
	Sinks    bool    // each query head has a score in addition to the keys' scores, for a value of zeros
	KVFrom   int     // the layer whose keys and values it attends to: itself, or an earlier layer
	Taps     int     // length of a convolution: the token itself and the earlier tokens that count
	Delta    DeltaNet
	Mamba    StateSpace
	Latent   Latent // latent attention: its heads are Latent.Width wide, and it has one KV head
	Gate     bool   // what a head of attention reads is multiplied by the sigmoid of a gate, made with its query

	// HeadDim, KVHeads and Intermediate are the layer's if they differ from the Config's, else 0: see [Config.OfLayer].
	HeadDim, KVHeads, Intermediate int
	KeysAreValues                  bool // a value is the key before its norm and rotation: it has no matrix of its own
	ValueNorm                      bool // values go through an RMSNorm of each head that has no weights
	Scaled                         bool // the hidden states after the layer are multiplied by a number of its own

	AttentionNorm, MLPNorm Norms

	Experts    Experts    // what the feed-forward is a mixture of
	Gated      bool       // activation(gate) * up; else activation(up)
	Activation Activation // activation of the feed-forward

	QKVBias, OBias, MLPBias bool
	DownBias                bool // of the last matrix of the feed-forward alone
}

// Mixer is how tokens of a layer see each other.
type Mixer string

// The mixers: softmax attention over the previous tokens, and mixers that keep a state of fixed size.
const (
	Attention Mixer = "attention"
	ShortConv Mixer = "short convolution" // each channel over the last few tokens, with gates before and after
	Delta     Mixer = "gated delta net"   // a matrix of each head that is moved towards each token's values
	Mamba     Mixer = "Mamba-2"           // a matrix of each head that fades, and each token is added to
)

// StateSize is the size in numbers of the state that a layer keeps of a sequence, which does not depend on the length
// of the sequence. It is 0 for attention, which keeps keys and values of each token.
func (c *Config) StateSize(layer int) int {
	switch l := c.Layers[layer]; l.Mixer {
	case ShortConv:
		return (l.Taps - 1) * c.HiddenSize
	case Delta:
		return l.Delta.state(l.Taps)
	case Mamba:
		return l.Mamba.state(l.Taps)
	}
	return 0
}

// OfLayer is the config with the sizes that a layer has.
func (c Config) OfLayer(layer int) Config {
	l := c.Layers[layer]
	for _, size := range []struct{ config, layer *int }{{&c.HeadDim, &l.HeadDim}, {&c.NumKVHeads, &l.KVHeads},
		{&c.IntermediateSize, &l.Intermediate}} {
		if *size.layer > 0 {
			*size.config = *size.layer
		}
	}
	return c
}

// Untied returns the config of the model with an output matrix of its own, as adapters see it: what an adapter adds to
// tied embeddings and to their product is two matrices. An encoder has no output matrix.
func (c Config) Untied() *Config {
	c.TieEmbeddings = c.TieEmbeddings && c.Generates() != nil
	return &c
}

// Owns reports whether a layer has keys and values of its own, or a state.
func (c *Config) Owns(layer int) bool { return c.Layers[layer].KVFrom == layer }

// NumCaches is how many layers have keys and values of their own, or a state: the first ones.
func (c *Config) NumCaches() int {
	for i := range c.Layers {
		if !c.Owns(i) {
			return i
		}
	}
	return len(c.Layers)
}

// HasStates reports whether layers have states.
func (c *Config) HasStates() bool {
	return slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Mixer != Attention })
}

// Routing returns how many layers have experts, and how many of them a token takes in each. It is an error if there are
// none, or if layers differ.
func (c *Config) Routing() (layers, chosen int, err error) {
	for _, l := range c.Layers {
		switch k := l.Experts.Chosen; {
		case l.Experts.Count == 0:
			continue
		case chosen > 0 && k != chosen:
			return 0, 0, fmt.Errorf("a token takes %d experts in one layer of %s, and %d in another one", chosen,
				c.Architecture, k)
		default:
			layers, chosen = layers+1, k
		}
	}
	if layers == 0 {
		return 0, 0, fmt.Errorf("%s has no experts", c.Architecture)
	}
	return layers, chosen, nil
}

// Generates reports whether the model can generate text: it returns an error that names what only encodes.
func (c *Config) Generates() error {
	switch {
	case c.Classifier != nil:
		return setting.Errorf("%s scores classes: it generates no text; give `task` classify or rerank", c.Architecture)
	case c.Encoder.Only:
		return setting.Errorf("%s only encodes: it generates no text; give `task` embed", c.Architecture)
	case slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Ahead > 0 }):
		return setting.Errorf("%s attends to tokens after a token: it generates no text; give `task` embed",
			c.Architecture)
	}
	return nil
}

// EmbeddingSize is the number of numbers of an embedding, or of scores of the head.
func (c *Config) EmbeddingSize() int {
	if n := len(c.Dense); n > 0 {
		return c.Dense[n-1].Out
	}
	return c.HiddenSize
}

// Width is what numbers a norm takes together.
type Width string

// Widths of norms of queries and keys.
const (
	NoNorm   Width = ""
	EachHead Width = "head"  // a head's
	AllHeads Width = "heads" // all heads together
)

// Norms reports where RMSNorms are applied: before a mixer or a feed-forward, to its input, and after it, to its
// output.
//
// Sum: it is applied to the sum of that output and the hidden states, in place of After, and its result replaces them.
type Norms struct {
	Before, After bool
	Sum           bool `json:",omitempty"`
}

// Activation is the function of a feed-forward, by the names of package linear.
type Activation string

// The activations of the decoders that there are.
const (
	SiLU          Activation = "silu"
	GELU          Activation = "gelu"
	GELUTanh      Activation = "gelu_tanh"
	ClampedSwiGLU Activation = "clamped_swiglu" // its limit is 7, see Clamped
)

// Clamped is ClampedSwiGLU with a limit.
func Clamped(limit float64) Activation {
	if limit == 7 {
		return ClampedSwiGLU
	}
	return Activation(fmt.Sprintf("%s %g", ClampedSwiGLU, limit))
}

// LlamaLayer is the layer that most decoders have, with differences.
func (c *Config) LlamaLayer() Layer {
	return Layer{Mixer: Attention, Scale: 1 / math.Sqrt(float64(c.HeadDim)),
		AttentionNorm: Norms{Before: true}, MLPNorm: Norms{Before: true}, Gated: true, Activation: SiLU}
}

// SetLayers makes all layers alike.
func (c *Config) SetLayers(l Layer) {
	c.Layers = slices.Repeat([]Layer{l}, c.NumLayers)
	for i := range c.Layers {
		c.Layers[i].KVFrom = i
	}
}

// checkCounts validates the sizes that are divided by and allocated from before the rest is known.
func checkCounts(c *Config) error {
	switch {
	case c.NumLayers < 1 || c.NumLayers > maxLayers:
		return fmt.Errorf("num_hidden_layers is %d; it must be between 1 and %d", c.NumLayers, maxLayers)
	case c.NumHeads < 1:
		return fmt.Errorf("num_attention_heads is %d; it must be at least 1", c.NumHeads)
	}
	return nil
}

// check validates what both config formats must satisfy.
func checkConfig(c *Config) error {
	if err := checkCounts(c); err != nil {
		return err
	}
	for _, f := range []struct {
		name       string
		value, max int
	}{
		{"vocab_size", c.VocabSize, maxDimension}, {"hidden_size", c.HiddenSize, maxDimension},
		{"intermediate_size", c.IntermediateSize, maxDimension}, {"num_attention_heads", c.NumHeads, maxDimension},
		{"num_key_value_heads", c.NumKVHeads, maxDimension},
		{"head_dim", c.HeadDim, maxDimension}, {"max_position_embeddings", c.MaxPositions, maxContext},
	} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("%s is %d; it must be between 1 and %d", f.name, f.value, f.max)
		}
	}
	switch {
	case c.LayerEmbedding < 0 || c.LayerEmbedding*c.NumLayers > maxDimension:
		return fmt.Errorf("tokens have embeddings of %d for each of %d layers, more than %d numbers", c.LayerEmbedding,
			c.NumLayers, maxDimension)
	case !(c.RMSNormEps > 0 && c.RMSNormEps < 1):
		return fmt.Errorf("rms_norm_eps is %g; it must be between 0 and 1", c.RMSNormEps)
	case c.BOS < -1 || c.BOS >= c.VocabSize:
		return fmt.Errorf("bos_token_id %d is outside the vocabulary of %d", c.BOS, c.VocabSize)
	}
	for _, id := range c.EOS {
		if id < 0 || int(id) >= c.VocabSize {
			return fmt.Errorf("eos_token_id %d is outside the vocabulary of %d", id, c.VocabSize)
		}
	}
	for i := range c.Layers {
		if err := checkLayer(c, i); err != nil {
			return err
		}
	}
	if len(c.Layers) != c.NumLayers {
		return fmt.Errorf("there are records of %s, num_hidden_layers is %d", plural.Count(len(c.Layers), "layer"),
			c.NumLayers)
	}
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"the scale of embeddings", c.EmbeddingScale}, {"the scale of what layers add", c.ResidualScale},
		{"the soft cap of logits", c.LogitCap}, {"the divisor of logits", c.LogitDivisor},
	} {
		if !(f.value >= 0 && f.value <= 1e6) {
			return fmt.Errorf("%s is %g; it must be between 0 and 1e6", f.name, f.value)
		}
	}
	for _, r := range c.Ropes {
		if err := r.check(max(c.HeadDim, r.Dims)); err != nil {
			return err
		}
	}
	if err := checkEncoder(c); err != nil {
		return err
	}
	return checkHeads(c)
}

// checkLayer validates a record, alone and together with the config.
func checkLayer(c *Config, number int) error {
	l := c.Layers[number]
	if err := l.check(number, len(c.Ropes)); err != nil {
		return err
	}
	switch {
	case l.QKNorm != NoNorm && c.Norm.Layer:
		return Unsupported("", "a LayerNorm of queries and keys in layer %d", number)
	case number > 0 && c.Owns(number) && !c.Owns(number-1):
		return Unsupported("", "layer %d with keys and values of its own after one without", number)
	case c.Owns(number):
		return nil
	}
	owner := c.Layers[l.KVFrom]
	switch {
	case l.Mixer != Attention || owner.Mixer != Attention || !c.Owns(l.KVFrom):
		return fmt.Errorf("layer %d attends to keys and values of layer %d, which has none", number, l.KVFrom)
	case l.HeadDim != owner.HeadDim || l.KVHeads != owner.KVHeads:
		return fmt.Errorf("layer %d attends to keys and values of layer %d, whose heads are others", number, l.KVFrom)
	case l.Gate || l.QKVBias || l.QKNorm == AllHeads:
		return Unsupported("", "layer %d with the keys and values of layer %d, and with gates, biases or norms of "+
			"all heads", number, l.KVFrom)
	}
	return nil
}

// checkHeads validates the sizes of each layer's heads.
func checkHeads(c *Config) error {
	for i, l := range c.Layers {
		sizes := c.OfLayer(i)
		switch {
		case sizes.NumHeads%sizes.NumKVHeads != 0:
			return fmt.Errorf("num_attention_heads %d is not a multiple of num_key_value_heads %d", sizes.NumHeads,
				sizes.NumKVHeads)
		case sizes.NumHeads*sizes.HeadDim > maxDimension:
			return fmt.Errorf("%d heads of %d make rows of %d, more than %d", sizes.NumHeads, sizes.HeadDim,
				sizes.NumHeads*sizes.HeadDim, maxDimension)
		case l.Latent.Rank > 0 && (sizes.HeadDim != l.Latent.Width() || sizes.NumKVHeads != 1 || l.Rope == NoRope ||
			c.RopeDims(l.Rope) != l.Latent.RopeDim):
			return fmt.Errorf("layer %d with latents of %d has %d KV heads of %d", i, l.Latent.Width(),
				sizes.NumKVHeads, sizes.HeadDim)
		case l.Rope != NoRope:
			if err := c.Ropes[l.Rope].check(sizes.HeadDim); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l Layer) check(number, ropes int) error {
	switch {
	case l.Mixer != Attention && (l.Taps < 2 || l.Taps > maxTaps):
		return fmt.Errorf("the convolution of layer %d has %d taps; it must be between 2 and %d", number, l.Taps,
			maxTaps)
	case min(l.HeadDim, l.KVHeads, l.Intermediate) < 0 || max(l.HeadDim, l.KVHeads, l.Intermediate) > maxDimension:
		return fmt.Errorf("layer %d has %d KV heads of %d and a feed-forward %d wide", number, l.KVHeads, l.HeadDim,
			l.Intermediate)
	case l.KVFrom < 0 || l.KVFrom > number:
		return fmt.Errorf("layer %d attends to keys and values of layer %d", number, l.KVFrom)
	case l.Rope < NoRope || l.Rope >= ropes:
		return fmt.Errorf("layer %d has rotary embedding %d of %d", number, l.Rope, ropes)
	case l.Ahead < 0:
		return fmt.Errorf("tokens of layer %d attend to %d after themselves", number, l.Ahead)
	case l.Ahead > 0 && l.Mixer != Attention:
		return fmt.Errorf("layer %d keeps states, and its tokens attend to tokens after themselves", number)
	case l.Window < 0:
		return fmt.Errorf("the sliding window of layer %d is %d", number, l.Window)
	case !(l.Scale > 0 && l.Scale <= 1e6):
		return fmt.Errorf("the scale of layer %d's scores is %g; it must be above 0", number, l.Scale)
	case !(l.ScoreCap >= 0 && l.ScoreCap <= 1e6):
		return fmt.Errorf("the soft cap of layer %d's scores is %g; it must be between 0 and 1e6", number, l.ScoreCap)
	}
	err := errors.Join(l.Experts.check(number), l.Latent.check(number))
	switch l.Mixer {
	case Delta:
		err = errors.Join(err, l.Delta.check(number))
	case Mamba:
		err = errors.Join(err, l.Mamba.check(number))
	}
	return err
}
