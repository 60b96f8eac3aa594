package arch

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Tensor is a weight of a model: what checkpoints call it, its shape, and the array of the device that it is part of.
type Tensor struct {
	Name  string // in Hugging Face's checkpoints
	GGUF  string // in GGUF files
	Part  Part
	Layer int   // the number of its layer; 0 outside of layers
	Shape []int // outermost first; linear weights are [out, in]
	// Experts is 0, or how many tensors the one of a GGUF file is made of, and Expert which of them this one is.
	Expert, Experts int

	// Array names the array that it is in. Tensors of the same array stand one behind the other, by their first axis.
	Array string
	// Within is the tensor that checkpoints have it in, from row First on of Rows; nil: one of its own.
	Within *Within
	// Fused is the tensor of all experts that a checkpoint has it in, beside that of Experts; nil: none.
	Fused *FusedIn
	// Axis is split over the devices that run the model together: Over says by what.
	Axis int
	Over Split
}

// Within is a tensor that holds several, one behind the other by rows.
type Within struct {
	Name        string // in Hugging Face's checkpoints
	GGUF        string // in GGUF files; "": they have a tensor for each
	First, Rows int
	// Heads is in how many runs its rows are, all of one length: the next one is Rows/Heads behind the last. 0 is 1.
	Heads int
}

// Row is where it has a tensor's row of rows in all.
func (w *Within) Row(row, rows int) int {
	heads := max(w.Heads, 1)
	return w.First + row/(rows/heads)*(w.Rows/heads) + row%(rows/heads)
}

// Part is what a tensor of a layer is for.
type Part string

// The parts. Norms may stand before and after attention, and before and after the feed-forward.
const (
	AttentionNorm     Part = "attention_norm"
	AttentionPostNorm Part = "attention_post_norm"
	MLPNorm           Part = "mlp_norm"
	MLPPostNorm       Part = "mlp_post_norm"
	QNorm             Part = "q_norm"
	KNorm             Part = "k_norm"
	FinalNorm         Part = "norm"
	NormBias          Part = "norm_bias"
	Q, K, V, O        Part = "q", "k", "v", "o"
	Gate, Up, Down    Part = "gate", "up", "down"
	Embedding, Head   Part = "embed", "lm_head"
	Router            Part = "router"
	ConvIn            Part = "conv_in"   // of a short convolution: the gates before and behind it, and what it reads
	ConvTaps          Part = "conv_taps" // [channels, taps], the last one for the token itself
	ConvOut           Part = "conv_out"
	LayerScale        Part = "scale" // the number that hidden states are multiplied by

	// Of embeddings for each layer: those of tokens, what makes them of hidden states, and its norm; in a layer what
	// they are multiplied with, what is added, and its norm.
	LayerEmbedding   Part = "layer_embed"
	LayerContext     Part = "layer_context"
	LayerContextNorm Part = "layer_context_norm"
	LayerGate        Part = "layer_gate"
	LayerOut         Part = "layer_out"
	LayerOutNorm     Part = "layer_out_norm"

	// Of a gated delta net, whose convolution has ConvTaps: what makes queries, keys and values, gates, how much heads
	// learn, and their steps.
	DeltaQ, DeltaK, DeltaV                     Part = "delta_q", "delta_k", "delta_v"
	DeltaGate, DeltaLearn, DeltaStep           Part = "delta_gate", "delta_learn", "delta_step"
	DeltaDecay, DeltaBias, DeltaNorm, DeltaOut Part = "delta_decay", "delta_bias", "delta_norm", "delta_out"

	// Of a Mamba-2 layer, whose convolution has ConvTaps and ConvBias: what makes gates, what is convolved, and steps
	// of heads; how fast heads forget, biases of steps, how much of a head's inputs goes past its state, the norm.
	MambaIn, ConvBias, MambaDecay, MambaStep Part = "mamba_in", "conv_bias", "mamba_decay", "mamba_step"
	MambaSkip, MambaNorm, MambaOut           Part = "mamba_skip", "mamba_norm", "mamba_out"

	// Of latent attention: what makes the latents of queries and of keys and values, with the part of keys that is
	// turned behind it, their norms, and what makes of them the queries, and the keys and values, of each head.
	QueryDown, QueryNorm, QueryUp    Part = "query_down", "query_norm", "query_up"
	LatentDown, LatentNorm, LatentUp Part = "latent_down", "latent_norm", "latent_up"

	// Those of one expert: checkpoints' names have its number in place of %d.
	ExpertGate, ExpertUp, ExpertDown Part = "expert_gate", "expert_up", "expert_down"
	// Those of the shared one, and what makes the score of its share.
	SharedGate, SharedUp, SharedDown, SharedScore Part = "shared_gate", "shared_up", "shared_down", "shared_score"
	// RouterChoice is added to the scores of experts to choose by, and to no share.
	RouterChoice Part = "router_choice"
	// Those of experts apart from a shared feed-forward: the norms before the router and before the experts, the norms
	// behind both sides, and what an expert's share is multiplied by, one number of each.
	RouterNorm, ExpertsNorm         Part = "router_norm", "experts_norm"
	SharedPostNorm, ExpertsPostNorm Part = "shared_post_norm", "experts_post_norm"
	ExpertScale                     Part = "expert_scale"
	// Sinks are scores of attention, one of each query head.
	Sinks Part = "sinks"

	// Names only: of tensors that hold q, k and v, or gate and up, of one feed-forward, of the shared expert or of all
	// experts.
	QKV           Part = "qkv"
	GateUp        Part = "gate_up"
	SharedGateUp  Part = "shared_gate_up"
	DeltaQKV      Part = "delta_qkv"
	ExpertsGateUp Part = "experts_gate_up"
	ExpertsDown   Part = "experts_down"

	// Names only: of the halves of LatentUp in GGUF files, [heads, Rank, KeyDim] and [heads, ValueDim, Rank].
	LatentKeys   Part = "latent_keys"
	LatentValues Part = "latent_values"

	// Names only too: of tensors that have all inputs of a delta net for one key head behind those for the last one.
	DeltaQKVGate   Part = "delta_qkv_gate"
	DeltaLearnStep Part = "delta_learn_step"
)

// IsNorm tells whether a part is the weights of a norm.
func (p Part) IsNorm() bool {
	switch p {
	case AttentionNorm, AttentionPostNorm, MLPNorm, MLPPostNorm, QNorm, KNorm, FinalNorm, LayerContextNorm,
		LayerOutNorm, QueryNorm, LatentNorm, RouterNorm, ExpertsNorm, SharedPostNorm, ExpertsPostNorm:
		return true
	}
	return false
}

// IsGate tells whether a part makes the gates of a feed-forward, behind which its ups stand.
func (p Part) IsGate() bool { return p == Gate || p == ExpertGate || p == SharedGate }

// IsRouter tells whether a part chooses among experts, or weighs one: what it makes is not to be rounded.
func (p Part) IsRouter() bool { return p == Router || p == SharedScore }

// IsWide tells whether a part is held in float32 whatever the model's dtype: vectors of layers that keep states, sinks,
// what experts are chosen by, and what their shares are multiplied by.
func (p Part) IsWide() bool {
	switch p {
	case DeltaDecay, DeltaBias, DeltaNorm, ConvBias, MambaDecay, MambaStep, MambaSkip, MambaNorm, Sinks,
		RouterChoice, ExpertScale:
		return true
	}
	return false
}

// Split is how an axis of a tensor is shared out to devices.
type Split int

// The ways: each device has all, some query heads, some with their gates behind them, some KV heads, some of the
// feed-forward, some of the vocabulary; or one has all, and the others have zeros.
const (
	Whole Split = iota
	ByQueryHeads
	ByGatedHeads
	ByKVHeads
	ByIntermediate
	ByVocabulary
	OnOne
)

// Name is what checkpoints of both kinds call a part of a layer.
type Name struct{ HF, GGUF string }

// Names are those of all parts of layers. That of FinalNorm is for GGUF files alone, of which most call it output_norm.
type Names map[Part]Name

// LlamaNames are those of most decoders.
var LlamaNames = Names{
	AttentionNorm: {"input_layernorm", "attn_norm"}, MLPNorm: {"post_attention_layernorm", "ffn_norm"},
	Q: {"self_attn.q_proj", "attn_q"}, K: {"self_attn.k_proj", "attn_k"}, V: {"self_attn.v_proj", "attn_v"},
	O: {"self_attn.o_proj", "attn_output"}, QNorm: {"self_attn.q_norm", "attn_q_norm"},
	KNorm: {"self_attn.k_norm", "attn_k_norm"},
	Gate:  {"mlp.gate_proj", "ffn_gate"}, Up: {"mlp.up_proj", "ffn_up"}, Down: {"mlp.down_proj", "ffn_down"},
	Router:     {"mlp.gate", "ffn_gate_inp"},
	ExpertGate: {"mlp.experts.%d.gate_proj", "ffn_gate_exps"}, ExpertUp: {"mlp.experts.%d.up_proj", "ffn_up_exps"},
	ExpertDown:  {"mlp.experts.%d.down_proj", "ffn_down_exps"},
	SharedGate:  {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
	SharedUp:    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
	SharedDown:  {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
	SharedScore: {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
}

// SandwichNames are those of decoders that have norms behind attention and behind the feed-forward.
var SandwichNames = LlamaNames.With(Names{
	AttentionPostNorm: {"post_attention_layernorm", "post_attention_norm"},
	MLPNorm:           {"pre_feedforward_layernorm", "ffn_norm"},
	MLPPostNorm:       {"post_feedforward_layernorm", "post_ffw_norm"},
})

// With returns the names with others added, or in their place.
func (n Names) With(others Names) Names {
	all := Names{}
	for _, names := range []Names{n, others} {
		for part, name := range names {
			all[part] = name
		}
	}
	return all
}

// Names of the weights outside the layers in Hugging Face's checkpoints.
const (
	NameEmbedding = "model.embed_tokens.weight"
	NameFinalNorm = "model.norm.weight"
	NameHead      = "lm_head.weight"

	NameFinalNormBias = "model.norm.bias" // of a LayerNorm
)

// Tensors yields every weight that the config implies, in model order.
func (c *Config) Tensors() iter.Seq[Tensor] {
	words := []int{c.VocabSize, c.HiddenSize}
	return func(yield func(Tensor) bool) {
		if !yield(Tensor{Name: NameEmbedding, GGUF: "token_embd.weight", Part: Embedding, Shape: words,
			Array: string(Embedding), Over: ByVocabulary}) {
			return
		}
		for _, t := range c.layerEmbeddings() {
			if !yield(t) {
				return
			}
		}
		for i := range c.Layers {
			for _, t := range c.layerTensors(i) {
				if t.Layer = i; !yield(t) {
					return
				}
			}
		}
		final := "output_norm"
		if name, ok := c.Names[FinalNorm]; ok {
			final = name.GGUF
		}
		if !yield(Tensor{Name: NameFinalNorm, GGUF: final + ".weight", Part: FinalNorm, Shape: []int{c.HiddenSize},
			Array: string(FinalNorm)}) {
			return
		}
		if c.Norm.Layer && !yield(Tensor{Name: NameFinalNormBias, GGUF: final + ".bias", Part: NormBias,
			Shape: []int{c.HiddenSize}, Array: string(FinalNorm) + biasSuffix}) {
			return
		}
		if !c.TieEmbeddings {
			yield(Tensor{Name: NameHead, GGUF: "output.weight", Part: Head, Shape: words, Array: string(Head),
				Over: ByVocabulary})
		}
	}
}

func (c *Config) layerTensors(number int) []Tensor {
	l := layerList{c: c, number: number, names: c.tensorNames()}
	layer := c.Layers[number]
	l.norm(layer.AttentionNorm.Before, AttentionNorm, Whole, c.HiddenSize)
	switch layer.Mixer {
	case ShortConv:
		l.outputs(ConvIn, string(ConvIn), Whole, 3*c.HiddenSize, false)
		l.add(ConvTaps, string(ConvTaps)+".weight", ".weight", 0, Whole, c.HiddenSize, layer.Taps)
		l.outputs(ConvOut, string(ConvOut), Whole, c.HiddenSize, false)
	case Delta:
		l.list = append(l.list, c.deltaTensors(number, l.names)...)
	case Mamba:
		l.list = append(l.list, c.mambaTensors(number, l.names)...)
	default:
		l.attention()
	}
	l.norm(layer.AttentionNorm.After, AttentionPostNorm, Whole, c.HiddenSize)
	l.norm(layer.MLPNorm.Before, MLPNorm, Whole, c.HiddenSize)
	if layer.Experts.Count > 0 {
		l.list = append(l.list, c.expertTensors(number, l.names)...)
		l.sides(layer.Experts)
	} else {
		up, size := "up", c.OfLayer(number).IntermediateSize
		if layer.Gated {
			up = "gate_up"
			l.outputs(Gate, up, ByIntermediate, size, layer.MLPBias)
		}
		l.outputs(Up, up, ByIntermediate, size, layer.MLPBias)
		l.inputs(Down, ByIntermediate, size, layer.MLPBias)
	}
	l.norm(layer.MLPNorm.After, MLPPostNorm, Whole, c.HiddenSize)
	l.list = append(l.list, c.layerEnd(number, l.names)...)
	within(l.list, l.names, number, max(layer.Delta.KeyHeads, 1))
	return l.list
}

// tensorNames are what the tensors of layers are called.
func (c *Config) tensorNames() Names {
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
func (l *layerList) norm(is bool, part Part, over Split, size int) {
	if is {
		l.add(part, string(part), ".weight", 0, over, size)
	}
	if is && l.c.Norm.Layer {
		l.add(part, string(part)+biasSuffix, biasSuffix, 0, over, size)
		l.list[len(l.list)-1].Part = NormBias
	}
}

// outputs adds a matrix of which devices have outputs each.
func (l *layerList) outputs(part Part, array string, over Split, out int, bias bool) {
	l.add(part, array+".weight", ".weight", 0, over, out, l.c.HiddenSize)
	if bias {
		l.add(part, array+biasSuffix, biasSuffix, 0, over, out)
	}
}

// inputs adds a matrix of which devices have inputs each. Its bias is added to the sum of what they have.
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
	layer, sizes, keys := l.c.Layers[l.number], l.c.OfLayer(l.number), l.c.keyParts(l.number)
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

// layerEnd are the tensors behind a layer's feed-forward. Each device has all of them.
func (c *Config) layerEnd(number int, names Names) (list []Tensor) {
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
func (c *Config) keyParts(number int) []Part {
	switch {
	case !c.Owns(number):
		return nil
	case c.Layers[number].KeysAreValues:
		return []Part{K}
	}
	return []Part{K, V}
}

// layerEmbeddings are the tensors that make what tokens have for each layer.
func (c *Config) layerEmbeddings() []Tensor {
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

// within says which tensors of a layer checkpoints have in another one.
func within(list []Tensor, names Names, number, keyHeads int) {
	for _, of := range []struct {
		whole Part
		parts []Part
		heads int
	}{{QKV, []Part{Q, K, V}, 1}, {GateUp, []Part{Gate, Up}, 1}, {SharedGateUp, []Part{SharedGate, SharedUp}, 1},
		{DeltaQKV, []Part{DeltaQ, DeltaK, DeltaV}, 1},
		{DeltaQKVGate, []Part{DeltaQ, DeltaK, DeltaV, DeltaGate}, keyHeads},
		{DeltaLearnStep, []Part{DeltaLearn, DeltaStep}, keyHeads}} {
		name, ok := names[of.whole]
		if !ok {
			continue
		}
		for _, suffix := range []string{".weight", biasSuffix} {
			w := Within{Name: fmt.Sprintf("model.layers.%d.%s%s", number, name.HF, suffix), Heads: of.heads}
			if name.GGUF != "" {
				w.GGUF = fmt.Sprintf("blk.%d.%s%s", number, name.GGUF, suffix)
			}
			var found []int
			for i, t := range list {
				if slices.Contains(of.parts, t.Part) && strings.HasSuffix(t.Name, suffix) {
					found = append(found, i)
					w.Rows += t.Shape[0]
				}
			}
			for _, i := range found {
				one := w
				list[i].Within = &one
				w.First += list[i].Shape[0] / of.heads
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
