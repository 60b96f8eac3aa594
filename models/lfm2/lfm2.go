// Package lfm2 provides the decoders of LFM2: short convolutions in most layers, and attention with norms of queries
// and keys in the others. Its mixtures also have experts.
package lfm2

import (
	"errors"
	"fmt"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/arch"
)

// Decoder is Lfm2ForCausalLM.
var Decoder = arch.Decoder{
	Class: "Lfm2ForCausalLM", ModelType: "lfm2",
	GGUF: arch.GGUF{Architecture: "lfm2", Keys: []string{"shortconv.l_cache"}},
	Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 128000, Theta: 1e6, Tie: true, BOS: 1, EOS: []int32{2},
		Sizes: map[string]int{"vocab_size": 65536, "hidden_size": 2560, "intermediate_size": 12288,
			"num_hidden_layers": 32, "num_attention_heads": 32}},
	Names:  names,
	Stored: stored,
	JSON:   readJSON, Metadata: readMetadata,
}

// Mixture is Lfm2MoeForCausalLM.
var Mixture = arch.Decoder{
	Class: "Lfm2MoeForCausalLM", ModelType: "lfm2_moe",
	GGUF: arch.GGUF{Architecture: "lfm2moe", Experts: true,
		Keys: []string{"shortconv.l_cache", "leading_dense_block_count", "expert_gating_func"}},
	Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 128000, Theta: 1e6, Tie: true, BOS: 1, EOS: []int32{2},
		Sizes: map[string]int{"vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 7168,
			"num_hidden_layers": 32, "num_attention_heads": 32, "moe_intermediate_size": 1792, "num_experts": 32,
			"num_experts_per_tok": 4, "num_dense_layers": 2}},
	Names: names.With(arch.Names{
		arch.Router:       {HF: "feed_forward.gate", GGUF: "ffn_gate_inp"},
		arch.RouterChoice: {HF: "feed_forward.expert_bias", GGUF: "exp_probs_b.bias"},
		arch.ExpertGate:   {HF: "feed_forward.experts.%d.w1", GGUF: "ffn_gate_exps"},
		arch.ExpertUp:     {HF: "feed_forward.experts.%d.w3", GGUF: "ffn_up_exps"},
		arch.ExpertDown:   {HF: "feed_forward.experts.%d.w2", GGUF: "ffn_down_exps"},
	}),
	Stored: stored,
	JSON:   readMixture, Metadata: mixtureOfGGUF,
}

var (
	stored = arch.Stored{Renamed: map[string]string{"model.embedding_norm.": "model.norm."}}
	names  = arch.Names{
		arch.AttentionNorm: {HF: "operator_norm", GGUF: "attn_norm"}, arch.MLPNorm: {HF: "ffn_norm", GGUF: "ffn_norm"},
		arch.Q: {HF: "self_attn.q_proj", GGUF: "attn_q"}, arch.K: {HF: "self_attn.k_proj", GGUF: "attn_k"},
		arch.V: {HF: "self_attn.v_proj", GGUF: "attn_v"}, arch.O: {HF: "self_attn.out_proj", GGUF: "attn_output"},
		arch.QNorm:    {HF: "self_attn.q_layernorm", GGUF: "attn_q_norm"},
		arch.KNorm:    {HF: "self_attn.k_layernorm", GGUF: "attn_k_norm"},
		arch.ConvIn:   {HF: "conv.in_proj", GGUF: "shortconv.in_proj"},
		arch.ConvTaps: {HF: "conv.conv", GGUF: "shortconv.conv"},
		arch.ConvOut:  {HF: "conv.out_proj", GGUF: "shortconv.out_proj"},
		arch.Gate:     {HF: "feed_forward.w1", GGUF: "ffn_gate"}, arch.Up: {HF: "feed_forward.w3", GGUF: "ffn_up"},
		arch.Down: {HF: "feed_forward.w2", GGUF: "ffn_down"}, arch.FinalNorm: {GGUF: "token_embd_norm"},
	}
)

func readJSON(j *arch.JSON, c *arch.Config) error {
	width(j, c)
	return readBoth(j, c)
}

func readMixture(j *arch.JSON, c *arch.Config) error {
	if err := readBoth(j, c); err != nil {
		return err
	}
	e := arch.Experts{Count: j.Int("num_experts", 0), Chosen: j.Int("num_experts_per_tok", 0),
		Size: j.Int("moe_intermediate_size", 0), Scale: j.Float("routed_scaling_factor", 1), Sigmoid: true,
		Choice: j.Bool("use_expert_bias", true), Renormalize: j.Bool("norm_topk_prob", true), SumEps: sumEps}
	for i := j.Int("num_dense_layers", 0); i < c.NumLayers; i++ {
		c.Layers[i].Experts = e
	}
	return nil
}

// readBoth reads the keys that configs with and without experts share.
func readBoth(j *arch.JSON, c *arch.Config) error {
	if err := j.Refuse(c, "conv_bias"); err != nil {
		return err
	}
	c.RMSNormEps = j.Float("norm_eps", 1e-5)
	c.TieEmbeddings = j.Bool("tie_embedding", c.TieEmbeddings)
	attends, err := attending(j, c)
	if err != nil {
		return err
	}
	setLayers(c, attends, j.Int("conv_L_cache", 3))
	return nil
}

// readMetadata reads a GGUF file, in which layers with a convolution have 0 KV heads.
func readMetadata(m *arch.Metadata, c *arch.Config) error {
	kvHeads, err := m.IntsOfLayers(c, "attention.head_count_kv", c.NumKVHeads)
	if err != nil {
		return err
	}
	attends := make([]bool, c.NumLayers)
	for i, n := range kvHeads {
		attends[i] = n > 0
	}
	setLayers(c, attends, m.Int("shortconv.l_cache", 3))
	return nil
}

// sumEps is added to the sum of shares.
const sumEps = 1e-6

// mixtureOfGGUF reads a GGUF file of a mixture. The format has no keys for norm_topk_prob, which is true, and
// routed_scaling_factor, which is 1.
func mixtureOfGGUF(m *arch.Metadata, c *arch.Config) error {
	if err := readMetadata(m, c); err != nil {
		return err
	}
	return errors.Join(m.OnlySigmoids(c), m.RoutedExperts(c, arch.Experts{Sigmoid: true, Renormalize: true,
		SumEps: sumEps}))
}

func setLayers(c *arch.Config, attends []bool, taps int) {
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKNorm = arch.EachHead
		if !attends[i] {
			l.Mixer, l.Taps, l.QKNorm, l.Rope = arch.ShortConv, taps, arch.NoNorm, arch.NoRope
		}
	}
}

// width computes the width of the feed-forward. The config has the width before it is reduced.
func width(j *arch.JSON, c *arch.Config) {
	c.IntermediateSize = j.Int("block_ff_dim", c.IntermediateSize)
	if !j.Bool("block_auto_adjust_ff_dim", true) {
		return
	}
	c.IntermediateSize = 2 * c.IntermediateSize / 3
	c.IntermediateSize = int(j.Float("block_ffn_dim_multiplier", 1) * float64(c.IntermediateSize))
	if multiple := j.Int("block_multiple_of", 256); multiple > 0 {
		c.IntermediateSize = (c.IntermediateSize + multiple - 1) / multiple * multiple
	}
}

// attending returns which layers attend: the ones that layer_types or full_attn_idxs name, or all if neither exists.
func attending(j *arch.JSON, c *arch.Config) ([]bool, error) {
	list := make([]bool, c.NumLayers)
	var types []string
	if j.Decode("layer_types", &types); types != nil {
		if len(types) != c.NumLayers {
			return nil, fmt.Errorf("layer_types has %s for %s", plural.Count(len(types), "entry"),
				plural.Count(c.NumLayers, "layer"))
		}
		for i, t := range types {
			if t != "full_attention" && t != "conv" {
				return nil, arch.Unsupported("full_attention and conv are", "layer type %q", t)
			}
			list[i] = t == "full_attention"
		}
		return list, nil
	}
	var layers []int
	j.Decode("full_attn_idxs", &layers)
	for i := range list {
		list[i] = layers == nil
	}
	for _, i := range layers {
		if i < 0 || i >= c.NumLayers {
			return nil, fmt.Errorf("full_attn_idxs names layer %d of %s", i, plural.Count(c.NumLayers, "layer"))
		}
		list[i] = true
	}
	return list, nil
}
