package models

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Names of the weights outside the layers.
const (
	nameEmbedding = "model.embed_tokens.weight"
	nameFinalNorm = "model.norm.weight"
	nameHead      = "lm_head.weight"
)

// TensorSpec is a weight that a Config implies.
type TensorSpec struct {
	Name  string
	Shape []int // outermost first; linear weights are [out, in]
}

// Tensors yields every weight that the config implies, in model order.
func (c *Config) Tensors() iter.Seq[TensorSpec] {
	return func(yield func(TensorSpec) bool) {
		if !yield(TensorSpec{nameEmbedding, []int{c.VocabSize, c.HiddenSize}}) {
			return
		}
		for layer := range c.NumLayers {
			for _, t := range c.layerTensors(layer) {
				if !yield(t) {
					return
				}
			}
		}
		if !yield(TensorSpec{nameFinalNorm, []int{c.HiddenSize}}) {
			return
		}
		if !c.TieEmbeddings {
			yield(TensorSpec{nameHead, []int{c.VocabSize, c.HiddenSize}})
		}
	}
}

func (c *Config) layerTensors(layer int) []TensorSpec {
	prefix := fmt.Sprintf("model.layers.%d.", layer)
	var list []TensorSpec
	add := func(name string, shape ...int) { list = append(list, TensorSpec{prefix + name, shape}) }
	linear := func(name string, out, in int, bias bool) {
		add(name+".weight", out, in)
		if bias {
			add(name+".bias", out)
		}
	}
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	add("input_layernorm.weight", c.HiddenSize)
	linear("self_attn.q_proj", q, c.HiddenSize, c.QKVBias)
	linear("self_attn.k_proj", kv, c.HiddenSize, c.QKVBias)
	linear("self_attn.v_proj", kv, c.HiddenSize, c.QKVBias)
	linear("self_attn.o_proj", c.HiddenSize, q, c.OBias)
	if c.QKNorm {
		add("self_attn.q_norm.weight", c.HeadDim)
		add("self_attn.k_norm.weight", c.HeadDim)
	}
	add("post_attention_layernorm.weight", c.HiddenSize)
	linear("mlp.gate_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias)
	linear("mlp.up_proj", c.IntermediateSize, c.HiddenSize, c.MLPBias)
	linear("mlp.down_proj", c.HiddenSize, c.IntermediateSize, c.MLPBias)
	return list
}

// NumParameters is the number of weights that the config implies; tied embeddings count once.
func (c *Config) NumParameters() int64 {
	var total int64
	for t := range c.Tensors() {
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		total += n
	}
	return total
}

// Validate compares the checkpoint's tensors with those its config implies. The error lists every missing tensor, wrong
// shape and unreadable type at once; warnings names the tensors that the model has no use for. Rotary frequency tables,
// and the output matrix of a model with tied embeddings, are derived data and give no warning.
func (c *Checkpoint) Validate() (warnings []string, err error) {
	var problems []string
	known := map[string]bool{nameHead: true}
	for spec := range c.Config.Tensors() {
		known[spec.Name] = true
		t := c.tensors[spec.Name]
		switch {
		case t == nil:
			problems = append(problems, fmt.Sprintf("%s is missing (expected shape %v)", spec.Name, spec.Shape))
		case !slices.Equal(t.shape, spec.Shape):
			problems = append(problems, fmt.Sprintf("%s has shape %v, but the config implies %v", spec.Name, t.shape,
				spec.Shape))
		case t.decode == nil:
			problems = append(problems, fmt.Sprintf("%s has dtype %s, which is not supported (F32, BF16 and F16 are)",
				spec.Name, t.stored))
		}
	}
	for _, name := range c.names {
		if !known[name] && !strings.HasSuffix(name, "rotary_emb.inv_freq") && name != nameRopeFactors {
			warnings = append(warnings, fmt.Sprintf("tensor %s %v in %s is not used by %s", name, c.tensors[name].shape,
				c.tensors[name].file, c.Config.Architecture))
		}
	}
	if len(problems) > 0 {
		const shown = 20
		if extra := len(problems) - shown; extra > 0 {
			problems = append(problems[:shown], fmt.Sprintf("and %d more", extra))
		}
		err = errors.New("checkpoint " + c.Ref + " does not fit its config: " + strings.Join(problems, "; "))
	}
	return warnings, err
}
