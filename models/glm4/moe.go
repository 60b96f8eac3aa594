package glm4

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/models/arch"
)

// Mixture is Glm4MoeForCausalLM, GLM-4.5 to 4.7: a rotation of half of each head and, after the first layers, experts
// that are chosen as in DeepSeek V3, with a shared one.
var Mixture = arch.Decoder{
	Class: "Glm4MoeForCausalLM", ModelType: "glm4_moe",
	GGUF: arch.GGUF{Architecture: "glm4moe", Experts: true,
		Keys: slices.Concat(arch.RouterKeys, []string{"nextn_predict_layers"})},
	Defaults: arch.Defaults{KVHeads: 8, MaxPositions: 131072, Eps: 1e-5, Theta: 1e4, Partial: 0.5, BOS: -1,
		Sizes: map[string]int{"vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
			"num_hidden_layers": 46, "num_attention_heads": 96, "moe_intermediate_size": 1408, "num_experts_per_tok": 8,
			"n_shared_experts": 1, "n_routed_experts": 128, "first_k_dense_replace": 1}},
	Names: arch.LlamaNames.With(arch.ChosenExpertNames).With(arch.Names{
		arch.MLPNorm: {HF: "post_attention_layernorm", GGUF: "post_attention_norm"},
	}),
	JSON: readMixture, Metadata: mixtureOfGGUF,
}

func readMixture(j *arch.JSON, c *arch.Config) error {
	e := arch.Experts{Count: j.Int("n_routed_experts", 0), Chosen: j.Int("num_experts_per_tok", 0),
		Size: j.Int("moe_intermediate_size", 0), Scale: j.Float("routed_scaling_factor", 1), Sigmoid: true,
		Choice: true, Renormalize: j.Bool("norm_topk_prob", true), SumEps: arch.ChosenSumEps,
		Groups: j.Int("n_group", 1), ChosenGroups: j.Int("topk_group", 1)}
	e.Shared = e.Size * j.Int("n_shared_experts", 0)
	bias, dense := j.Bool("attention_bias", false), j.Int("first_k_dense_replace", 0)
	for i := range c.Layers {
		l := &c.Layers[i]
		l.QKVBias = bias
		if j.Bool("use_qk_norm", false) {
			l.QKNorm = arch.EachHead
		}
		if i >= dense {
			l.Experts = e
		}
	}
	// These layers predict more than one token and are not used.
	for i := range j.Int("num_nextn_predict_layers", 1) {
		c.Stored.Unused = append(c.Stored.Unused, fmt.Sprintf("model.layers.%d.", c.NumLayers+i))
	}
	return j.Require("hidden_act", "silu")
}

// mixtureOfGGUF reads a GGUF file. Its tensors show whether layers have biases and norms of queries and keys.
func mixtureOfGGUF(m *arch.Metadata, c *arch.Config) error {
	if err := m.WithoutPredictors(c); err != nil {
		return err
	}
	for i := range c.Layers {
		l, has := &c.Layers[i], func(name string) bool { return m.HasTensor(fmt.Sprintf("blk.%d.%s", i, name)) }
		l.QKVBias = has("attn_q.bias")
		if has("attn_q_norm.weight") {
			l.QKNorm = arch.EachHead
		}
	}
	return errors.Join(m.OnlySigmoids(c), m.RoutedExperts(c, arch.Experts{Sigmoid: true, Choice: true,
		SumEps: arch.ChosenSumEps, Groups: 1, ChosenGroups: 1}))
}
