// Package qwen35 provides the decoders of Qwen3.5, 3.6 and Qwen3-Next: gated delta nets in three of four layers,
// attention with gated heads in the others, and one feed-forward or a mixture with a shared expert.
package qwen35

import (
	"fmt"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// Decoders are Qwen3.5, alone and as the text part of models that also read pictures, and Qwen3-Next.
var Decoders = []arch.Decoder{
	decoder(dense, arch.Decoder{Class: "Qwen3_5ForCausalLM", ModelType: "qwen3_5_text",
		GGUF: arch.GGUF{Architecture: "qwen35"}}),
	decoder(dense, arch.Decoder{Class: "Qwen3_5ForConditionalGeneration", ModelType: "qwen3_5", Text: "text_config"}),
	decoder(mixture, arch.Decoder{Class: "Qwen3_5MoeForCausalLM", ModelType: "qwen3_5_moe_text",
		GGUF: arch.GGUF{Architecture: "qwen35moe", Experts: true}}),
	decoder(mixture, arch.Decoder{Class: "Qwen3_5MoeForConditionalGeneration", ModelType: "qwen3_5_moe",
		Text: "text_config"}),
	decoder(next, arch.Decoder{Class: "Qwen3NextForCausalLM", ModelType: "qwen3_next",
		GGUF: arch.GGUF{Architecture: "qwen3next", Experts: true}}),
}

// kind has what differs between the classes.
type kind struct {
	kvHeads int
	sizes   map[string]int
	names   arch.Names
	experts *arch.Experts // the defaults of a mixture's config
	// the config states which layers have experts, and whether shares are renormalized over the chosen ones
	sparse bool
	byHead bool // a matrix has the inputs of delta nets key head by key head
}

var (
	dense = kind{kvHeads: 4, names: inputs, sizes: map[string]int{"vocab_size": 248320, "hidden_size": 4096,
		"intermediate_size": 12288, "num_hidden_layers": 32, "num_attention_heads": 16}}
	// No layer has a feed-forward of intermediate_size.
	mixture = kind{kvHeads: 2, names: inputs, sizes: map[string]int{"vocab_size": 248320, "hidden_size": 2048,
		"intermediate_size": 512, "num_hidden_layers": 40, "num_attention_heads": 16},
		experts: &arch.Experts{Count: 256, Chosen: 8}}
	next = kind{kvHeads: 2, names: inputsByHead, sparse: true, byHead: true, sizes: map[string]int{"vocab_size": 151936,
		"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 48, "num_attention_heads": 16},
		experts: &arch.Experts{Count: 512, Chosen: 10}}
)

// The matrices that make the inputs of a delta net: one for each kind of input, or two that have all kinds for each
// key head.
var (
	inputs = arch.Names{
		arch.DeltaQKV:   {HF: "linear_attn.in_proj_qkv", GGUF: "attn_qkv"},
		arch.DeltaGate:  {HF: "linear_attn.in_proj_z", GGUF: "attn_gate"},
		arch.DeltaLearn: {HF: "linear_attn.in_proj_b", GGUF: "ssm_beta"},
		arch.DeltaStep:  {HF: "linear_attn.in_proj_a", GGUF: "ssm_alpha"},
	}
	inputsByHead = arch.Names{
		arch.DeltaQKVGate:   {HF: "linear_attn.in_proj_qkvz", GGUF: "ssm_in"},
		arch.DeltaLearnStep: {HF: "linear_attn.in_proj_ba", GGUF: "ssm_ba"},
		// The names of their parts after splitting.
		arch.DeltaGate:  {HF: "linear_attn.z", GGUF: "attn_gate"},
		arch.DeltaLearn: {HF: "linear_attn.b"}, arch.DeltaStep: {HF: "linear_attn.a"},
	}
)

func decoder(k kind, d arch.Decoder) arch.Decoder {
	d.Stored = arch.Stored{Renamed: map[string]string{"model.language_model.": "model."},
		Unused: []string{"mtp.", "model.visual."}}
	d.Defaults = arch.Defaults{KVHeads: k.kvHeads, MaxPositions: 32768, HeadDim: 256, Theta: 1e4, Partial: 0.25,
		BOS: -1, Sizes: k.sizes}
	d.Names = arch.LlamaNames.With(arch.Names{
		arch.DeltaQ: {HF: "linear_attn.q"}, arch.DeltaK: {HF: "linear_attn.k"}, arch.DeltaV: {HF: "linear_attn.v"},
		arch.MLPNorm:       {HF: "post_attention_layernorm", GGUF: "post_attention_norm"},
		arch.ConvTaps:      {HF: "linear_attn.conv1d", GGUF: "ssm_conv1d"},
		arch.DeltaDecay:    {HF: "linear_attn.A_log", GGUF: "ssm_a"},
		arch.DeltaBias:     {HF: "linear_attn.dt_bias", GGUF: "ssm_dt.bias"},
		arch.DeltaNorm:     {HF: "linear_attn.norm", GGUF: "ssm_norm"},
		arch.DeltaOut:      {HF: "linear_attn.out_proj", GGUF: "ssm_out"},
		arch.ExpertsGateUp: {HF: "mlp.experts.gate_up_proj"}, arch.ExpertsDown: {HF: "mlp.experts.down_proj"},
	}).With(k.names)
	d.Norm = arch.Norm{Wide: true, Offset: 1}
	d.JSON = k.readJSON
	if d.GGUF.Architecture != "" {
		d.GGUF.Keys, d.GGUF.OffsetNorms = keysOfGGUF, true
		d.Metadata = k.readMetadata
	}
	return d
}

// The types of layers.
const (
	fullAttention   = "full_attention"
	linearAttention = "linear_attention"
)

func (k kind) readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	if err := j.Refuse(c, "attention_bias"); err != nil {
		return err
	}
	types, err := layerTypes(j, c)
	if err != nil {
		return err
	}
	net := arch.DeltaNet{KeyHeads: j.Int("linear_num_key_heads", 16), ValueHeads: j.Int("linear_num_value_heads", 32),
		KeyDim: j.Int("linear_key_head_dim", 128), ValueDim: j.Int("linear_value_head_dim", 128)}
	taps := j.Int("linear_conv_kernel_dim", 4)
	for i := range c.Layers {
		l := &c.Layers[i]
		switch types[i] {
		case fullAttention:
			l.QKNorm, l.Gate = arch.EachHead, true
		case linearAttention:
			l.Mixer, l.Delta, l.Taps, l.Rope = arch.Delta, net, taps, arch.NoRope
		default:
			return arch.Unsupported(fullAttention+" and "+linearAttention+" are", "layer type %q", types[i])
		}
	}
	k.readExperts(j, c)
	return nil
}

func (k kind) readExperts(j *arch.JSON, c *arch.Config) {
	if k.experts == nil {
		return
	}
	e := arch.Experts{Count: j.Int("num_experts", k.experts.Count),
		Chosen: j.Int("num_experts_per_tok", k.experts.Chosen), Size: j.Int("moe_intermediate_size", 512),
		Shared:      j.Int("shared_expert_intermediate_size", 512),
		Renormalize: true, SharedGate: true, Fused: arch.FusedHalves}
	if k.sparse {
		e.Renormalize = j.Bool("norm_topk_prob", true)
		j.SparseExperts(c, e)
		return
	}
	for i := range c.Layers {
		c.Layers[i].Experts = e
	}
}

// layerTypes reads layer_types. Without it, the last layer of each so many attends.
func layerTypes(j *arch.JSON, c *arch.Config) (types []string, err error) {
	if j.Decode("layer_types", &types); types != nil {
		if len(types) != c.NumLayers {
			return nil, fmt.Errorf("layer_types has %s for %s", plural.Count(len(types), "entry"),
				plural.Count(c.NumLayers, "layer"))
		}
		return types, nil
	}
	for _, linear := range arch.AllButEvery(j.Int("full_attention_interval", 4), c.NumLayers) {
		kind := fullAttention
		if linear {
			kind = linearAttention
		}
		types = append(types, kind)
	}
	return types, nil
}
