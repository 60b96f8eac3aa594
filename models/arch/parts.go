package arch

// Tensor is a weight of a model: its name in checkpoints, its shape, and the array of the device that it is part of.
type Tensor struct {
	Name  string // in Hugging Face's checkpoints
	GGUF  string // in GGUF files
	Part  Part
	Layer int   // the number of its layer; 0 outside of layers
	Shape []int // outermost first; linear weights are [out, in]
	// Experts is 0, or how many tensors the one of a GGUF file is made of, and Expert which of them this one is.
	Expert, Experts int

	// Array names the array that it is in. Tensors of the same array stand one after the other, by their first axis.
	Array string
	// Within is the tensor that checkpoints have it in, from row First on of Rows; nil: one of its own.
	Within *Within
	// Fused is the tensor of all experts that a checkpoint has it in, in addition to the tensor of Experts; nil: none.
	Fused *FusedIn
	// Axis is split over the devices that run the model together, in the way that Over gives.
	Axis int
	Over Split
}

// Within is a tensor that holds several, one after the other by rows.
type Within struct {
	Name        string // in Hugging Face's checkpoints
	GGUF        string // in GGUF files; "": they have a tensor for each
	First, Rows int
	// Heads is the number of runs of its rows, all of one length: each run starts Rows/Heads after the previous one. 0
	// means 1.
	Heads int
}

// Row returns the position of a tensor's row, of rows in all.
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
	ConvIn            Part = "conv_in"   // of a short convolution: the gates before and after it, and what it reads
	ConvTaps          Part = "conv_taps" // [channels, taps], the last one for the token itself
	ConvOut           Part = "conv_out"
	// Embeddings of positions and of kinds of tokens, the norm of their sum, and biases of scores by distance.
	Positions, Types       Part = "positions", "types"
	EmbeddingNorm, Buckets Part = "embed_norm", "buckets"
	DensePart              Part = "dense" // a layer after the pooling
	DenseNorm              Part = "dense_norm"
	LayerScale             Part = "scale" // the number that hidden states are multiplied by

	// Embeddings for each layer: the embeddings of tokens, their projection from hidden states, and its norm; in a
	// layer the gate, the output projection, and its norm.
	LayerEmbedding   Part = "layer_embed"
	LayerContext     Part = "layer_context"
	LayerContextNorm Part = "layer_context_norm"
	LayerGate        Part = "layer_gate"
	LayerOut         Part = "layer_out"
	LayerOutNorm     Part = "layer_out_norm"

	// The parts of a gated delta net, whose convolution has ConvTaps: projections to queries, keys and values, to
	// gates, to learning rates of heads, and to their steps.
	DeltaQ, DeltaK, DeltaV                     Part = "delta_q", "delta_k", "delta_v"
	DeltaGate, DeltaLearn, DeltaStep           Part = "delta_gate", "delta_learn", "delta_step"
	DeltaDecay, DeltaBias, DeltaNorm, DeltaOut Part = "delta_decay", "delta_bias", "delta_norm", "delta_out"

	// The parts of a Mamba-2 layer, whose convolution has ConvTaps and ConvBias: the projection to gates, to the input
	// of the convolution, and to steps of heads; how fast heads forget, biases of steps, how much of a head's inputs
	// bypasses its state, the norm.
	MambaIn, ConvBias, MambaDecay, MambaStep Part = "mamba_in", "conv_bias", "mamba_decay", "mamba_step"
	MambaSkip, MambaNorm, MambaOut           Part = "mamba_skip", "mamba_norm", "mamba_out"

	// Latent attention: the projections to the latents of queries and of keys and values (followed by the part of keys
	// that is rotated), their norms, and the projections from the latents to the queries, keys and values of each head.
	QueryDown, QueryNorm, QueryUp    Part = "query_down", "query_norm", "query_up"
	LatentDown, LatentNorm, LatentUp Part = "latent_down", "latent_norm", "latent_up"

	// The parts of one expert: checkpoints' names have its number in place of %d.
	ExpertGate, ExpertUp, ExpertDown Part = "expert_gate", "expert_up", "expert_down"
	// The parts of the shared expert, and the projection to the score of its share.
	SharedGate, SharedUp, SharedDown, SharedScore Part = "shared_gate", "shared_up", "shared_down", "shared_score"
	// RouterChoice is added to the scores of experts to choose by, and to no share.
	RouterChoice Part = "router_choice"
	// Experts apart from a shared feed-forward: the norms before the router and before the experts, the norms after
	// both sides, and what an expert's share is multiplied by, one number of each.
	RouterNorm, ExpertsNorm         Part = "router_norm", "experts_norm"
	SharedPostNorm, ExpertsPostNorm Part = "shared_post_norm", "experts_post_norm"
	ExpertScale                     Part = "expert_scale"
	// Sinks are scores of attention, one of each query head.
	Sinks Part = "sinks"

	// Names only: of tensors that hold q, k and v, or gate and up, of one feed-forward, of the shared expert or of all
	// experts.
	QKV           Part = "qkv"
	GateUp        Part = "gate_up"
	UpGate        Part = "up_gate"
	SharedGateUp  Part = "shared_gate_up"
	DeltaQKV      Part = "delta_qkv"
	ExpertsGateUp Part = "experts_gate_up"
	ExpertsDown   Part = "experts_down"

	// Names only: of the halves of LatentUp in GGUF files, [heads, Rank, KeyDim] and [heads, ValueDim, Rank].
	LatentKeys   Part = "latent_keys"
	LatentValues Part = "latent_values"

	// Also names only, for tensors that have all inputs of a delta net for one key head after the inputs for the
	// previous one.
	DeltaQKVGate   Part = "delta_qkv_gate"
	DeltaLearnStep Part = "delta_learn_step"
)

// IsNorm reports whether a part is the weights of a norm.
func (p Part) IsNorm() bool {
	switch p {
	case AttentionNorm, AttentionPostNorm, MLPNorm, MLPPostNorm, QNorm, KNorm, FinalNorm, LayerContextNorm,
		LayerOutNorm, EmbeddingNorm, QueryNorm, LatentNorm, RouterNorm, ExpertsNorm, SharedPostNorm, ExpertsPostNorm,
		DenseNorm:
		return true
	}
	return false
}

// IsGate reports whether a part computes the gates of a feed-forward, which its ups follow.
func (p Part) IsGate() bool { return p == Gate || p == ExpertGate || p == SharedGate }

// IsRouter reports whether a part chooses among experts, or weighs one: its output must not be rounded.
func (p Part) IsRouter() bool { return p == Router || p == SharedScore }

// IsOfEncoder reports whether a part is a matrix that is used once, before or after the layers of an encoder.
func (p Part) IsOfEncoder() bool {
	return p == Positions || p == Types || p == Buckets || p == DensePart
}

// IsWide reports whether a part is held in float32 for all dtypes of the model: vectors of layers that keep states,
// sinks, the addends of scores that experts are chosen by, and the factors of their shares.
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

// The ways: each device has all, some query heads, some with their gates after them, some KV heads, some of the
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

// Names has the names of all parts of layers. The name of FinalNorm is for GGUF files alone; most of them call it
// output_norm.
type Names map[Part]Name

// LlamaNames are the names of most decoders.
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

// SandwichNames are the names of decoders that have norms after attention and after the feed-forward.
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

	NameFinalNormBias = "model.norm.bias" // bias of a LayerNorm
)
