// Package deepseek provides the decoders of DeepSeek V2 and V3, and of models in their form: latent attention and,
// after the first layers, experts in groups with shared ones.
package deepseek

import (
	"fmt"
	"maps"
	"math"

	"github.com/quire/quire/models/arch"
)

// Decoders are V2 and V3, whose routers differ.
var Decoders = []arch.Decoder{
	decoder(v2, arch.Decoder{Class: classV2, ModelType: modelTypeV2,
		Defaults: arch.Defaults{MaxPositions: 2048, BOS: 1, EOS: []int32{2}}}),
	decoder(v3, arch.Decoder{Class: "DeepseekV3ForCausalLM", ModelType: "deepseek_v3",
		GGUF:     ofGGUF,
		Metadata: readMetadata,
		Defaults: arch.Defaults{MaxPositions: 4096, BOS: 0, EOS: []int32{1}}}),
}

// The class names of V2.
const (
	classV2     = "DeepseekV2ForCausalLM"
	modelTypeV2 = "deepseek_v2"
)

// version has what differs between the classes: default sizes, and the router.
type version struct {
	sizes map[string]int
	scale float64 // factor of the shares
	// grouped reads how experts are chosen.
	grouped func(j *arch.JSON, e *arch.Experts) error
}

var (
	v2 = version{grouped: byShares, scale: 1, sizes: map[string]int{"vocab_size": 102400, "hidden_size": 4096,
		"intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32, "n_shared_experts": 2,
		"n_routed_experts": 64, "moe_intermediate_size": 1407}}
	v3 = version{grouped: byChoice, scale: 2.5, sizes: map[string]int{"vocab_size": 129280, "hidden_size": 7168,
		"intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 128, "n_shared_experts": 1,
		"n_routed_experts": 256, "moe_intermediate_size": 2048, "num_experts_per_tok": 8, "first_k_dense_replace": 3}}
	// The defaults of both versions.
	sizes = map[string]int{"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
)

// latentEps is the epsilon of the norms of latents, regardless of rms_norm_eps.
const latentEps = 1e-6

func decoder(v version, d arch.Decoder) arch.Decoder {
	d.Defaults.Sizes = maps.Clone(sizes)
	maps.Copy(d.Defaults.Sizes, v.sizes)
	d.Defaults.HeadDim, d.Defaults.Theta = sizes["qk_rope_head_dim"], 1e4
	d.Names = arch.LlamaNames.With(arch.ChosenExpertNames).With(arch.Names{
		arch.QueryDown:    {HF: "self_attn.q_a_proj", GGUF: "attn_q_a"},
		arch.QueryNorm:    {HF: "self_attn.q_a_layernorm", GGUF: "attn_q_a_norm"},
		arch.QueryUp:      {HF: "self_attn.q_b_proj", GGUF: "attn_q_b"},
		arch.LatentDown:   {HF: "self_attn.kv_a_proj_with_mqa", GGUF: "attn_kv_a_mqa"},
		arch.LatentNorm:   {HF: "self_attn.kv_a_layernorm", GGUF: "attn_kv_a_norm"},
		arch.LatentUp:     {HF: "self_attn.kv_b_proj", GGUF: "attn_kv_b"},
		arch.LatentKeys:   {GGUF: "attn_k_b"},
		arch.LatentValues: {GGUF: "attn_v_b"},
	})
	d.JSON = v.readJSON
	return d
}

func (v version) readJSON(j *arch.JSON, c *arch.Config) error {
	if err := j.Require("hidden_act", "silu"); err != nil {
		return err
	}
	if n := j.Int("num_key_value_heads", c.NumHeads); n != c.NumHeads {
		return arch.Unsupported("as many as num_attention_heads are", "num_key_value_heads %d in a %s", n,
			c.Architecture)
	}
	m := arch.Latent{Rank: j.Int("kv_lora_rank", 0), QueryRank: int(j.FloatOrNull("q_lora_rank", 1536)),
		KeyDim: j.Int("qk_nope_head_dim", 0), RopeDim: j.Int("qk_rope_head_dim", 0),
		ValueDim: j.Int("v_head_dim", 0), Interleaved: j.Bool("rope_interleave", true), Eps: latentEps}
	bias := j.Bool("attention_bias", false)
	if bias && m.QueryRank == 0 {
		return arch.Unsupported("", "attention_bias without q_lora_rank in a %s", c.Architecture)
	}
	setLayers(c, m, bias)
	experts, err := v.experts(j)
	if err != nil {
		return err
	}
	dense := j.Int("first_k_dense_replace", 0)
	for i := range c.Layers {
		if i >= dense && experts.Count > 0 {
			c.Layers[i].Experts = experts
		}
	}
	// These layers predict more than one token and are not used.
	for i := range j.Int("num_nextn_predict_layers", 1) {
		c.Stored.Unused = append(c.Stored.Unused, fmt.Sprintf("model.layers.%d.", c.NumLayers+i))
	}
	return nil
}

// setLayers gives all layers latent attention. Call it after the scaling of the rotary embedding was read.
func setLayers(c *arch.Config, m arch.Latent, bias bool) {
	c.HeadDim, c.NumKVHeads, c.Ropes[arch.FullRope].Dims = m.Width(), 1, m.RopeDim
	for i := range c.Layers {
		l := &c.Layers[i]
		l.Latent, l.QKVBias, l.OBias = m, bias, bias
		l.Scale = c.Ropes[arch.FullRope].Scaling.ScoreScale() / math.Sqrt(float64(m.QueryDim()))
	}
}

func (v version) experts(j *arch.JSON) (e arch.Experts, err error) {
	e = arch.Experts{Count: j.Int("n_routed_experts", 0), Chosen: j.Int("num_experts_per_tok", 0),
		Size: j.Int("moe_intermediate_size", 0), Scale: j.Float("routed_scaling_factor", v.scale)}
	e.Shared = e.Size * j.Int("n_shared_experts", 0)
	if n := j.Int("moe_layer_freq", 1); n != 1 {
		return e, arch.Unsupported("1 is", "moe_layer_freq %d", n)
	}
	if j.Bool("mlp_bias", false) {
		return e, arch.Unsupported("", "mlp_bias with latent attention")
	}
	return e, v.grouped(j, &e)
}

// byShares is V2's router: it chooses the largest shares of all experts, or of the experts of some groups.
func byShares(j *arch.JSON, e *arch.Experts) error {
	if err := j.Require("scoring_func", "softmax"); err != nil {
		return err
	}
	if j.Bool("norm_topk_prob", false) { // transformers ignores the key, DeepSeek's own code does not
		return arch.Unsupported("", "norm_topk_prob in a DeepseekV2ForCausalLM")
	}
	switch method := j.String("topk_method", "greedy"); method {
	case "greedy":
	case "group_limited_greedy":
		e.Groups, e.ChosenGroups = j.Int("n_group", 1), j.Int("topk_group", 1)
	default:
		return arch.Unsupported("greedy and group_limited_greedy are", "topk_method %q", method)
	}
	return nil
}

// byChoice is V3's router: shares are sigmoids, and experts are chosen by the share plus a number for each expert.
func byChoice(j *arch.JSON, e *arch.Experts) error {
	if err := j.Require("scoring_func", "sigmoid"); err != nil {
		return err
	}
	e.Sigmoid, e.Choice, e.Renormalize, e.SumEps = true, true, j.Bool("norm_topk_prob", true), arch.ChosenSumEps
	e.Groups, e.ChosenGroups = j.Int("n_group", 8), j.Int("topk_group", 4)
	return j.Require("topk_method", "noaux_tc")
}
