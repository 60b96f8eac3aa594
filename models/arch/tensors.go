package arch

import (
	"fmt"
	"iter"
	"strings"
)

// Tensors yields every weight that the config implies, in model order.
func (c *Config) Tensors() iter.Seq[Tensor] {
	words := []int{c.VocabSize, c.HiddenSize}
	return func(yield func(Tensor) bool) {
		if !yield(Tensor{Name: NameEmbedding, GGUF: "token_embd.weight", Part: Embedding, Shape: words,
			Array: string(Embedding), Over: ByVocabulary}) {
			return
		}
		for _, t := range append(layerEmbeddings(c), c.Encoder.tensors(c)...) {
			if !yield(t) {
				return
			}
		}
		for i := range c.Layers {
			for _, t := range layerTensors(c, i) {
				if t.Layer = i; !yield(t) {
					return
				}
			}
		}
		final := "output_norm"
		if name, ok := c.Names[FinalNorm]; ok {
			final = name.GGUF
		}
		if !c.Encoder.NoFinalNorm && !yield(Tensor{Name: NameFinalNorm, GGUF: final + ".weight", Part: FinalNorm,
			Shape: []int{c.HiddenSize}, Array: string(FinalNorm)}) {
			return
		}
		if c.Norm.hasBias() && !c.Encoder.NoFinalNorm && !yield(Tensor{Name: NameFinalNormBias,
			GGUF: final + ".bias", Part: NormBias, Shape: []int{c.HiddenSize}, Array: string(FinalNorm) + biasSuffix}) {
			return
		}
		for _, t := range tensorsOfDense(c) {
			if !yield(t) {
				return
			}
		}
		if !c.TieEmbeddings {
			yield(Tensor{Name: NameHead, GGUF: "output.weight", Part: Head, Shape: words, Array: string(Head),
				Over: ByVocabulary})
		}
	}
}

func layerTensors(c *Config, number int) []Tensor {
	l := layerList{c: c, number: number, names: tensorNames(c)}
	layer := c.Layers[number]
	l.norm(layer.AttentionNorm.Before, AttentionNorm, Whole, c.HiddenSize)
	switch layer.Mixer {
	case ShortConv:
		l.outputs(ConvIn, string(ConvIn), Whole, 3*c.HiddenSize, false)
		l.add(ConvTaps, string(ConvTaps)+".weight", ".weight", 0, Whole, c.HiddenSize, layer.Taps)
		l.outputs(ConvOut, string(ConvOut), Whole, c.HiddenSize, false)
	case Delta:
		l.list = append(l.list, deltaTensors(c, number, l.names)...)
	case Mamba:
		l.list = append(l.list, mambaTensors(c, number, l.names)...)
	default:
		l.attention()
	}
	l.norm(layer.AttentionNorm.After || layer.AttentionNorm.Sum, AttentionPostNorm, Whole, c.HiddenSize)
	l.norm(layer.MLPNorm.Before, MLPNorm, Whole, c.HiddenSize)
	if layer.Experts.Count > 0 {
		l.list = append(l.list, expertTensors(c, number, l.names)...)
		l.sides(layer.Experts)
	} else {
		up, size := "up", c.OfLayer(number).IntermediateSize
		if layer.Gated {
			up = "gate_up"
			l.outputs(Gate, up, ByIntermediate, size, layer.MLPBias)
		}
		l.outputs(Up, up, ByIntermediate, size, layer.MLPBias)
		l.inputs(Down, ByIntermediate, size, layer.MLPBias || layer.DownBias)
	}
	l.norm(layer.MLPNorm.After || layer.MLPNorm.Sum, MLPPostNorm, Whole, c.HiddenSize)
	l.list = append(l.list, layerEnd(c, number, l.names)...)
	within(l.list, l.names, number, max(layer.Delta.KeyHeads, 1))
	return l.list
}

// tensorNames are what the tensors of layers are called.
func tensorNames(c *Config) Names {
	if c.Names == nil {
		return LlamaNames
	}
	return c.Names
}

// A layerList collects the tensors of a layer.
type layerList struct {
	c      *Config
	number int
	names  Names
	list   []Tensor
}

func (l *layerList) add(part Part, array, suffix string, axis int, over Split, shape ...int) {
	l.list = append(l.list, Tensor{
		Name: fmt.Sprintf("model.layers.%d.%s%s", l.number, l.names[part].HF, suffix),
		GGUF: fmt.Sprintf("blk.%d.%s%s", l.number, l.names[part].GGUF, suffix),
		Part: part, Shape: shape, Array: fmt.Sprintf("layers.%d.%s", l.number, array), Axis: axis, Over: over})
}

// norm adds the weight of a norm, if there is one, and its bias.
func (l *layerList) norm(has bool, part Part, over Split, size int) {
	if has {
		l.add(part, string(part), ".weight", 0, over, size)
	}
	if has && l.c.Norm.hasBias() {
		l.add(part, string(part)+biasSuffix, biasSuffix, 0, over, size)
		l.list[len(l.list)-1].Part = NormBias
	}
}

// outputs adds a matrix whose outputs are split over the devices.
func (l *layerList) outputs(part Part, array string, over Split, out int, bias bool) {
	l.add(part, array+".weight", ".weight", 0, over, out, l.c.HiddenSize)
	if bias {
		l.add(part, array+biasSuffix, biasSuffix, 0, over, out)
	}
}

// inputs adds a matrix whose inputs are split over the devices. Its bias is added to the sum of their results.
func (l *layerList) inputs(part Part, over Split, in int, bias bool) {
	l.add(part, string(part)+".weight", ".weight", 1, over, l.c.HiddenSize, in)
	if bias {
		l.add(part, string(part)+biasSuffix, biasSuffix, 0, Whole, l.c.HiddenSize)
	}
}

// sides adds the norms of experts apart from a shared feed-forward, and their numbers.
func (l *layerList) sides(e Experts) {
	if !e.Apart {
		return
	}
	l.add(RouterNorm, string(RouterNorm), "", 0, Whole, l.c.HiddenSize)
	l.add(ExpertScale, string(ExpertScale), "", 0, Whole, e.Count)
	for _, part := range []Part{ExpertsNorm, SharedPostNorm, ExpertsPostNorm} {
		l.norm(true, part, Whole, l.c.HiddenSize)
	}
}

func (l *layerList) attention() {
	if l.c.Layers[l.number].Latent.Rank > 0 {
		l.latent()
		return
	}
	layer, sizes, keys := l.c.Layers[l.number], l.c.OfLayer(l.number), keyParts(l.c, l.number)
	q, kv := sizes.NumHeads*sizes.HeadDim, sizes.NumKVHeads*sizes.HeadDim
	if layer.Gate {
		l.outputs(Q, "qkv", ByGatedHeads, 2*q, layer.QKVBias)
	} else {
		l.outputs(Q, "qkv", ByQueryHeads, q, layer.QKVBias)
	}
	for _, part := range keys {
		l.outputs(part, "qkv", ByKVHeads, kv, layer.QKVBias)
	}
	l.norm(layer.QKNorm == EachHead, QNorm, Whole, sizes.HeadDim)
	l.norm(layer.QKNorm == EachHead && len(keys) > 0, KNorm, Whole, sizes.HeadDim)
	l.norm(layer.QKNorm == AllHeads, QNorm, ByQueryHeads, q)
	l.norm(layer.QKNorm == AllHeads, KNorm, ByKVHeads, kv)
	if layer.Sinks {
		l.add(Sinks, string(Sinks), "", 0, ByQueryHeads, l.c.NumHeads)
		l.list[len(l.list)-1].GGUF += ".weight"
	}
	l.inputs(O, ByQueryHeads, q, layer.OBias)
}

// layerEnd are the tensors after a layer's feed-forward. Each device has all of them.
func layerEnd(c *Config, number int, names Names) (list []Tensor) {
	add := func(part Part, array, suffix string, shape ...int) {
		list = append(list, Tensor{Name: fmt.Sprintf("model.layers.%d.%s%s", number, names[part].HF, suffix),
			GGUF: fmt.Sprintf("blk.%d.%s.weight", number, names[part].GGUF), Part: part, Shape: shape,
			Array: fmt.Sprintf("layers.%d.%s", number, array)})
	}
	if size := c.LayerEmbedding; size > 0 {
		add(LayerGate, string(LayerGate)+weightSuffix, weightSuffix, size, c.HiddenSize)
		add(LayerOut, string(LayerOut)+weightSuffix, weightSuffix, c.HiddenSize, size)
		add(LayerOutNorm, string(LayerOutNorm), weightSuffix, c.HiddenSize)
	}
	if c.Layers[number].Scaled {
		add(LayerScale, string(LayerScale), "", 1)
	}
	return list
}

// keyParts are the matrices that make a layer's keys and values.
func keyParts(c *Config, number int) []Part {
	switch {
	case !c.Owns(number):
		return nil
	case c.Layers[number].KeysAreValues:
		return []Part{K}
	}
	return []Part{K, V}
}

// layerEmbeddings are the tensors that make what tokens have for each layer.
func layerEmbeddings(c *Config) []Tensor {
	all := c.LayerEmbedding * c.NumLayers
	if all == 0 {
		return nil
	}
	array := string(LayerContext) + weightSuffix
	return []Tensor{
		{Name: "model.embed_tokens_per_layer.weight", GGUF: "per_layer_token_embd.weight", Part: LayerEmbedding,
			Shape: []int{c.VocabSize, all}, Array: string(LayerEmbedding), Over: ByVocabulary},
		{Name: "model.per_layer_model_projection.weight", GGUF: "per_layer_model_proj.weight", Part: LayerContext,
			Shape: []int{all, c.HiddenSize}, Array: array},
		{Name: "model.per_layer_projection_norm.weight", GGUF: "per_layer_proj_norm.weight", Part: LayerContextNorm,
			Shape: []int{c.LayerEmbedding}, Array: string(LayerContextNorm)},
	}
}

const (
	weightSuffix = ".weight"
	biasSuffix   = ".bias"
)

// within returns the tensors of a layer that checkpoints store inside another tensor.
func within(list []Tensor, names Names, number, keyHeads int) {
	for _, joined := range []struct {
		whole Part
		parts []Part
		heads int
	}{{QKV, []Part{Q, K, V}, 1}, {GateUp, []Part{Gate, Up}, 1}, {UpGate, []Part{Up, Gate}, 1},
		{SharedGateUp, []Part{SharedGate, SharedUp}, 1},
		{DeltaQKV, []Part{DeltaQ, DeltaK, DeltaV}, 1},
		{DeltaQKVGate, []Part{DeltaQ, DeltaK, DeltaV, DeltaGate}, keyHeads},
		{DeltaLearnStep, []Part{DeltaLearn, DeltaStep}, keyHeads}} {
		name, ok := names[joined.whole]
		if !ok {
			continue
		}
		for _, suffix := range []string{".weight", biasSuffix} {
			w := Within{Name: fmt.Sprintf("model.layers.%d.%s%s", number, name.HF, suffix), Heads: joined.heads}
			if name.GGUF != "" {
				w.GGUF = fmt.Sprintf("blk.%d.%s%s", number, name.GGUF, suffix)
			}
			var found []int
			for _, part := range joined.parts {
				for i, t := range list {
					if t.Part == part && strings.HasSuffix(t.Name, suffix) {
						found = append(found, i)
						w.Rows += t.Shape[0]
					}
				}
			}
			for _, i := range found {
				one := w
				list[i].Within = &one
				w.First += list[i].Shape[0] / joined.heads
			}
		}
	}
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
